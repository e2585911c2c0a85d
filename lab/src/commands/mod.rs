//! Commands of `xsched-lab`: each has its arguments, runs an experiment or reads its record, and
//! prints what came out.

mod all;
mod args;
mod background;
mod calibrate;
mod child;
mod common;
mod demo;
mod draw;
mod fixed_priority;
mod graphs;
mod interrupt;
mod open;
mod overhead;
mod partition;
mod placement;
mod predict;
mod preempt;
mod requests;
mod rows;
mod threshold;

use clap::{Parser, Subcommand};
use xsched_console::program::{self, EXIT_CODES};
use xsched_console::{Ending, Verbosity};
use xsched_launch::Messages;

use self::all::AllArgs;
use self::all::report::ReportArgs;
use self::background::BackgroundArgs;
use self::calibrate::CalibrateArgs;
use self::demo::DemoArgs;
use self::draw::DrawArgs;
use self::fixed_priority::FixedPriorityArgs;
use self::graphs::GraphsArgs;
use self::interrupt::InterruptArgs;
use self::open::OpenArgs;
use self::overhead::OverheadArgs;
use self::partition::PartitionArgs;
use self::placement::PlacementArgs;
use self::predict::PredictArgs;
use self::preempt::PreemptArgs;
use self::requests::{ClientArgs, RequestsArgs};
use self::rows::join::JoinArgs;
use self::rows::list::ListArgs;
use self::rows::{AllArgs as AllRowsArgs, RunArgs as RowsArgs, StandInArgs};
use self::threshold::ThresholdArgs;
use crate::error::CommandError;
use crate::parent;

/// Experiments on real devices: see a policy work, measure devices, run the test plan with real
/// programs.
#[derive(Debug, Parser)]
#[command(name = "xsched-lab", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Command to execute.
    #[command(subcommand)]
    command: Command,
    /// How much it says.
    #[command(flatten)]
    messages: Messages,
    /// The process that started this one, which ends with it.
    #[arg(long = parent::NAME, value_name = "PID", global = true, hide = true)]
    parent: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a service of three priorities on a real device, without and with a policy.
    #[command(after_help = policies())]
    Demo(DemoArgs),
    /// Measure real devices.
    #[command(subcommand, after_help = EXIT_CODES)]
    Bench(BenchCommand),
    /// List the experiments of the test plan: what each needs, its goals, and the ways of sharing
    /// the device that it compares.
    #[command(after_help = EXIT_CODES)]
    List(ListArgs),
    /// Run experiments of the test plan with real programs, each after the simulator's prediction
    /// of it, and judge them by the plan's goals.
    #[command(after_help = EXIT_CODES)]
    Run(RowsArgs),
    /// Run all experiments of the test plan with real programs, and write one report.
    #[command(after_help = EXIT_CODES)]
    All(AllRowsArgs),
    /// Put rows that were measured into several folders into one, and write its report. It needs no
    /// device.
    #[command(after_help = EXIT_CODES)]
    Join(JoinArgs),
    /// A stand-in for a model, in a process of its own.
    #[command(hide = true)]
    StandIn(StandInArgs),
    /// Print the tables of a report of `xsched-lab bench all` that was sent: which question each
    /// figure settles, goals and verdicts, as Markdown.
    #[command(after_help = EXIT_CODES)]
    Report(ReportArgs),
}

fn policies() -> String {
    format!("Policies: {}.\n{EXIT_CODES}", xsched_sim::run::policy_names().join(", "))
}

impl Cli {
    /// Runs the command and returns the exit code.
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        self.parent.map_or(Ok(()), parent::follow)?;
        let verbosity = Verbosity::of(self.messages.quiet, self.messages.verbose);
        program::execute(verbosity, || self.command.execute().map(u8::from))
    }
}

impl Command {
    fn execute(&self) -> Result<Ending, CommandError> {
        match self {
            Self::Demo(args) => demo::execute(args),
            Self::Bench(command) => command.execute(),
            Self::List(args) => rows::list::execute(args),
            Self::Run(args) => rows::run(args),
            Self::All(args) => rows::all(args),
            Self::Join(args) => rows::join::execute(args),
            Self::StandIn(args) => rows::stand_in(args),
            Self::Report(args) => all::report::execute(args),
        }
    }
}

/// The commands of `xsched-lab bench`.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Run every bench on a device, one after the other, and write records and a report.
    #[command(after_help = EXIT_CODES)]
    All(AllArgs),
    /// Hold a busy queue at random moments and print how fast it stops and goes on.
    #[command(after_help = EXIT_CODES)]
    Preempt(PreemptArgs),
    /// Interrupt running commands in every way that the device has, with every moment written down
    /// and all results checked; from careful steps on.
    #[command(after_help = EXIT_CODES)]
    Interrupt(InterruptArgs),
    /// Run a task beside an endless background, plain and scheduled, and compare its latency with
    /// that of the task alone.
    #[command(after_help = EXIT_CODES)]
    FixedPriority(FixedPriorityArgs),
    /// Measure what the runtime costs: rows of commands, lone tiny commands, processor time.
    #[command(after_help = EXIT_CODES)]
    Overhead(OverheadArgs),
    /// Run requests in the shape of BERT, kernel by kernel and as a graph, from several threads and
    /// processes, and take the launches' time apart.
    #[command(after_help = EXIT_CODES)]
    Requests(RequestsArgs),
    /// Wait for words in all places and hold streams beside others, to see how soon a gate is seen
    /// and what else a hold stops; on HIP.
    #[command(after_help = EXIT_CODES)]
    Placement(PlacementArgs),
    /// Run two tasks that are always busy, with shares, and print what each gets.
    #[command(after_help = EXIT_CODES)]
    Partition(PartitionArgs),
    /// Measure what thresholds cost, and print the smallest that costs little.
    #[command(after_help = EXIT_CODES)]
    Threshold(ThresholdArgs),
    /// The background of another bench, in a process of its own.
    #[command(hide = true)]
    Background(BackgroundArgs),
    /// Opens a device for another bench, in a process of its own.
    #[command(hide = true)]
    Open(OpenArgs),
    /// Requests of another bench, in a process of its own.
    #[command(hide = true)]
    Client(ClientArgs),
    /// Hold graphs with gates inside, and run two graphs at once; on CUDA.
    #[command(after_help = EXIT_CODES)]
    Graphs(GraphsArgs),
    /// Measure a device with one queue at a time, and write its description for the simulator.
    #[command(after_help = EXIT_CODES)]
    Calibrate(CalibrateArgs),
    /// Predict in the simulator what an earlier run of a bench has measured, and print the errors.
    #[command(after_help = EXIT_CODES)]
    Predict(PredictArgs),
    /// Draw what an earlier run of a bench has measured.
    #[command(after_help = EXIT_CODES)]
    Draw(DrawArgs),
}

impl BenchCommand {
    fn execute(&self) -> Result<Ending, CommandError> {
        match self {
            Self::All(args) => all::execute(args),
            Self::Preempt(args) => preempt::execute(args),
            Self::Interrupt(args) => interrupt::execute(args),
            Self::FixedPriority(args) => fixed_priority::execute(args),
            Self::Overhead(args) => overhead::execute(args),
            Self::Requests(args) => requests::execute(args),
            Self::Placement(args) => placement::execute(args),
            Self::Partition(args) => partition::execute(args),
            Self::Threshold(args) => threshold::execute(args),
            Self::Background(args) => background::execute(args),
            Self::Graphs(args) => graphs::execute(args),
            Self::Calibrate(args) => calibrate::execute(args),
            Self::Predict(args) => predict::execute(args),
            Self::Draw(args) => draw::execute(args),
            Self::Open(args) => open::execute(args),
            Self::Client(args) => requests::execute_client(args),
        }
    }
}
