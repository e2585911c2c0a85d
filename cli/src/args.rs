//! The command line, as `docs/src/reference/commands.md` describes it.

mod kit;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use xsched_lab::mode::Mode;
use xsched_sim::comparators::System;

pub(crate) use kit::{AllArgs, ClientArgs, InterruptArgs, PlacementArgs, RequestsArgs};

/// Most seeds that a run or a comparison takes.
const MAX_SEEDS: u64 = 1_000_000;

/// Preemptive scheduling of accelerator queues: see it work, simulate it, compare policies, look
/// for faults.
#[derive(Debug, Parser)]
#[command(name = "xsched", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a check failed, 2 bad input.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a service of three priorities on a real device, without and with a policy.
    #[command(after_help = policies())]
    Demo(DemoArgs),
    /// List the devices that can be scheduled, with their levels.
    Devices(DevicesArgs),
    /// Measure real devices.
    #[command(subcommand, after_help = EXIT_CODES)]
    Bench(Bench),
    /// Run the simulator.
    #[command(subcommand, after_help = EXIT_CODES)]
    Sim(Sim),
    /// Run the workload of a record in the simulator and compare the latencies.
    #[command(after_help = policies())]
    Replay(ReplayArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run a scenario and print its figures.
    #[command(after_help = policies_and_systems())]
    Run(RunArgs),
    /// Run a scenario under several policies and levels and print them side by side.
    #[command(after_help = policies_and_systems())]
    Compare(CompareArgs),
    /// Run many small drawn scenarios with injected faults and check every invariant.
    #[command(after_help = EXIT_CODES)]
    Swarm(SwarmArgs),
    /// Run the experiments of the XSched paper and set them beside its figures.
    #[command(after_help = experiments())]
    Paper(PaperArgs),
    /// Say what an MI308X would do at Lv3 under three assumptions about its driver.
    #[command(after_help = EXIT_CODES)]
    Lv3(Lv3Args),
}

fn experiments() -> String {
    format!("Experiments: {}.\n{EXIT_CODES}", xsched_lab::paper::ids().join(", "))
}

#[derive(Debug, Args)]
pub(crate) struct Lv3Args {
    /// Holds for each figure.
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = value_parser!(u64).range(1..=100_000))]
    pub(crate) requests: u64,
    /// The folder for the tables `lv3.md` and all figures `lv3.json`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArgs {
    /// Only these experiments, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// The folder for records, figures and the page `index.html`.
    #[arg(long, value_name = "DIR", default_value = "xsched-paper")]
    pub(crate) out: PathBuf,
    /// A twentieth of the requests, to see that everything works; the verdicts mean little.
    #[arg(long)]
    pub(crate) small: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
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

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Write the list as JSON; `-` writes it to standard output and the table to standard error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// What all benches on commands that spin have in common.
#[derive(Debug, Args)]
pub(crate) struct SpinArgs {
    /// The device.
    #[arg(long, value_enum, default_value_t = SpinHal::Host)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the figures as SVG. There is no picture of `calibrate`,
    /// `requests` and `placement`.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
}

/// Whether and how the simulator predicts what a bench measures.
#[derive(Debug, Args)]
pub(crate) struct PredictOptions {
    /// A description of the device for the simulator, as `xsched bench calibrate` writes it; by
    /// default the one for this device that is part of the program.
    #[arg(long, value_name = "FILE")]
    pub(crate) device_file: Option<PathBuf>,
}

/// The same for a bench that is about to run.
#[derive(Debug, Args)]
pub(crate) struct PredictFlags {
    /// Set beside the figures what the simulator predicts, and print the errors.
    #[arg(long)]
    pub(crate) predict: bool,
    #[command(flatten)]
    pub(crate) options: PredictOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Runs of the task and lone commands, each with and without XSched; a fifth as many holds.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) samples: u32,
    /// Rows of commands of each kind.
    #[arg(long, value_name = "N", default_value_t = 21)]
    #[arg(value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Where the device file goes; by default it is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// What `bench fixed-priority`, `partition` or `preempt` wrote with `--json`.
    pub(crate) record: PathBuf,
    #[command(flatten)]
    pub(crate) options: PredictOptions,
    /// A median error above so many percent is a finding.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    #[arg(value_parser = value_parser!(u32).range(0..=1_000))]
    pub(crate) within: u32,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    /// What a bench wrote with `--json`.
    pub(crate) record: PathBuf,
    /// Where the picture goes.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: PathBuf,
}

/// Devices with commands that spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpinHal {
    /// The processor as a device.
    Host,
    /// A CUDA device.
    Cuda,
    /// A HIP device, with the kernels of the file that XSCHED_HIP_KERNELS names, or those for
    /// gfx942 that are part of the program.
    Hip,
    /// The same HIP device with Lv3 through the AMD kernel driver (/dev/kfd).
    Kfd,
}

#[derive(Debug, Args)]
pub(crate) struct FixedPriorityArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    #[command(flatten)]
    pub(crate) predict: PredictFlags,
    /// Runs of the task in each combination; a P99 needs 1000.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) samples: u32,
    /// Commands of a run of the task, of 100 µs each.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) commands: u32,
    /// The task's share of the device if it were alone, in percent. By default it pauses for 1 to
    /// 3 ms between runs.
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u32).range(1..=99))]
    pub(crate) load: Option<u32>,
    /// Lengths of the background's commands in microseconds, with commas between.
    #[arg(long, value_name = "US,US", value_delimiter = ',', default_value = "100,500,2000")]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) background_us: Vec<u64>,
    /// Waves of blocks of the background's commands, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1")]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) waves: Vec<u32>,
    /// Commands that the background keeps in flight.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) threshold: u32,
    /// Highest preemption level to try, 1 to 3; by default all that the device has.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=3))]
    pub(crate) level: Option<u8>,
    /// How the two are kept apart, with commas between, instead of all ways up to the level: plain,
    /// priority, lv1, gate, gate@200 (gates so many µs apart), gate+priority, lv3, and with the
    /// background in a process of its own: processes-plain, processes-lv1, processes-gate.
    #[arg(long, value_name = "W,W", value_delimiter = ',', conflicts_with = "level")]
    pub(crate) modes: Vec<Mode>,
}

/// A background in a process of its own, which `fixed-priority` starts.
#[derive(Debug, Args)]
pub(crate) struct BackgroundArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device.
    #[arg(long)]
    pub(crate) device: u32,
    /// The file of the shared page.
    #[arg(long)]
    pub(crate) page: PathBuf,
    /// How it is kept apart from the task: one of the ways with processes.
    #[arg(long)]
    pub(crate) mode: Mode,
    /// Length of its commands.
    #[arg(long)]
    pub(crate) command_ns: u64,
    /// Waves of blocks of its commands.
    #[arg(long)]
    pub(crate) waves: u32,
    /// Commands in flight.
    #[arg(long)]
    pub(crate) threshold: u32,
}

#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    #[command(flatten)]
    pub(crate) predict: PredictFlags,
    /// Policy with shares: wfq, up or pup.
    #[arg(long, value_name = "P", default_value = "wfq")]
    pub(crate) policy: String,
    /// The first task's part in percent; the other has the rest.
    #[arg(long, value_name = "PERCENT", default_value_t = 75)]
    #[arg(value_parser = value_parser!(u8).range(1..=99))]
    pub(crate) share: u8,
    /// Lengths of the two tasks' commands in microseconds, with a comma between.
    #[arg(long, value_name = "US,US", value_delimiter = ',', num_args = 1)]
    #[arg(default_value = "500,500", value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) commands_us: Vec<u64>,
    /// Commands that each task keeps in flight.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) threshold: u32,
    /// Highest preemption level to try, 1 to 3; by default all that the device has.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=3))]
    pub(crate) level: Option<u8>,
    /// How long each combination is measured, in seconds.
    #[arg(long, value_name = "S", default_value_t = 4)]
    #[arg(value_parser = value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct GraphsArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Holds of each graph; a P99 needs 1000, and 0 leaves this part out.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = value_parser!(u32).range(0..=1_000_000))]
    pub(crate) samples: u32,
    /// Kernels of the graph that is held, of 100 µs each.
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = value_parser!(u32).range(2..=10_000))]
    pub(crate) kernels: u32,
    /// Requests in each combination of two graphs; a P99 needs 1000, and 0 leaves this part out.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = value_parser!(u32).range(0..=1_000_000))]
    pub(crate) requests: u32,
    /// Between two requests, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    #[arg(value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) period_ms: u64,
}

#[derive(Debug, Args)]
pub(crate) struct OverheadArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Rounds, in each of which every way has its turn.
    #[arg(long, value_name = "N", default_value_t = 21)]
    #[arg(value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Lengths of commands in microseconds, with commas between.
    #[arg(long, value_name = "US,US", value_delimiter = ',', default_value = "10,100,1000")]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) commands_us: Vec<u64>,
    /// Commands in flight.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) threshold: u32,
    /// Commands per fence.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) batch: u32,
}

/// Most samples of a bench for each level.
const MAX_SAMPLES: i64 = 10_000_000;

#[derive(Debug, Args)]
pub(crate) struct PreemptArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    #[command(flatten)]
    pub(crate) predict: PredictFlags,
    /// Holds in each combination; a P99 and a verdict need 1000.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    #[arg(value_parser = value_parser!(u32).range(1..=MAX_SAMPLES))]
    pub(crate) samples: u32,
    /// Preemption levels, 1 to 3, with commas between; by default all that the device has.
    #[arg(long = "level", value_name = "N,N", value_delimiter = ',')]
    pub(crate) levels: Vec<u8>,
    /// Lengths of the victim's commands in microseconds, with commas between; by default 500 on the
    /// host, and seven from 10 to 2000 elsewhere.
    #[arg(long, value_name = "US,US", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) commands_us: Vec<u64>,
    /// Commands that the victim keeps in flight, with commas between, of which Lv1 uses the first;
    /// by default 8 on the host, 8 and 64 elsewhere.
    #[arg(long = "threshold", value_name = "N,N", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    pub(crate) thresholds: Vec<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ThresholdArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Rounds, in each of which every way has its turn.
    #[arg(long, value_name = "N", default_value_t = 11)]
    #[arg(value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Lengths of commands in microseconds, with commas between.
    #[arg(long, value_name = "US,US", value_delimiter = ',', default_value = "10,100,1000")]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) commands_us: Vec<u64>,
    /// Commands in flight, with commas between.
    #[arg(long = "threshold", value_name = "N,N", value_delimiter = ',')]
    #[arg(default_value = "1,2,3,4,6,8,10,16", value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) thresholds: Vec<u32>,
    /// Highest preemption level to try, 1 to 3; by default all that the device has.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=3))]
    pub(crate) level: Option<u8>,
}

/// Most requests of a demo.
const MAX_REQUESTS: u64 = 1_000_000;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Requests of the high-priority task in each part, by default 1000; the other tasks make at
    /// least a fifth of that.
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    #[arg(value_parser = value_parser!(u64).range(1..=MAX_REQUESTS))]
    pub(crate) requests: Option<u64>,
    /// Policy of the scheduled part.
    #[arg(long, value_name = "P", default_value = "hpf")]
    pub(crate) policy: String,
    /// Preemption level, 1 to 3; by default the highest of the device.
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u8>,
    /// A look in three seconds, with too few requests for a sound verdict.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draw the latency distributions.
    #[arg(long, value_name = "OUT", default_value = "xsched-demo.svg")]
    pub(crate) svg: PathBuf,
    /// Write a record of the scheduled part, for `xsched replay`.
    #[arg(long, value_name = "OUT")]
    pub(crate) record: Option<PathBuf>,
    /// Write the figures as JSON; `-` writes them to standard output and the tables to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

fn policies() -> String {
    format!("Policies: {}.\n{EXIT_CODES}", xsched_sim::run::policy_names().join(", "))
}

fn policies_and_systems() -> String {
    format!("Systems to compare with: {}.\n{}", System::names(), policies())
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The scenario, a TOML file.
    pub(crate) file: PathBuf,
    /// Policy, instead of that of the scenario.
    #[arg(long, value_name = "P")]
    pub(crate) policy: Option<String>,
    /// System to compare with, to run instead of a policy.
    #[arg(long, value_name = "S", conflicts_with_all = ["policy", "level"])]
    pub(crate) system: Option<System>,
    /// Preemption level, 1 to 3, instead of that of the scenario.
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u8>,
    /// First seed, instead of that of the scenario.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Run this many consecutive seeds and print bands, instead of the scenario's number.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_SEEDS))]
    pub(crate) seeds: Option<u64>,
    /// Write the figures as JSON; `-` writes them to standard output and the tables to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the latency distributions of the first seed.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the timeline of the first seed for a trace viewer.
    #[arg(long, value_name = "OUT")]
    pub(crate) trace: Option<PathBuf>,
    /// Leave the invariants unchecked.
    #[arg(long)]
    pub(crate) no_checks: bool,
    /// Print nothing but what is wrong.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The scenario, a TOML file.
    pub(crate) file: PathBuf,
    /// Policies and systems, with commas between; the others are compared with the first.
    #[arg(long, value_name = "P,P", value_delimiter = ',', required = true)]
    pub(crate) policies: Vec<String>,
    /// Preemption levels, 1 to 3, with commas between; by default that of the scenario.
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub(crate) levels: Vec<u8>,
    /// First seed, instead of that of the scenario.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Run this many consecutive seeds and compare medians over them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u64).range(1..=MAX_SEEDS))]
    pub(crate) seeds: u64,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the latency distributions of the first seed.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SwarmArgs {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "FIRST", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads to use; by default one for each processor.
    #[arg(long, value_name = "T", value_parser = value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The record, a file that a runtime has written.
    pub(crate) file: PathBuf,
    /// Policy, instead of the recorded one.
    #[arg(long, value_name = "P")]
    pub(crate) policy: Option<String>,
    /// Preemption level of all tasks, 1 to 3, instead of the recorded ones.
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u8>,
    /// Write the figures as JSON; `-` writes them to standard output and the tables to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// End with code 1 if a predicted P99 is further than so many percent from the recorded one.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) check: Option<f64>,
    /// Feed the recorded scheduler's inputs to a fresh one and compare the orders, instead of
    /// simulating; a difference ends with code 1.
    #[arg(long, conflicts_with_all = ["policy", "level", "json", "check"])]
    pub(crate) orders: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a percentage of 0 or more");
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| wrong())?;
    if percent.is_finite() && percent >= 0.0 { Ok(percent) } else { Err(wrong()) }
}
