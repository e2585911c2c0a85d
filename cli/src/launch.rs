//! `xsched run`: a program that knows nothing of XQueues, with the interposer in front of its
//! driver.

use std::env;

use xsched_console::output::complain;
use xsched_console::{Ending, note};
use xsched_launch::LaunchArgs;

use crate::contract::interposers;
use crate::doctor::refusing_loader;
use crate::error::CliError;

/// Becomes the program. Returns only if that fails.
pub(crate) fn execute(args: &LaunchArgs) -> Result<Ending, CliError> {
    let mut launch = args.launch(&interposers()?, |name| env::var_os(name))?;
    if let Some(why) = args.program.first().and_then(|name| refusing_loader(name)) {
        complain(&format!("xsched: {why}; it runs unscheduled\n"));
        launch = launch.unscheduled();
    }
    for (name, value) in launch.variables() {
        note(|| format!("{name} is {}", value.to_string_lossy()));
    }
    Err(launch.exec_as_started().into())
}
