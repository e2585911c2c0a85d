//! A deterministic discrete-event simulator for preemptive device scheduling.
//!
//! It runs the queue machine, the scheduler machine and the policies of [`xsched_core`] and
//! [`xsched_policies`] unchanged, against a model of devices, host threads and their latencies. A
//! [`scenario::Scenario`] says what is simulated, [`run::run`] does it, and [`report`] turns the
//! [`outcome::Outcome`] into tables, JSON and pictures. The same seed gives the same bytes.
//!
//! [`run::run_with`] runs a policy of the caller's.
//!
//! A [`scenario::System`] is a model of another system, to run instead of a policy.
//!
//! Every run is watched by the checkers of [`xsched_core::check`]. [`swarm`] draws random scenarios
//! with faults and looks for violations.

#[cfg(test)]
extern crate self as xsched_sim;

mod clock;
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
pub mod stats;
pub mod swarm;
