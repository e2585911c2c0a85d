//! The `xsched` command: it reads arguments, has the simulator or the lab do the work, and prints
//! the results.

mod args;
mod compare;
mod demo;
mod devices;
mod doctor;
mod error;
mod launch;
mod lv3;
mod manual;
mod node;
mod paper;
mod record;
mod replay;
mod run;
mod swarm;
mod text;
mod top;
pub mod variables;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use args::{Cli, Command, Sim};
use clap::{CommandFactory, Parser};
use error::{CliError, one_line};
use xsched_lab::console::{Ending, Verbosity, note, output};
use xsched_lab::parent;

/// Everything was fine.
const EXIT_OK: u8 = 0;
/// A check failed: an invariant was violated, a measured value was missed in a run over several
/// seeds, the swarm found something, or a replay differs from its record.
const EXIT_FINDING: u8 = 1;
/// Bad input: a file, an argument, or a place that cannot be written to. The same code as that of
/// mistakes which the argument parser finds.
const EXIT_BAD_INPUT: u8 = 2;

/// The whole command line, for a reference of all commands and options.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the arguments of this process, runs the command and returns its exit code: 0 if all is
/// well, 1 if a check failed, 2 for bad input.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version come this way too.
            return ExitCode::from(print_usage(&usage));
        }
    };
    match run(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::complain(&format!("error: {}\n", one_line(&error.to_string())));
            ExitCode::from(EXIT_BAD_INPUT)
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

/// Carries the command out, and prints what is wrong even if little is to be printed.
fn run(cli: &Cli) -> Result<u8, CliError> {
    cli.parent.map_or(Ok(()), parent::follow)?;
    match (cli.messages.quiet, cli.messages.verbose) {
        (true, _) => Verbosity::Quiet.set(),
        (_, true) => Verbosity::Verbose.set(),
        _ => Verbosity::Normal.set(),
    }
    let start = Instant::now();
    let code = execute(&cli.command)?;
    output::finish(Ending::new(code == EXIT_FINDING))?;
    note(|| format!("took {:.1} s", start.elapsed().as_secs_f64()));
    Ok(code)
}

fn execute(command: &Command) -> Result<u8, CliError> {
    let ending = match command {
        // With the code of the program that it tries.
        Command::Doctor(args) => return doctor::execute(args),
        Command::Bench(bench) => bench.execute().map_err(CliError::from),
        Command::Lab(lab) => lab.execute().map_err(CliError::from),
        Command::Devices(args) => devices::execute(args),
        Command::Demo(args) => demo::execute(args),
        Command::Run(args) => launch::execute(args),
        Command::Ps(args) => node::ps(args),
        Command::Top(args) => top::execute(args),
        Command::Ctl(command) => node::control(command),
        Command::Record(args) => record::execute(args),
        Command::Sim(Sim::Run(args)) => run::execute(args),
        Command::Sim(Sim::Compare(args)) => compare::execute(args),
        Command::Sim(Sim::Paper(args)) => paper::execute(args),
        Command::Sim(Sim::Lv3(args)) => lv3::execute(args),
        Command::Sim(Sim::Swarm(args)) => swarm::execute(args),
        Command::Replay(args) => replay::execute(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args),
    }?;
    Ok(match ending {
        Ending::Fine => EXIT_OK,
        Ending::Finding => EXIT_FINDING,
    })
}

/// Refuses seeds that would wrap around, so that every seed that is printed can be asked for.
fn check_seeds(first: u64, count: u64) -> Result<(), CliError> {
    match first.checked_add(count.saturating_sub(1)) {
        Some(_) => Ok(()),
        None => Err(CliError::Seeds { first, count }),
    }
}
