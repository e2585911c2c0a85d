//! Strict utilisation partition between processes: percentages are upper bounds.
//!
//! This is [`pup`](crate::pup) with upper bounds: a process never uses more than its percentage of
//! a device's time, even if no other process wants it: the device stays idle then. Each process has
//! a budget that grows by its percentage of the time, to that of one timeslice (5 ms by default) at
//! most, and shrinks by the device time that it uses, as measured. What a command takes that cannot
//! be stopped is paid back before the next turn, and the budget of a process that has work grows to
//! its longest command's, so that shares hold with commands of any length. If the percentages add
//! up to more than 100, they are proportions.

use crate::engine::policy;
use crate::processes::Processes;

policy! {
    /// Strict utilisation partition between processes. See the [module](self).
    Spup(Processes) = Processes::new(true), "spup"
}
