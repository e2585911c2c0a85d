//! Utilisation partition: device time in proportion to percentages.
//!
//! On each device the ready queues take turns, so that over a round of a timeslice (5 ms by
//! default) each has used its part of the device time, as measured: its utilisation hint, as a part
//! of those of all ready queues. What others do not use is shared in the same proportions, so the
//! device is never left idle while a queue is ready. A queue without a hint counts as 1 %, one with
//! a hint of 0 % as 0.1 %; so both run, and nearly give way to the others.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use crate::share::{Share, TIMESLICE};

/// The policy. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Up(Share);

impl Up {
    /// With rounds of this length.
    #[must_use]
    pub const fn new(timeslice: Duration) -> Self {
        Self(Share { timeslice, weight })
    }
}

impl Default for Up {
    fn default() -> Self {
        Self::new(TIMESLICE)
    }
}

fn weight(info: &QueueInfo) -> u32 {
    u32::from(info.hints.utilization.unwrap_or(1)) * 10
        + u32::from(info.hints.utilization == Some(0))
}

impl Policy for Up {
    fn name(&self) -> &'static str {
        "up"
    }

    fn progress_every(&self) -> Option<Duration> {
        Some(self.0.progress_every())
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(timeslice) = hint else { return false };
        *self = Self::new(timeslice);
        true
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.0.observe(now, queue, event, queues);
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        self.0.decide(now, changed, queues, out);
    }
}
