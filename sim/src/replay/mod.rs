//! Records of real runs: whether the scheduler would decide the same again, and what the simulator
//! makes of the same workload.
//!
//! [`orders`] feeds what a recorded scheduler was fed to a fresh one and compares the orders.
//! [`Workload`] is what the applications did, whatever the scheduler made of it, and
//! [`predict`] runs it in the simulator, under the same policy or another.
//!
//! ```
//! use std::path::Path;
//!
//! use xsched_sim::replay::{Orders, PredictOptions, Record, Workload, orders, predict};
//! use xsched_sim::run::{RunOptions, run};
//! use xsched_sim::scenario::Scenario;
//!
//! # let text = "version = 1\nname = \"one\"\n[[device]]\nname = \"d\"\n[[task]]\nname = \"t\"\n\
//! #     arrival = { kind = \"closed\", think_ms = 1 }\nrequests = 30\n\
//! #     command = { kind = \"constant\", us = 100 }\ncommands = 4\n";
//! # let scenario = Scenario::parse(text, Path::new("one.toml"))?;
//! // The runtime writes the same format.
//! let options = RunOptions { record: true, ..RunOptions::default() };
//! let recorded = run(&scenario, &options, &mut |_| {})?.record.expect("asked for");
//!
//! let record = Record::parse(&recorded)?;
//! assert!(matches!(orders(&record)?, Orders::Identical { .. }));
//! let workload = Workload::extract(&record)?;
//! let prediction = predict(&workload, &PredictOptions::default(), &mut |_| {})?;
//! assert_eq!(prediction.tasks.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
