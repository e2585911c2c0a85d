//! How much device time a process has used.

use xsched_core::time::{Duration, Instant};

/// The device time that a process has used: what it says itself, which knows how long each of its
/// commands takes, within what the daemon has seen.
///
/// Since the last time that it said something, it is taken to have used all the time in which it
/// ran. It is taken to have used half of the time in which it ran at least, since others could not
/// use that, and no more than has passed since it connected.
#[derive(Debug)]
pub(crate) struct Used {
    begun: Instant,
    /// What it had said then, of times before this daemon.
    before_ns: u64,
    said_ns: u64,
    /// The time in which it ran, and how much of that was when it last said something.
    ran_ns: u64,
    ran_then_ns: u64,
    total_ns: u64,
    reported_ns: u64,
}

impl Used {
    /// A process that has connected now, and says that it has used so much before.
    pub(crate) const fn new(before_ns: u64, now: Instant) -> Self {
        Self {
            begun: now,
            before_ns,
            said_ns: 0,
            ran_ns: 0,
            ran_then_ns: 0,
            total_ns: 0,
            reported_ns: 0,
        }
    }

    /// It ran for this long since the last call, and says that it has used so much in all.
    pub(crate) fn count(&mut self, ran: Duration, said_ns: u64, now: Instant) {
        self.ran_ns = self.ran_ns.saturating_add(ran.as_ns());
        let said_ns = said_ns.wrapping_sub(self.before_ns).min(now.since(self.begun).as_ns());
        if said_ns > self.said_ns {
            (self.said_ns, self.ran_then_ns) = (said_ns, self.ran_ns);
        }
        let likely_ns = self.said_ns.saturating_add(self.ran_ns - self.ran_then_ns);
        self.total_ns = self.total_ns.max(likely_ns).max(self.ran_ns / 2);
    }

    pub(crate) const fn total(&self) -> Duration {
        Duration::from_ns(self.total_ns)
    }

    /// What the scheduler does not know yet.
    pub(crate) const fn unreported(&self) -> Duration {
        Duration::from_ns(self.total_ns - self.reported_ns)
    }

    /// The total, which the scheduler knows from now on.
    pub(crate) const fn report(&mut self) -> Duration {
        self.reported_ns = self.total_ns;
        self.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process, and how often a microsecond has passed since it connected.
    struct Rig(Used, u64);

    impl Rig {
        fn new() -> Self {
            Self(Used::new(500, Instant::ZERO), 0)
        }

        /// So many microseconds pass, and it ran for some of them. What it used, in microseconds.
        fn after(&mut self, us: u64, ran_us: u64, said_us: u64) -> u64 {
            self.1 += us;
            let now = Instant::from_ns(self.1 * 1_000);
            self.0.count(Duration::from_us(ran_us), 500 + said_us * 1_000, now);
            self.0.total().as_ns() / 1_000
        }
    }

    #[test]
    fn one_that_says_nothing_used_the_time_in_which_it_ran() {
        let mut rig = Rig::new();
        assert_eq!([rig.after(10, 10, 0), rig.after(10, 0, 0), rig.after(10, 4, 0)], [10, 10, 14]);
    }

    #[test]
    fn what_it_says_counts_also_for_what_it_used_while_it_was_held() {
        let mut rig = Rig::new();
        assert_eq!(rig.after(10, 4, 0), 4);
        assert_eq!(rig.after(10, 0, 12), 12);
    }

    #[test]
    fn what_another_used_of_its_time_is_put_right_later() {
        let mut rig = Rig::new();
        assert_eq!(rig.after(26, 26, 0), 26);
        assert_eq!(rig.after(0, 0, 16), 26);
        assert_eq!([rig.after(5, 5, 16), rig.after(10, 10, 16)], [26, 31]);
        assert_eq!(rig.after(1, 1, 32), 32);
    }

    #[test]
    fn it_cannot_say_that_it_used_nearly_nothing_or_more_than_there_was() {
        let mut rig = Rig::new();
        for ns in 1..=100 {
            rig.0.count(Duration::from_us(1), 500 + ns, Instant::from_ns(ns * 1_000));
        }
        assert_eq!(rig.0.total(), Duration::from_us(50));
        rig.1 = 100;
        assert_eq!([rig.after(100, 0, 1_000_000), rig.after(0, 0, 3)], [200, 200]);
    }

    #[test]
    fn what_is_reported_is_not_reported_again() {
        let mut rig = Rig::new();
        rig.after(10, 10, 0);
        assert_eq!(rig.0.report(), Duration::from_us(10));
        assert_eq!(rig.0.unreported(), Duration::ZERO);
    }
}
