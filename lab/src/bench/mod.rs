//! Benches: rows of commands on any device, timed with the runtime and without it.

pub mod calibrate;
pub mod graphs;
pub mod overhead;
pub mod partition;
pub mod preempt;
pub mod priority;
pub mod requests;
pub mod threshold;
