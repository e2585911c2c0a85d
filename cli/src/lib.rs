//! The `xsched` command: it reads arguments, has the simulator or the lab do the work, and prints
//! the results.

mod args;
mod bench;
mod compare;
mod demo;
mod devices;
mod error;
mod lv3;
mod machine;
mod output;
mod paper;
mod progress;
mod replay;
mod run;
mod swarm;
mod table;
mod text;

use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use clap::{CommandFactory, Parser};

use args::{Bench, Cli, Command, Sim};
use error::{CliError, one_line};

/// Everything was fine.
const EXIT_OK: u8 = 0;
/// A check failed: an invariant was violated, a measured value was missed in a run over several
/// seeds, the swarm found something, or a replay differs from its record.
const EXIT_FINDING: u8 = 1;
/// Bad input: a file, an argument, or a place that cannot be written to. The same code as that of
/// mistakes which the argument parser finds.
const EXIT_BAD_INPUT: u8 = 2;

/// How a command ended that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Fine,
    Finding,
}

impl Ending {
    fn new(finding: bool) -> Self {
        if finding { Self::Finding } else { Self::Fine }
    }
}

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
            // Help and version come this way too, with code 0. If printing fails, there is no
            // place left to report it.
            let _ = usage.print();
            return ExitCode::from(if usage.use_stderr() { EXIT_BAD_INPUT } else { EXIT_OK });
        }
    };
    let result = match cli.command {
        Command::Bench(Bench::All(args)) => bench::all::execute(&args),
        Command::Bench(Bench::Preempt(args)) => bench::preempt(&args),
        Command::Bench(Bench::Interrupt(args)) => bench::interrupt::execute(&args),
        Command::Bench(Bench::Requests(args)) => bench::requests::execute(&args),
        Command::Bench(Bench::Placement(args)) => bench::placement::execute(&args),
        Command::Bench(Bench::Client(args)) => bench::requests::execute_client(&args),
        Command::Bench(Bench::FixedPriority(args)) => bench::spin::fixed_priority(&args),
        Command::Bench(Bench::Overhead(args)) => bench::spin::overhead(&args),
        Command::Bench(Bench::Partition(args)) => bench::spin::partition(&args),
        Command::Bench(Bench::Threshold(args)) => bench::spin::threshold(&args),
        Command::Bench(Bench::Background(args)) => bench::spin::background(&args),
        Command::Bench(Bench::Graphs(args)) => bench::graphs::graphs(&args),
        Command::Bench(Bench::Calibrate(args)) => bench::calibrate::execute(&args),
        Command::Bench(Bench::Predict(args)) => bench::predict::execute(&args),
        Command::Bench(Bench::Draw(args)) => bench::draw::execute(&args),
        Command::Devices(args) => devices::execute(&args),
        Command::Demo(args) => demo::execute(&args),
        Command::Sim(Sim::Run(args)) => run::execute(&args),
        Command::Sim(Sim::Compare(args)) => compare::execute(&args),
        Command::Sim(Sim::Paper(args)) => paper::execute(&args),
        Command::Sim(Sim::Lv3(args)) => lv3::execute(&args),
        Command::Sim(Sim::Swarm(args)) => swarm::execute(&args),
        Command::Replay(args) => replay::execute(&args),
    };
    match result {
        Ok(Ending::Fine) => ExitCode::from(EXIT_OK),
        Ok(Ending::Finding) => ExitCode::from(EXIT_FINDING),
        Err(error) => {
            output::complain(&format!("error: {}\n", one_line(&error.to_string())));
            ExitCode::from(EXIT_BAD_INPUT)
        }
    }
}

/// How many threads to use when nobody says.
fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Refuses seeds that would wrap around, so that every seed that is printed can be asked for.
fn check_seeds(first: u64, count: u64) -> Result<(), CliError> {
    match first.checked_add(count.saturating_sub(1)) {
        Some(_) => Ok(()),
        None => Err(CliError::Seeds { first, count }),
    }
}
