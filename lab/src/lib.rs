//! Experiments: benches on real devices, their records, verdicts, charts and predictions, and the
//! commands that run them. Each bench runs on any device that implements
//! `device::BenchDevice`, and answers with a record that says what it was measured on.

mod bench;
mod commands;
mod demo;
mod device;
mod draw;
mod error;
mod interrupt;
mod judge;
pub mod kernels;
mod pace;
mod parent;
mod predict;
mod record;
mod report;
mod rows;
mod stats;
mod threads;
mod wait_placement;

use std::process::ExitCode;

use clap::CommandFactory;

/// The whole command line of `xsched-lab`, for a reference of all commands and options.
#[must_use]
pub fn command() -> clap::Command {
    commands::Cli::command()
}

/// Parses the arguments of this process, runs the command and returns its exit code: 0 if all is
/// well, 1 if a check failed, 2 for bad input or no device.
#[must_use]
pub fn main() -> ExitCode {
    xsched_console::program::main(commands::Cli::run)
}
