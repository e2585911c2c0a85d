//! Synchronous launching: highest priority first, with one command in flight that the host waits
//! for before it launches the next. Preemption needs no help of the device then, but after every
//! command the device stands still for a round trip of the host.
//!
//! Source: the variant "w/o progressive" of the XSched paper (OSDI 2025, figure 13), which in its
//! artifact is a threshold and a batch of 1.

use crate::scenario::{TaskSpec, WindowSpec};

/// A window of one command at level 1.
pub(super) fn one_at_a_time(task: &mut TaskSpec) {
    task.window = WindowSpec::Fixed;
    task.threshold = 1;
    task.batch = 1;
    task.level = Some(1);
}
