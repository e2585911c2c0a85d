//! A deterministic discrete-event simulator for preemptive device scheduling.
//!
//! It runs the queue machine, the scheduler machine and the policies of [`xsched_core`] and
//! [`xsched_policies`] unchanged, against a model of devices, host threads and their latencies. A
//! [`scenario::Scenario`] says what is simulated, [`run::run`] does it, and [`report`] turns the
//! [`outcome::Outcome`] into tables, JSON and pictures. The same seed gives the same bytes.
//!
//! [`run::run_with`] runs a policy of the caller's, and [`conformance`] says whether it keeps what
//! it promises.
//!
//! [`comparators`] are models of other systems, to run instead of a policy.
//!
//! Every run is watched by the checkers of [`xsched_core::check`]. [`swarm`] draws random scenarios
//! with faults and looks for violations.

mod clock;
pub mod comparators;
pub mod conformance;
mod device;
mod engine;
#[doc(hidden)]
pub mod fuzzing;
pub mod outcome;
pub mod paper;
pub mod replay;
pub mod report;
pub mod run;
mod sample;
pub mod scenario;
pub mod stats;
pub mod swarm;

/// The code of the chapter on policies, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/policies.md")]
struct PoliciesChapter;
