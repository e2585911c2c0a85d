//! A program from its arguments to its exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use super::output::{self, OutputError};
use super::{Ending, Verbosity, note};

/// Exit code without a finding.
pub const EXIT_OK: u8 = 0;
/// Exit code after a failed check: a violated invariant, a missed value, a replay that differs.
pub const EXIT_FINDING: u8 = 1;
/// Exit code for bad input: a file, an argument, or a place that cannot be written to. Mistakes
/// that the argument parser finds have the same code.
pub const EXIT_BAD_INPUT: u8 = 2;
/// The exit codes, as the help of each command says them.
pub const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a check failed, 2 bad input or no device.";

/// Parses the arguments of this process, runs the command and returns the exit code.
#[must_use]
pub fn main<A: Parser, E: Display>(run: impl FnOnce(&A) -> Result<u8, E>) -> ExitCode {
    let code = match A::try_parse() {
        Ok(arguments) => run(&arguments).unwrap_or_else(|error| {
            output::complain(&format!("error: {}\n", one_line(&error.to_string())));
            EXIT_BAD_INPUT
        }),
        // Help and version come this way too.
        Err(usage) => print_usage(&usage),
    };
    ExitCode::from(code)
}

/// Runs a command with this verbosity, prints what a quiet process owes, and returns the exit code.
///
/// # Errors
/// If the command fails, or standard output cannot be written.
pub fn execute<E: From<OutputError>>(
    verbosity: Verbosity,
    command: impl FnOnce() -> Result<u8, E>,
) -> Result<u8, E> {
    verbosity.set();
    let start = Instant::now();
    let code = command()?;
    output::finish(Ending::new(code == EXIT_FINDING))?;
    note(|| format!("took {:.1} s", start.elapsed().as_secs_f64()));
    Ok(code)
}

impl Verbosity {
    /// The verbosity of the options `--quiet` and `--verbose`, of which one can be given.
    #[must_use]
    pub fn of(quiet: bool, verbose: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (_, true) => Self::Verbose,
            _ => Self::Normal,
        }
    }
}

impl From<Ending> for u8 {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Fine => EXIT_OK,
            Ending::Finding => EXIT_FINDING,
        }
    }
}

/// Prints help, the version or what is wrong with the arguments, and gives the exit code.
fn print_usage(usage: &clap::Error) -> u8 {
    match usage.print().and_then(|()| io::stdout().flush()) {
        _ if usage.use_stderr() => EXIT_BAD_INPUT,
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            output::complain(&format!("error: cannot write standard output: {error}\n"));
            EXIT_BAD_INPUT
        }
        _ => EXIT_OK,
    }
}

/// The text with control characters, line breaks above all, replaced by spaces: an error is one
/// line whatever file name it quotes.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
