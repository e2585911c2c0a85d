//! The `xsched` command: reads arguments, has the simulator or the daemon do the work, and prints
//! the results.

mod args;
mod cdi;
mod cluster;
mod compare;
mod contract;
mod devices;
mod doctor;
mod environment;
mod error;
mod launch;
mod lv3;
mod manual;
mod meaning;
mod node;
mod paper;
mod record;
mod replay;
mod run;
mod swarm;
mod text;
mod top;
pub mod variables;

use std::process::ExitCode;

use args::{Cli, Command, Sim};
use clap::CommandFactory;
use error::CliError;
use xsched_console::{Verbosity, program};

/// The whole command line, for a reference of all commands and options.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the arguments of this process, runs the command and returns its exit code: 0 if all is
/// well, 1 if a check failed, 2 for bad input.
#[must_use]
pub fn main() -> ExitCode {
    program::main(|cli: &Cli| {
        let verbosity = Verbosity::of(cli.messages.quiet, cli.messages.verbose);
        program::execute(verbosity, || execute(&cli.command))
    })
}

fn execute(command: &Command) -> Result<u8, CliError> {
    let ending = match command {
        // With the code of the program that it tries.
        Command::Doctor(args) => return doctor::execute(args),
        Command::Devices(args) => devices::execute(args),
        Command::Run(args) => launch::execute(args),
        Command::Env(args) => environment::execute(args),
        Command::Cdi(command) => cdi::execute(command),
        Command::Ps(args) => node::ps(args),
        Command::Top(args) => top::execute(args),
        Command::Ctl(command) => node::control(command),
        Command::Record(args) => record::execute(args),
        Command::Sim(Sim::Run(args)) => run::execute(args),
        Command::Sim(Sim::Compare(args)) => compare::execute(args),
        Command::Sim(Sim::Paper(args)) => paper::execute(args),
        Command::Sim(Sim::Lv3(args)) => lv3::execute(args),
        Command::Sim(Sim::Cluster(args)) => cluster::cluster(args),
        Command::Sim(Sim::Gangs(args)) => cluster::nodes_of_gangs(args),
        Command::Sim(Sim::Swarm(args)) => swarm::execute(args),
        Command::Replay(args) => replay::execute(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args),
    }?;
    Ok(ending.into())
}

/// Refuses seeds that would wrap around, so that every seed that is printed can be asked for.
fn check_seeds(first: u64, count: u64) -> Result<(), CliError> {
    match first.checked_add(count.saturating_sub(1)) {
        Some(_) => Ok(()),
        None => Err(CliError::Seeds { first, count }),
    }
}
