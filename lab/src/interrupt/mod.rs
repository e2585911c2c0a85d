//! Lv3 up close: what an interrupt costs and whether it changes results, for each mechanism, kind
//! of kernel, share of the device and number of queues. It works on hardware queues directly, so
//! that what is timed is the device, its driver and the backend, not the runtime.
//!
//! The order of things is for a GPU on which nothing of this has run before: careful
//! steps ([`canary`]) go first, and a new line of the driver's in the kernel's log ([`log`]) ends
//! everything.

pub(crate) mod canary;
pub(crate) mod cells;
pub(crate) mod log;
pub(crate) mod meanwhile;
mod queues;
mod run;

pub(crate) use run::{Event, Plan, Results, Stages, run};
