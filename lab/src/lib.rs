//! Experiments: benches on real devices, their records, verdicts, charts and predictions, and the
//! commands that run them. Each bench runs on any device that implements
//! [`device::BenchDevice`], and answers with a record that says what it was measured on.

pub mod bench;
pub mod commands;
pub mod console;
pub mod demo;
pub mod device;
mod draw;
mod error;
pub mod html;
pub mod interrupt;
pub mod judge;
pub mod kernels;
pub mod machine;
pub mod pace;
pub mod paper;
pub mod parent;
mod pdf;
mod predict;
mod record;
mod rows;
pub mod stats;
mod threads;
pub mod wait_placement;

pub use error::{ArchiveError, CommandError};
