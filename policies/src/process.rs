//! A process that shares a device with others.

use xsched_core::id::{DeviceId, ProcessId};
use xsched_core::time::{Duration, Instant};

use crate::share::virtual_ns;

/// A place in the table plus one, or a process's place plus one; 0 is none.
pub(crate) type Link = u32;
/// Permille in a whole.
pub(crate) const WHOLE: u64 = 1_000;

/// A process on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) device: DeviceId,
    /// Queues of the process; 0 if the place is free.
    pub(crate) queues: u32,
    /// Queues of the process that are ready.
    pub(crate) ready: u32,
    /// The first of its queues, as its place in the table plus one.
    pub(crate) head: Link,
    /// Percentage of the process, in permille, and whether a hint of one of its queues says so.
    pub(crate) permille: u32,
    pub(crate) hinted: bool,
    pub(crate) held: bool,
    /// Further processes take part.
    pub(crate) shared: bool,
    /// Device time used, divided by the permille.
    pub(crate) used: u64,
    /// Budget that the process may still use, in thousandths of a nanosecond.
    pub(crate) budget: i64,
    /// Device time that it is taken to have used in its last turn since its last report, and until
    /// when: what it has not reported by then, it has not used, as far as turns are concerned.
    pub(crate) unreported: Duration,
    pub(crate) expected: Instant,
    /// Device time that it is taken to have used in all turns since its last report, for its
    /// budget: a command that turns interrupt is reported when it has ended.
    pub(crate) taken: Duration,
    /// The most device time that one report brought.
    pub(crate) longest: Duration,
}

/// A place that is free.
pub(crate) const FREE: Process = Process {
    id: ProcessId(0),
    device: DeviceId(0),
    queues: 0,
    ready: 0,
    head: 0,
    permille: 0,
    hinted: false,
    held: false,
    shared: false,
    used: 0,
    budget: 0,
    unreported: Duration::ZERO,
    expected: Instant::ZERO,
    taken: Duration::ZERO,
    longest: Duration::ZERO,
};

/// Device time in the unit of budgets.
pub(crate) fn budget_of(span: Duration) -> i64 {
    i64::try_from(span.as_ns().saturating_mul(WHOLE)).unwrap_or(i64::MAX)
}

impl Process {
    /// Usage of the process after the device time `span`.
    pub(crate) fn share(&self, span: Duration) -> u64 {
        virtual_ns(self.permille, span)
    }

    pub(crate) fn unreported(&self, now: Instant) -> Duration {
        if now < self.expected { self.unreported } else { Duration::ZERO }
    }

    /// Usage of the process, with what it has not reported.
    pub(crate) fn used(&self, now: Instant) -> u64 {
        self.used.saturating_add(self.share(self.unreported(now)))
    }

    /// Budget of the process, without what it has not reported: in earlier turns, and in this one.
    pub(crate) fn budget(&self, running: Duration) -> i64 {
        self.budget.saturating_sub(budget_of(self.taken + running))
    }
}
