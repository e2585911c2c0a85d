//! `xsched run`: a program that knows nothing of XQueues, with the interposer in front of its
//! driver.

use std::env;

use xsched_console::output::complain;
use xsched_console::{Ending, note};
use xsched_launch::LaunchArgs;

use crate::contract::interposers;
use crate::error::CliError;

/// Becomes the program. Returns only if that fails.
pub(crate) fn execute(args: &LaunchArgs) -> Result<Ending, CliError> {
    let launch = args.launch(&interposers()?, |name| env::var_os(name))?;
    let (launch, refused) = launch.unscheduled_if_refused();
    refused.iter().for_each(|line| complain(&format!("{line}\n")));
    for (name, value) in launch.variables() {
        note(|| format!("{name} is {}", value.to_string_lossy()));
    }
    Err(launch.exec_as_started().into())
}
