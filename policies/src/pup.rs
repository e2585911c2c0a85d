//! Utilisation partition between processes: device time in proportion to percentages.
//!
//! As [`up`](crate::up), with processes in the place of queues: on each device the processes that
//! have a ready queue take turns, and all queues of a process run in its turn. A process has the
//! largest of the percentages that its queues on the device were given. Without hints it counts as
//! 1 %, with hints of 0 % as 0.1 %. What some processes do not use is shared in the same
//! proportions. Turns follow a timeslice, 5 ms by default, and device time is measured.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run.
//!
//! There is room for 64 processes, counted once for each device. Further ones share the turns of
//! others evenly, with their percentages added up; on a device without any process that has room
//! they are not scheduled.

use crate::engine::policy;
use crate::processes::Processes;

policy! {
    /// Utilisation partition between processes. See the [module](self).
    Pup(Processes) = Processes::new(false), "pup"
}
