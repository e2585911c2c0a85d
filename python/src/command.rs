//! `python -m xsched`: the command line of the package.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use pyo3::prelude::*;
use xsched_launch::{Interposers, LaunchArgs, LaunchError, Messages};

/// Exit code of the command `xsched`.
const EXIT_OK: u8 = 0;
const EXIT_BAD_INPUT: u8 = 2;
/// Name in the help.
const NAME: &str = "python -m xsched";

/// Start programs with their streams scheduled.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    messages: Messages,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(LaunchArgs),
}

/// Carries out the arguments behind the module's name, and answers the exit code. The interposers
/// are those of the first of these folders that has them. Does not return if it becomes a program.
#[pyfunction]
pub(crate) fn main(arguments: Vec<OsString>, folders: Vec<PathBuf>) -> u8 {
    let arguments = std::iter::once(NAME.into()).chain(arguments);
    match Cli::try_parse_from(arguments) {
        Ok(cli) => {
            let error = run(&cli, &folders);
            complain(&format!("error: {error}"));
            EXIT_BAD_INPUT
        }
        // Help and version come this way too.
        Err(usage) => print_usage(&usage),
    }
}

/// Becomes the program. Returns only if that fails.
fn run(cli: &Cli, folders: &[PathBuf]) -> LaunchError {
    let Command::Run(args) = &cli.command;
    let launch = Interposers::find(folders)
        .and_then(|interposers| args.launch(&interposers, |name| env::var_os(name)));
    match launch {
        Ok(launch) => {
            let (launch, refused) = launch.unscheduled_if_refused();
            refused.iter().for_each(|line| complain(line));
            for (name, value) in launch.variables().iter().filter(|_| cli.messages.verbose) {
                complain(&format!("xsched: {name} is {}", value.to_string_lossy()));
            }
            launch.exec()
        }
        Err(error) => error,
    }
}

/// Prints help, the version or what is wrong with the arguments, and gives the exit code.
fn print_usage(usage: &clap::Error) -> u8 {
    match usage.print().and_then(|()| io::stdout().flush()) {
        Err(error) if !usage.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("error: cannot write standard output: {error}"));
            EXIT_BAD_INPUT
        }
        _ if usage.use_stderr() => EXIT_BAD_INPUT,
        _ => EXIT_OK,
    }
}

/// Writes a line to standard error. Nothing can be said of it if that is closed.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
