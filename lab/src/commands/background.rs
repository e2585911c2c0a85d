//! `xsched-lab bench background`: the background of another bench, in a process of its own.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use super::args::SpinArgs;
use crate::device::hal::SpinHal;
use crate::device::hal::on_device;
use crate::device::mode::Mode;
use crate::device::processes::{self, Request};
use crate::error::CommandError;
use xsched_console::Ending;

/// A background in a process of its own, which `fixed-priority` starts.
#[derive(Debug, Args)]
pub(crate) struct BackgroundArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device.
    #[arg(long)]
    pub(crate) device: u32,
    /// The file of the shared page.
    #[arg(long)]
    pub(crate) page: PathBuf,
    /// How it is kept apart from the task: one of the ways with processes.
    #[arg(long)]
    pub(crate) mode: Mode,
    /// Length of its commands.
    #[arg(long)]
    pub(crate) command_ns: u64,
    /// Waves of blocks of its commands.
    #[arg(long)]
    pub(crate) waves: u32,
    /// Commands in flight.
    #[arg(long)]
    pub(crate) threshold: u32,
}

/// The command line of a background in a process of its own.
pub(super) fn background_command(spin: &SpinArgs, request: &Request) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "background", "--hal", spin.hal.name()]);
    command.args(["--device", &spin.device.to_string(), "--page"]).arg(&request.page);
    command.args(["--mode", &Mode::Processes(request.apart).to_string()]);
    command.args(["--command-ns", &request.command_ns.to_string()]);
    command.args(["--waves", &request.waves.to_string()]);
    command.args(["--threshold", &request.threshold.to_string()]);
    Ok(command)
}

/// `xsched-lab bench background`, which other benches start.
pub(super) fn execute(args: &BackgroundArgs) -> Result<Ending, CommandError> {
    let Mode::Processes(apart) = args.mode else {
        return Err(CommandError::device(format!("`{}` is no way with processes", args.mode)));
    };
    let request = Request {
        page: args.page.clone(),
        apart,
        command_ns: args.command_ns,
        waves: args.waves,
        threshold: args.threshold,
    };
    let ran = on_device!(args.hal, args.device, |bench| processes::background(&bench, &request));
    ran.map_err(CommandError::device)?;
    Ok(Ending::Fine)
}
