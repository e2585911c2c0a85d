//! The long run of the runtime's stress test.

use anyhow::Result;
use clap::Args;

use crate::command::run as run_command;
use crate::test::library;

/// Trial to run.
#[derive(Clone, Copy, Debug, Args)]
pub struct Options {
    /// How long, in seconds.
    #[arg(long, default_value_t = 600)]
    pub seconds: u32,
    /// Run what the tests have built, with assertions and less optimisation.
    #[arg(long)]
    pub debug: bool,
    /// Where chance starts, to repeat a run; by default somewhere else each time.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Runs it.
///
/// # Errors
/// If something hangs, is left over, or breaks the contract between queue and device.
pub fn run(options: &Options) -> Result<()> {
    let mut command = library();
    command.args(["--test", "stress"]);
    command.args((!options.debug).then_some("--release")).args(["--", "--nocapture"]);
    command.env("XSCHED_STRESS_SECONDS", options.seconds.to_string());
    if let Some(seed) = options.seed {
        command.env("XSCHED_STRESS_SEED", seed.to_string());
    }
    run_command(&mut command)
}
