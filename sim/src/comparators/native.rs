//! Native concurrent streams: what the driver and the device do by themselves. Nothing is
//! scheduled; every task launches as far ahead as the launch queue allows, and the device shares
//! itself among the streams in the way that the scenario's `concurrency` says.
//!
//! Source: the co-running baseline ("native") of the XSched paper (OSDI 2025, section 7); how a
//! particular device shares itself is measured, and belongs to the scenario.

use crate::scenario::{TaskSpec, WindowSpec};

/// Commands in flight are limited only by what the launch queue of that depth takes.
pub(super) fn open_window(task: &mut TaskSpec, launch_queue: u32) {
    task.window = WindowSpec::Fixed;
    task.threshold = (launch_queue / 4).clamp(1, task.capacity);
    // Often enough that the window never closes before the host has seen that something is over.
    task.batch = (task.threshold / 4).max(1);
}
