//! A process on a device, as the daemon of a node has it: one queue of the scheduler machine, which
//! is ready while any stream of the process has work, and whose gates close and open together.
//!
//! This is a model of what the daemon keeps, without pages and gates.

use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::time::{Duration, Instant};

/// A process on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    report: Report,
    used: Used,
    is_held: bool,
    by_hand: bool,
    /// Reports are wanted each time this much device time has been used.
    progress: Duration,
}

/// The device time of a process: what it says of itself, within what the daemon has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
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
    /// As in the daemon: since it last said something it has used all the time in which it ran; at
    /// least half of that in all, and no more than has passed.
    fn count(&mut self, ran: Duration, said_ns: u64, now: Instant) {
        self.ran_ns += ran.as_ns();
        let said_ns = said_ns.wrapping_sub(self.before_ns).min(now.since(self.begun).as_ns());
        if said_ns > self.said_ns {
            (self.said_ns, self.ran_then_ns) = (said_ns, self.ran_ns);
        }
        let likely_ns = self.said_ns + (self.ran_ns - self.ran_then_ns);
        self.total_ns = self.total_ns.max(likely_ns).max(self.ran_ns / 2);
    }

    const fn unreported_ns(&self) -> u64 {
        self.total_ns - self.reported_ns
    }
}

impl Unit {
    /// A process that has connected now, says that it has used so much before, has no work and is
    /// not held.
    pub(crate) fn new(now: Instant, before_ns: u64) -> Self {
        let used = Used { begun: now, before_ns, ..Used::default() };
        let (report, progress) = (Report::default(), Duration::MAX);
        Self { report, used, is_held: false, by_hand: false, progress }
    }

    /// Whether it has work.
    pub(crate) const fn is_loaded(&self) -> bool {
        self.report.pending()
    }

    /// Whether its gates are to be closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_held || self.by_hand
    }

    /// Whether a user holds it.
    pub(crate) const fn is_by_hand(&self) -> bool {
        self.by_hand
    }

    /// Whether it has work and may run.
    pub(crate) const fn runs(&self) -> bool {
        self.is_loaded() && !self.is_closed()
    }

    /// Says whether it has work. True if that has changed, and the scheduler is to hear of it.
    pub(crate) const fn look(&mut self, now: Instant, loaded: bool) -> bool {
        if loaded == self.is_loaded() {
            return false;
        }
        if loaded {
            self.report.submitted += 1;
            self.report.launched = self.report.submitted;
            self.report.ready_since = now;
        } else {
            self.report.retired = self.report.submitted;
        }
        true
    }

    /// Time has passed, in which it ran for so long. It says that it has used so much in all. True
    /// if the scheduler is to hear of it now.
    pub(crate) fn count(&mut self, ran: Duration, said_ns: u64, now: Instant) -> bool {
        self.used.count(ran, said_ns, now);
        self.progress != Duration::MAX && self.used.unreported_ns() >= self.progress.as_ns()
    }

    /// The device time after which the scheduler wants to know; [`Duration::MAX`] for never.
    pub(crate) fn left_to_report(&self) -> Duration {
        if self.progress == Duration::MAX {
            return Duration::MAX;
        }
        Duration::from_ns(self.progress.as_ns().saturating_sub(self.used.unreported_ns()))
    }

    /// What the scheduler is told now.
    pub(crate) const fn take_report(&mut self) -> Report {
        self.used.reported_ns = self.used.total_ns;
        self.report.busy = Duration::from_ns(self.used.total_ns);
        self.report
    }

    /// Takes an order of the scheduler. True if the scheduler is to hear that it is obeyed.
    pub(crate) const fn obey(&mut self, order: Order) -> bool {
        (self.report.epoch, self.report.hold) = match order {
            Order::Run { epoch } => (epoch, HoldState::Running),
            Order::Hold { epoch, .. } => (epoch, HoldState::Held(Level::Deactivate)),
            Order::Progress { every } => {
                self.progress = every;
                return false;
            }
            Order::Watch { .. } | Order::Reached { .. } => return false,
        };
        self.is_held = matches!(order, Order::Hold { .. });
        true
    }

    /// Holds it for a user, or ends that. The scheduler is to hear of it.
    pub(crate) const fn hold_by_hand(&mut self, hold: bool) {
        self.report.suspended = hold;
        self.by_hand = hold;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Order = Order::Hold { epoch: 7, level: Level::Deactivate };

    #[test]
    fn it_is_ready_from_the_first_work_to_the_last() {
        let mut unit = Unit::new(Instant::ZERO, 0);
        let at = Instant::from_ns;
        assert!(!unit.look(at(1), false));
        assert!(unit.look(at(2), true));
        assert!(!unit.look(at(3), true));
        assert_eq!((unit.report.ready_since, unit.is_loaded()), (at(2), true));
        assert!(unit.look(at(4), false));
        assert!(!unit.is_loaded());
    }

    #[test]
    fn a_hold_by_hand_outlives_that_of_the_scheduler() {
        let mut unit = Unit::new(Instant::ZERO, 0);
        unit.look(Instant::ZERO, true);
        assert!(unit.obey(HOLD));
        unit.hold_by_hand(true);
        assert!(unit.obey(Order::Run { epoch: 8 }));
        assert!(unit.is_closed() && unit.report.suspended);
        assert_eq!((unit.report.epoch, unit.report.hold), (8, HoldState::Running));
        unit.hold_by_hand(false);
        assert!(unit.runs());
    }

    #[test]
    fn progress_is_wanted_after_so_much_device_time() {
        let mut unit = Unit::new(Instant::ZERO, 500);
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
}
