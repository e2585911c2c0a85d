//! Records of real runs: whether the scheduler would decide the same again, and what the simulator
//! makes of the same workload.
//!
//! [`orders`] feeds what a recorded scheduler was fed to a fresh one and compares the orders.
//! [`Workload`] is what the applications did, whatever the scheduler made of it, and
//! [`predict`] runs it in the simulator, under the same policy or another.

mod error;
mod estimate;
mod extract;
mod orders;
mod predict;
mod read;
mod stalls;
mod trace;

pub use error::ReplayError;
pub use estimate::Overheads;
pub use extract::{Task, Workload};
pub use orders::{Difference, Orders, orders, orders_with};
pub use predict::{PredictOptions, PredictedTask, Prediction, predict};
pub use read::{Entries, MAX_RECORD_BYTES, Record};
