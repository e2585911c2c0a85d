//! `xsched-lab bench open`, which other commands start to see whether a device can be used.

use std::env;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use super::child::{self, Ended};
use crate::device::hal::SpinHal;
use crate::device::hal::on_device;
use crate::error::{CommandError, UNUSABLE};
use crate::parent;
use xsched_console::{Ending, note};

/// Opening a device takes longer only if its driver hangs.
const OPEN_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
}

/// Opens the device and ends.
pub(super) fn execute(args: &OpenArgs) -> Result<Ending, CommandError> {
    let opened = on_device!(args.hal, args.device, |bench| {
        drop(bench);
        Ok(())
    });
    opened.map_err(CommandError::device)?;
    Ok(Ending::Fine)
}

/// Returns a command for this program with these arguments, in a process that ends with this one.
pub(super) fn program(
    arguments: impl IntoIterator<Item = String>,
    environment: &[(String, String)],
) -> Result<Command, CommandError> {
    let mut command = Command::new(env::current_exe().map_err(CommandError::device)?);
    command.args(arguments).args(parent::arguments()).envs(environment.iter().cloned());
    note(|| format!("runs {command:?}"));
    Ok(command)
}

/// Opens a device in a process of its own: one that this process had open would change what is
/// measured.
pub(super) fn in_a_process(
    hal: &str,
    device: u32,
    environment: &[(String, String)],
) -> Result<(), CommandError> {
    let folder = tempfile::tempdir().map_err(CommandError::Temporary)?;
    let device = device.to_string();
    let arguments = ["bench", "open", "--hal", hal, "--device", &device].map(str::to_owned);
    let file = |name| folder.path().join(name);
    match child::run(program(arguments, environment)?, &file("out"), &file("err"), OPEN_MAX) {
        Ended::Well => Ok(()),
        Ended::Badly(why) => Err(CommandError::device(why.trim_start_matches(UNUSABLE))),
    }
}
