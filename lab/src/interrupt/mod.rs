//! Lv3 up close: what an interrupt costs and whether it changes results, for each mechanism, kind
//! of kernel, share of the device and number of queues. It works on hardware queues directly, so
//! that what is timed is the device, its driver and the backend, not the runtime.
//!
//! The order of things is for a GPU on which nothing of this has run before: careful
//! steps ([`canary`]) go first, and a new line of the driver's in the kernel's log ([`log`]) ends
//! everything.

pub mod canary;
pub mod cells;
pub mod log;
pub mod meanwhile;
mod queues;
mod run;

pub use queues::Queues;
pub use run::{Event, Plan, Results, Stages, run};
