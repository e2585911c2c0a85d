//! `xsched completions` and `xsched man`: what is generated of the command line.

use std::fs;

use xsched_console::output::Stream;
use xsched_console::{Ending, note};

use crate::args::{CompletionsArgs, ManArgs};
use crate::error::CliError;

/// The name of the program.
const NAME: &str = "xsched";

/// Prints the script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Ending, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), NAME, &mut script);
    Stream::Stdout.insist(&String::from_utf8_lossy(&script))?;
    Ok(Ending::Fine)
}

/// Writes the manual pages.
pub(crate) fn man(args: &ManArgs) -> Result<Ending, CliError> {
    let folder = &args.out;
    let place = || folder.display().to_string();
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(crate::command(), folder))
        .map_err(|source| CliError::Write { place: place(), source })?;
    note(|| format!("wrote the manual pages to {}", place()));
    Ok(Ending::Fine)
}
