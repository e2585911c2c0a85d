//! Utilisation partition: device time in proportion to percentages.
//!
//! On each device the ready queues take turns, so that over a round of a timeslice (5 ms by
//! default) each has used its part of the device time, as measured: its utilisation hint, as a part
//! of those of all ready queues. What others do not use is shared in the same proportions, so the
//! device is never left idle while a queue is ready. A queue without a hint counts as 1 %, one with
//! a hint of 0 % as 0.1 %; so both run, and nearly give way to the others.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run.

use xsched_core::scheduler::QueueInfo;

crate::share::sharing_policy!(Up, "up", weight);

fn weight(info: &QueueInfo) -> u32 {
    u32::from(info.hints.utilization.unwrap_or(1)) * 10
        + u32::from(info.hints.utilization == Some(0))
}
