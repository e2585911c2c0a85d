//! Weighted fair queueing: device time in proportion to weights.
//!
//! On each device the ready queues take turns, so that over a round of a timeslice (5 ms by
//! default) each has used its weight's part of the device time, as measured. Without a hint a queue
//! has weight 1. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never
//! run. The device is never left idle while a queue is ready. How turns work: the source of
//! `share`.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use crate::share::{Share, TIMESLICE};

/// The policy. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Wfq(Share);

impl Wfq {
    /// With rounds of this length.
    #[must_use]
    pub const fn new(timeslice: Duration) -> Self {
        Self(Share { timeslice, weight })
    }
}

impl Default for Wfq {
    fn default() -> Self {
        Self::new(TIMESLICE)
    }
}

fn weight(info: &QueueInfo) -> u32 {
    info.hints.weight
}

impl Policy for Wfq {
    fn name(&self) -> &'static str {
        "wfq"
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
