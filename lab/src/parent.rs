//! Processes of this program that end with the process that started them, however that one ends.

use std::process;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::error::CommandError;

/// The name of the option that asks for it.
pub(crate) const NAME: &str = "parent";

/// Arguments for a process of this program that is to end with this thread.
pub(crate) fn arguments() -> [String; 2] {
    [format!("--{NAME}"), process::id().to_string()]
}

/// Has the kernel kill this process when `parent` ends, which is the number of the process that
/// started it.
pub(crate) fn follow(parent: u32) -> Result<(), CommandError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| CommandError::Parent(error.to_string()))?;
    // A parent that ended before the call above is not seen by it.
    let now = getppid().map(Pid::as_raw_pid).and_then(|pid| u32::try_from(pid).ok());
    if now == Some(parent) {
        return Ok(());
    }
    Err(CommandError::Parent(format!("process {parent}, which started this one, has ended")))
}
