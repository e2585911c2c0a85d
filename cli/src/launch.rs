//! `xsched run`: a program that knows nothing of XQueues, with the interposer in front of its
//! driver.

use std::env;
use std::path::Path;

use xsched_console::output::complain;
use xsched_console::{Ending, note};
use xsched_launch::{Interposers, LaunchArgs, folders_beside};

use crate::doctor::refusing_loader;
use crate::error::CliError;

/// Becomes the program. Returns only if that fails.
pub(crate) fn execute(args: &LaunchArgs) -> Result<Ending, CliError> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    let folders = folders_beside(own.parent().unwrap_or(Path::new("/")));
    let mut launch = args.launch(&Interposers::find(&folders)?, |name| env::var_os(name))?;
    if let Some(why) = args.program.first().and_then(|name| refusing_loader(name)) {
        complain(&format!("xsched: {why}; it runs unscheduled\n"));
        launch = launch.unscheduled();
    }
    for (name, value) in launch.variables() {
        note(|| format!("{name} is {}", value.to_string_lossy()));
    }
    Err(launch.exec_as_started().into())
}
