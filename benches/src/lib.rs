//! How fast the simulator, the scheduler and the queue machine are.
//!
//! Each bench prints a table of figures with the conditions under which they hold, judges them
//! against the goals, and then measures the same work with criterion, so that a later run shows
//! what has become slower. `docs/src/results/runtime.md` says how to run them and what they found.
#![forbid(unsafe_code)]

pub mod clockwork;
pub mod decide;
pub mod machine;
pub mod measure;
pub mod mode;
pub mod scale;
pub mod staging;
pub mod throughput;
pub mod tiny;
