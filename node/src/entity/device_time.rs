//! Device time of a process: what it says itself, within what its scheduler has seen.

use xsched_core::time::{Duration, Instant};

/// Time in which a process ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunInterval {
    /// All of it.
    pub elapsed: Duration,
    /// The process's part of that. All of it if no other process ran, which could not use the
    /// device then. Zero if it is not known whether the process had work.
    pub share: Duration,
}

impl RunInterval {
    /// The process did not run.
    pub const NONE: Self = Self { elapsed: Duration::ZERO, share: Duration::ZERO };

    /// The process ran while no other one did.
    #[must_use]
    pub const fn alone(elapsed: Duration) -> Self {
        Self { elapsed, share: elapsed }
    }

    /// Interval in which `running` processes ran, this one among them.
    #[must_use]
    pub const fn among(running: u64, elapsed: Duration) -> Self {
        Self { elapsed, share: elapsed.per(running) }
    }

    /// The process might run, and may have had no work.
    #[must_use]
    pub const fn unknown(elapsed: Duration) -> Self {
        Self { elapsed, share: Duration::ZERO }
    }

    /// Returns whether it is known that no other process ran meanwhile.
    pub(super) fn is_alone(self) -> bool {
        self.share == self.elapsed && self.elapsed > Duration::ZERO
    }

    /// Least device time of the process.
    fn least(self) -> Duration {
        if self.share == self.elapsed { self.share } else { self.share.per(2) }
    }
}

/// Device time and waits as a process reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfReport {
    /// Device time that it has used in all, in nanoseconds.
    pub used_ns: u64,
    /// Number of its commands that have ended.
    pub ended: u64,
    /// Time for which its host has waited for the device, in microseconds, where a wait or an
    /// answer that it was done counts as one at least. Goes on from 0 after the highest number.
    /// `None` if the process cannot say.
    pub waited_us: Option<u32>,
}

impl From<u64> for SelfReport {
    /// The report of a process that says nothing but this device time.
    fn from(used_ns: u64) -> Self {
        Self { used_ns, ..Self::default() }
    }
}

/// Device time that a process has used.
///
/// Time in which no other process ran is all its own. Of time in which others ran as well it is
/// taken to have used at least half of its part. Since the last time that it said something, it is
/// taken to have used its part.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceTime {
    begun: Instant,
    /// Device time that the process had reported then.
    before_ns: u64,
    pub(super) said_ns: u64,
    /// Part of the time in which it ran, and how much that was when it last said something.
    share_ns: u64,
    share_then_ns: u64,
    least_ns: u64,
    most_ns: u64,
    /// Time that others had while it ran, as far as that was not taken off yet.
    debt: Duration,
    pub(super) total_ns: u64,
    reported_ns: u64,
}

impl DeviceTime {
    pub(super) const fn new(before_ns: u64, now: Instant) -> Self {
        Self {
            begun: now,
            before_ns,
            said_ns: 0,
            share_ns: 0,
            share_then_ns: 0,
            least_ns: 0,
            most_ns: 0,
            debt: Duration::ZERO,
            total_ns: 0,
            reported_ns: 0,
        }
    }

    /// Counts time in which the process ran, and says that it has used this much in all.
    pub(super) fn count(&mut self, ran: RunInterval, said_ns: u64, now: Instant) {
        let ran = self.settle_debt(ran);
        self.share_ns = self.share_ns.saturating_add(ran.share.as_ns());
        self.least_ns = self.least_ns.saturating_add(ran.least().as_ns());
        self.most_ns = self.most_ns.saturating_add(ran.elapsed.as_ns()).max(self.least_ns);
        let said_ns = said_ns.wrapping_sub(self.before_ns).min(now.since(self.begun).as_ns());
        if said_ns > self.said_ns {
            (self.said_ns, self.share_then_ns) = (said_ns, self.share_ns);
        }
        let likely_ns = self.said_ns.saturating_add(self.share_ns - self.share_then_ns);
        self.total_ns = self.total_ns.max(likely_ns.clamp(self.least_ns, self.most_ns));
    }

    /// Others had the device this long while the process ran.
    pub(super) fn charge(&mut self, overrun: Duration) {
        self.debt += overrun;
    }

    /// Takes off what others had.
    fn settle_debt(&mut self, ran: RunInterval) -> RunInterval {
        let settled = self.debt.min(ran.share);
        self.debt = self.debt - settled;
        RunInterval { elapsed: ran.elapsed - settled, share: ran.share - settled }
    }

    /// Device time that the scheduler does not know yet.
    pub(super) const fn unreported(&self) -> Duration {
        Duration::from_ns(self.total_ns - self.reported_ns)
    }

    /// The total, which the scheduler knows from now on.
    pub(super) const fn report(&mut self) -> Duration {
        self.reported_ns = self.total_ns;
        Duration::from_ns(self.total_ns)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_us(us)
    }

    /// A process, and the microseconds since it connected.
    struct Rig(DeviceTime, u64);

    impl Rig {
        fn new() -> Self {
            Self(DeviceTime::new(500, Instant::ZERO), 0)
        }

        /// Device time in microseconds, after some in which it ran for a part.
        fn after(&mut self, us: u64, ran: RunInterval, said_us: u64) -> u64 {
            self.1 += us;
            let now = Instant::from_ns(self.1 * 1_000);
            self.0.count(ran, 500 + said_us * 1_000, now);
            self.0.total_ns / 1_000
        }

        /// Device time after some in which it ran beside one other.
        fn beside(&mut self, time: u64, said_us: u64) -> u64 {
            self.after(time, RunInterval::among(2, us(time)), said_us)
        }
    }

    #[test]
    fn time_in_which_no_other_ran_is_its_own_whatever_it_says() {
        let mut rig = Rig::new();
        let alone = |time| RunInterval::alone(us(time));
        assert_eq!(rig.after(10, alone(10), 0), 10);
        assert_eq!(rig.after(10, RunInterval::NONE, 0), 10);
        assert_eq!(rig.after(10, alone(4), 30), 14);
        assert_eq!(rig.after(100, alone(100), 31), 114);
    }

    #[test]
    fn beside_others_it_used_what_it_says_within_bounds() {
        let mut rig = Rig::new();
        assert_eq!(rig.beside(100, 0), 50, "it says nothing yet");
        assert_eq!(rig.beside(0, 30), 50, "what was reported is not taken back");
        assert_eq!([rig.beside(100, 120), rig.beside(20, 120)], [120, 130]);
        assert_eq!(rig.beside(20, 240), 240, "no more than there was");
        assert_eq!(rig.after(400, RunInterval::NONE, 500), 240);
        // At least half of its part.
        let mut rig = Rig::new();
        for said in 1..=100 {
            rig.beside(4, said / 100);
        }
        assert_eq!(rig.beside(0, 2), 198);
        let mut silent = Rig::new();
        silent.beside(400, 1);
        assert_eq!(silent.beside(800, 2), 300);
    }

    #[test]
    fn where_it_is_not_known_whether_it_had_work_it_used_what_it_says() {
        let mut rig = Rig::new();
        let unknown = RunInterval::unknown(us(100));
        assert_eq!([rig.after(100, unknown, 0), rig.after(100, unknown, 120)], [0, 120]);
    }

    #[test]
    fn what_is_reported_is_not_reported_again() {
        let mut rig = Rig::new();
        rig.after(10, RunInterval::alone(us(10)), 0);
        assert_eq!(rig.0.report(), Duration::from_us(10));
        assert_eq!(rig.0.unreported(), Duration::ZERO);
    }
}
