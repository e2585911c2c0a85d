//! Several queues that are held and let go together, as one queue of a scheduler.
//!
//! This is how the daemon of a node has a process on a GPU. The unit is ready while any of its
//! queues has work. What it reports is made up of that and of the device time that it uses; how its
//! queues are held is its driver's business.
//!
//! ```
//! use xsched_core::message::Order;
//! use xsched_core::time::Instant;
//! use xsched_core::unit::Unit;
//!
//! let now = Instant::ZERO;
//! let mut unit = Unit::new(0, now);
//! assert!(unit.look(true, 0, now), "the scheduler is to hear that it has work");
//! assert!(unit.take_report().pending());
//! unit.obey(Order::Run { epoch: 1 });
//! assert!(unit.runs());
//! ```

use crate::level::Level;
use crate::message::{HoldState, Order, Report};
use crate::time::{Duration, Instant};

/// Several queues that are held and let go together.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    report: Report,
    used: Used,
    is_held: bool,
    by_hand: bool,
    for_gang: bool,
    gives_way: bool,
    /// Reports are wanted each time this much device time has been used.
    progress: Duration,
}

impl Unit {
    /// A unit that is known from now on, has no work and is not held. It says that it has used
    /// `before_ns` nanoseconds of device time before.
    #[must_use]
    pub fn new(before_ns: u64, now: Instant) -> Self {
        Self {
            report: Report::default(),
            used: Used::new(before_ns, now),
            is_held: false,
            by_hand: false,
            for_gang: false,
            gives_way: false,
            progress: Duration::MAX,
        }
    }

    /// Whether it has work.
    #[must_use]
    pub const fn is_loaded(&self) -> bool {
        self.report.pending()
    }

    /// Whether it has work and may run.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.is_loaded() && !self.is_held()
    }

    /// Whether its queues are to be held.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.is_held || self.by_hand || self.for_gang
    }

    /// Whether the scheduler lets it run, whatever else it is held for.
    #[must_use]
    pub const fn is_ordered_to_run(&self) -> bool {
        !self.is_held
    }

    /// Whether a user holds it.
    #[must_use]
    pub const fn is_held_by_hand(&self) -> bool {
        self.by_hand
    }

    /// It has work or none, and says that it has used `said_ns` nanoseconds of device time in all.
    /// True if work has begun or ended, which the scheduler is to hear.
    pub fn look(&mut self, is_loaded: bool, said_ns: u64, now: Instant) -> bool {
        self.count(Duration::ZERO, said_ns, now);
        if is_loaded == self.is_loaded() {
            return false;
        }
        if is_loaded {
            self.report.submitted += 1;
            self.report.launched = self.report.submitted;
            self.report.ready_since = now;
        } else {
            self.report.retired = self.report.submitted;
        }
        true
    }

    /// Time has passed, in which it ran for this long, and it says that it has used `said_ns`
    /// nanoseconds of device time in all. True if the scheduler wants to hear now what it used.
    pub fn count(&mut self, ran: Duration, said_ns: u64, now: Instant) -> bool {
        self.used.count(ran, said_ns, now);
        self.progress != Duration::MAX && self.used.unreported() >= self.progress
    }

    /// The device time until the scheduler wants to hear of it; [`Duration::MAX`] for never.
    #[must_use]
    pub const fn left_to_report(&self) -> Duration {
        if self.progress.as_ns() == Duration::MAX.as_ns() {
            return Duration::MAX;
        }
        Duration::from_ns(self.progress.as_ns().saturating_sub(self.used.unreported().as_ns()))
    }

    /// The device time that it has used.
    #[must_use]
    pub const fn used(&self) -> Duration {
        Duration::from_ns(self.used.total_ns)
    }

    /// What the scheduler is told now.
    pub const fn take_report(&mut self) -> Report {
        self.report.busy = self.used.report();
        self.report
    }

    /// Takes an order of the scheduler, which is then obeyed if the queues are held as
    /// [`Unit::is_held`] says. True if the scheduler is to hear of that.
    pub const fn obey(&mut self, order: Order) -> bool {
        match order {
            Order::Run { epoch } => {
                (self.report.epoch, self.report.hold) = (epoch, HoldState::Running);
                self.is_held = false;
            }
            Order::Hold { epoch, .. } => {
                self.report.epoch = epoch;
                self.report.hold = HoldState::Held(Level::Deactivate);
                self.is_held = true;
            }
            Order::Progress { every } => {
                self.progress = every;
                return false;
            }
            Order::Watch { .. } | Order::Reached { .. } => return false,
        }
        true
    }

    /// Holds it for a user, or ends that, which the scheduler is to hear.
    pub const fn hold_by_hand(&mut self, hold: bool) {
        self.by_hand = hold;
        self.report.suspended = hold || self.gives_way;
    }

    /// Holds it until the others of its gang may run as well, or ends that. One that gives way
    /// claims nothing, which the scheduler is to hear.
    pub const fn hold_for_gang(&mut self, hold: bool, gives_way: bool) {
        self.for_gang = hold;
        self.gives_way = gives_way;
        self.report.suspended = self.by_hand || gives_way;
    }
}

/// The device time that a unit has used: what it says itself, which knows how long each of its
/// commands takes, within what its driver has seen.
///
/// Since the last time that it said something, it is taken to have used all the time in which it
/// ran. It is taken to have used at least half of the time in which it ran, and no more than has
/// passed since it was known: what others had on the device before they were held may run on in the
/// time in which it runs, and what it had itself runs on after that.
#[derive(Clone, Copy, Debug)]
struct Used {
    begun: Instant,
    /// What it had said then.
    before_ns: u64,
    said_ns: u64,
    /// The time in which it ran, and how much of that was when it last said something.
    ran_ns: u64,
    ran_then_ns: u64,
    total_ns: u64,
    reported_ns: u64,
}

impl Used {
    const fn new(before_ns: u64, now: Instant) -> Self {
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
    fn count(&mut self, ran: Duration, said_ns: u64, now: Instant) {
        self.ran_ns = self.ran_ns.saturating_add(ran.as_ns());
        let said_ns = said_ns.wrapping_sub(self.before_ns).min(now.since(self.begun).as_ns());
        if said_ns > self.said_ns {
            (self.said_ns, self.ran_then_ns) = (said_ns, self.ran_ns);
        }
        let likely_ns = self.said_ns.saturating_add(self.ran_ns - self.ran_then_ns);
        self.total_ns = self.total_ns.max(likely_ns).max(self.ran_ns / 2);
    }

    /// What the scheduler does not know yet.
    const fn unreported(&self) -> Duration {
        Duration::from_ns(self.total_ns - self.reported_ns)
    }

    /// The total, which the scheduler knows from now on.
    const fn report(&mut self) -> Duration {
        self.reported_ns = self.total_ns;
        Duration::from_ns(self.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Order = Order::Hold { epoch: 7, level: Level::Deactivate };

    #[test]
    fn it_is_ready_from_the_first_work_to_the_last() {
        let mut unit = Unit::new(0, Instant::ZERO);
        let at = Instant::from_ns;
        assert!(!unit.look(false, 0, at(1)));
        assert!(unit.look(true, 0, at(2)));
        assert!(!unit.look(true, 0, at(3)));
        assert_eq!((unit.report.ready_since, unit.is_loaded()), (at(2), true));
        assert!(unit.look(false, 0, at(4)));
        assert!(!unit.is_loaded());
    }

    #[test]
    fn a_hold_by_hand_outlives_that_of_the_scheduler() {
        let mut unit = Unit::new(0, Instant::ZERO);
        unit.look(true, 0, Instant::ZERO);
        assert!(unit.obey(HOLD));
        unit.hold_by_hand(true);
        assert!(unit.obey(Order::Run { epoch: 8 }));
        assert!(unit.is_held() && unit.report.suspended);
        assert_eq!((unit.report.epoch, unit.report.hold), (8, HoldState::Running));
        unit.hold_by_hand(false);
        assert!(unit.runs());
    }

    #[test]
    fn a_hold_for_the_gang_is_none_of_the_scheduler_and_may_claim_nothing() {
        let mut unit = Unit::new(0, Instant::ZERO);
        unit.look(true, 0, Instant::ZERO);
        unit.hold_for_gang(true, false);
        assert!(unit.is_held() && unit.is_ordered_to_run() && !unit.report.suspended);
        unit.hold_for_gang(true, true);
        assert!(unit.report.suspended);
        unit.hold_by_hand(true);
        unit.hold_for_gang(false, false);
        assert!(unit.is_held() && unit.report.suspended);
        unit.hold_for_gang(true, true);
        unit.hold_by_hand(false);
        assert!(unit.is_held() && unit.report.suspended);
        unit.hold_for_gang(false, false);
        assert!(unit.runs() && !unit.report.suspended);
    }

    #[test]
    fn progress_is_wanted_after_so_much_device_time() {
        let mut unit = Unit::new(500, Instant::ZERO);
        let us = Duration::from_us;
        let at = |us: u64| Instant::from_ns(us * 1_000);
        assert!(!unit.count(us(1_000), 500, at(1_000)), "the scheduler has not asked");
        assert!(!unit.obey(Order::Progress { every: us(50) }));
        unit.take_report();
        assert!(!unit.count(us(30), 500, at(1_030)));
        assert_eq!(unit.left_to_report(), us(20));
        assert!(unit.count(us(30), 500, at(1_060)));
        assert_eq!(unit.take_report().busy, us(1_060));
        // It says less than it ran for, and later more, while it is held.
        assert!(!unit.count(us(40), 500 + 1_060_000, at(1_100)));
        assert_eq!(unit.take_report().busy, us(1_060));
        assert!(unit.count(us(0), 500 + 1_120_000, at(1_200)));
        assert_eq!(unit.take_report().busy, us(1_120));
    }

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
            self.0.total_ns / 1_000
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
        assert_eq!(rig.after(100, 100, 0), 100);
        assert_eq!(rig.after(0, 0, 96), 100);
        assert_eq!([rig.after(2, 2, 96), rig.after(10, 10, 96)], [100, 108]);
        assert_eq!(rig.after(1, 1, 109), 109);
    }

    #[test]
    fn it_cannot_say_that_it_used_little_of_its_time_or_more_than_there_was() {
        let mut rig = Rig::new();
        for ns in 1..=100 {
            rig.0.count(Duration::from_us(1), 500 + ns, Instant::from_ns(ns * 1_000));
        }
        assert_eq!(rig.0.total_ns, 50_000);
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
