//! A deterministic discrete-event simulator for preemptive device scheduling.
//!
//! It runs the queue machine, the scheduler machine and the policies of [`xsched_core`] and
//! [`xsched_policies`] unchanged, against a model of devices, host threads and their latencies. The
//! same seed gives the same bytes.
//!
//! | to do this | start from |
//! |---|---|
//! | say what is simulated | [`scenario::Scenario`]; [`scenario::reference`] lists its keys |
//! | run it once, under a policy by name | [`run::run`] |
//! | run it under a policy of your own | [`run::run_with`] |
//! | run it with many seeds | [`report::run_series`] |
//! | run it under several policies | [`report::run_comparison`] |
//! | see tables, JSON, pictures and timelines | [`report`] |
//! | compare a policy with a model of another system | [`scenario::System`] |
//! | replay a record of a real run | [`replay`] |
//! | simulate jobs on the nodes of a cluster | [`cluster`] |
//! | look for violated invariants in random runs with faults | [`swarm`] |
//!
//! Every run can be watched by the checkers of [`xsched_core::check`]. Times are in nanoseconds, in
//! fields that end with `_ns`; figures for people are in milliseconds.
//!
//! # Example
//!
//! An inference server shares a device with a batch job. Under `fcfs` the server's commands wait
//! for those of the job; under `hpf` the job is held at Lv2 while the server has work.
//!
//! ```
//! use std::path::Path;
//!
//! use xsched_sim::report::{Combination, run_comparison};
//! use xsched_sim::scenario::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     version = 1
//!     name = "server-and-batch"
//!     level = 2
//!     duration_ms = 200
//!
//!     [[device]]
//!     name = "gpu0"
//!
//!     [[task]]
//!     name = "server"
//!     priority = 10
//!     arrival = { kind = "periodic", period_ms = 10 }
//!     command = { kind = "constant", us = 100 }
//!     commands = 20
//!
//!     [[task]]
//!     name = "batch"
//!     arrival = { kind = "closed", think_ms = 0 }
//!     command = { kind = "constant", us = 200 }
//!     commands = 50
//!     "#,
//!     Path::new("example.toml"),
//! )?;
//!
//! let under = |policy: &str| Combination { policy: policy.to_owned(), level: Some(2) };
//! let policies = ["fcfs", "hpf"].map(under);
//! let comparison = run_comparison(&scenario, &policies, None, 1, 1, &|_| {})?;
//! let p99_ms = |run: usize| {
//!     let server = comparison.runs[run].first().task("server").expect("the scenario's task");
//!     server.latency_ms.p99.expect("requests were served")
//! };
//! assert!(p99_ms(1) < 0.7 * p99_ms(0), "highest priority first helps the server");
//! assert_eq!(comparison.violations(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
extern crate self as xsched_sim;

mod clock;
pub mod cluster;
mod comparators;
mod device;
mod engine;
mod gate;
pub mod outcome;
pub mod replay;
pub mod report;
pub mod run;
pub mod sample;
pub mod scenario;
#[cfg(test)]
mod sound;
pub mod stats;
pub mod swarm;
