//! Weighted fair queueing: device time in proportion to weights.
//!
//! On each device the ready queues take turns, so that over a timeslice (5 ms by default)
//! each has used its weight's part of the device time, as measured. Without a hint a queue
//! has weight 1. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never
//! run. The device is never left idle while a queue is ready. How turns work: the source of
//! `share`.

use xsched_core::scheduler::QueueInfo;
use xsched_core::time::Duration;

use crate::engine::policy;
use crate::share::{Share, TIMESLICE};

policy! {
    /// Weighted fair queueing. See the [module](self).
    Wfq(Share), "wfq"
}

impl Wfq {
    /// With rounds of this length.
    #[must_use]
    pub const fn new(timeslice: Duration) -> Self {
        Self(Share::new(timeslice, weight))
    }

    pub(crate) const fn with_classes(self) -> Self {
        Self(self.0.with_classes())
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
