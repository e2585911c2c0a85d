//! Benches: rows of commands on any device, timed with the runtime and without it.

pub(crate) mod calibrate;
pub(crate) mod graphs;
pub(crate) mod overhead;
pub(crate) mod partition;
pub(crate) mod preempt;
pub(crate) mod priority;
pub(crate) mod requests;
pub(crate) mod threshold;
