//! Commands that end after a hold has begun.

use xsched_core::time::{Duration, Instant};

/// Time after a hold at which what has ended is looked at first, and then each time that a quarter
/// more has passed.
const FIRST: Duration = Duration::from_us(50);
/// Time after a hold up to which what ends had the device. One that is held could otherwise take
/// upon itself what others use, however long that is.
const LONGEST: Duration = Duration::from_ms(10);

/// A hold of a process, and what has ended since.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldProbe {
    begun: Instant,
    /// The process had the device up to then.
    ran_until: Instant,
    /// Commands of the process that have ended in all.
    ended: u64,
    last_end: Option<Instant>,
}

impl HoldProbe {
    pub(super) const fn begin(&mut self, now: Instant) {
        *self = Self { begun: now, ran_until: now, ended: self.ended, last_end: None };
    }

    pub(super) const fn note_ended(&mut self, ended: u64) {
        self.ended = ended;
    }

    /// When the hold began.
    #[must_use]
    pub const fn begun(&self) -> Instant {
        self.begun
    }

    /// When the process was last seen to have ended a command after that.
    #[must_use]
    pub const fn last_end(&self) -> Option<Instant> {
        self.last_end
    }

    /// Time for which the process may have had the device since the last call, if commands have
    /// ended since then that took `ended_ns` in all, and `ended` commands in all. When they ended
    /// is known as well as this is called often; the process did not have the device for longer
    /// than they took, if it ran others in between.
    pub(super) fn ran(
        &mut self,
        since: Instant,
        ended: u64,
        ended_ns: u64,
        now: Instant,
    ) -> Duration {
        if std::mem::replace(&mut self.ended, ended) != ended {
            self.last_end = Some(now);
        }
        if ended_ns == 0 {
            return Duration::ZERO;
        }
        let until = (since + now.since(since).per(2)).min(self.begun + LONGEST);
        let ran = until.since(std::mem::replace(&mut self.ran_until, until));
        ran.min(Duration::from_ns(ended_ns))
    }

    /// Time until what has ended is to be looked at; [`Duration::MAX`] for never.
    pub(super) fn next_in(&self, now: Instant) -> Duration {
        let passed = now.since(self.begun);
        if passed >= LONGEST {
            return Duration::MAX;
        }
        let mut due = FIRST;
        while due <= passed {
            due += due.per(4);
        }
        due - passed
    }
}
