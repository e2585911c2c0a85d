//! Weighted fair queueing: device time in proportion to weights.
//!
//! On each device the ready queues take turns, so that over a timeslice (5 ms by default)
//! each has used its weight's part of the device time, as measured. Without a hint a queue
//! has weight 1. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never
//! run. The device is never left idle while a queue is ready. How turns work: the source of
//! `share`.

use xsched_core::hint::HintKind;
use xsched_core::scheduler::QueueInfo;

use crate::engine::policy;
use crate::share::Share;

policy! {
    /// Weighted fair queueing. See the [module](self).
    Wfq(Share) = Share::new(weight, HintKind::Weight), "wfq"
}

pub(crate) fn weight(info: &QueueInfo) -> u32 {
    info.hints.weight
}
