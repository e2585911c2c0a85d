//! Utilisation partition: device time in proportion to percentages.
//!
//! On each device the ready queues take turns, so that over a timeslice (5 ms by default) each has
//! used its part of the device time, as measured: its utilisation hint, as a part of those of all
//! ready queues. What some queues do not use is shared in the same proportions, so the device is
//! never left idle while a queue is ready. A queue without a hint counts as 1 %, one with a hint of
//! 0 % as 0.1 %; so both run, and nearly give way to the other queues.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run.

use xsched_core::hint::HintKind;
use xsched_core::scheduler::QueueInfo;

use crate::engine::policy;
use crate::share::Share;

policy! {
    /// Utilisation partition. See the [module](self).
    Up(Share) = Share::new(permille, HintKind::Share), "up"
}

/// A queue's percentage, in permille: 1 % without a hint, and 0.1 % for 0 %.
pub(crate) fn permille(info: &QueueInfo) -> u32 {
    (u32::from(info.hints.utilization.unwrap_or(1)) * 10).max(1)
}
