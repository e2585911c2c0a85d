//! The thread that decides: the scheduler machine, and the gates of all processes.
//!
//! The modules below [`driver`] say what it does, and the others what it knows.

mod account;
mod client;
mod device;
mod driver;
mod figures;
mod gang;
mod gpu_client;
mod gpu_clients;
mod on_gpu;
mod op;
mod record;
mod rights;
mod shares;
mod spin;

pub(crate) use account::{BOUNDS_NS, Histogram};
pub(crate) use client::Client;
pub(crate) use driver::Driver;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use driver::{TestDriver, told};
pub(crate) use figures::{Figures, Present, Total};
pub use op::FirstHold;
pub(crate) use op::{Gpu, Known, Op, Part, Tuning, hints};
pub(crate) use record::Tape;
pub(crate) use rights::{Change, ChangedBy};
