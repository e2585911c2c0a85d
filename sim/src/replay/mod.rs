//! Records of real runs: whether the scheduler would decide the same again, and what the simulator
//! makes of the same workload.
//!
//! [`orders`] feeds what a recorded scheduler was fed to a fresh one and compares the orders.
//! [`Workload`] is what the applications did, whatever the scheduler made of it, and
//! [`predict`] runs it in the simulator, under the same policy or another.
//!
//! A request is the commands from the first one after a waited-for command to the next waited-for
//! command. Taken from the record are:
//!
//! | what | as |
//! |---|---|
//! | device time of a command | busy time of its completion, shared by those that ended with it |
//! | think time | from the end of a request to the next submit |
//! | host time between submits | without waits for room |
//! | hints, process, level, window, capacity | as they were first |
//! | launch latency | median, without overlap, of latency less device and host time |
//! | scheduler latency | median time from a ready queue to the scheduler's round |
//! | time of a stop | median time from an order to hold to its report |
//! | time to wake a queue | median time from the end of a hold to a completion, less device time |
//! | stalls | unexplained times between completions |
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
