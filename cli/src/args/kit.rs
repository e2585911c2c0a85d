//! Arguments of `bench all` and of the benches that only it needs.

use std::path::PathBuf;

use clap::{Args, value_parser};
use xsched_lab::kit::Kind;
use xsched_lab::requests::Form;

use super::{SpinArgs, SpinHal};

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
    /// The folder for records, raw data, report.md and report.html. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: PathBuf,
    /// A look in two minutes, with too few samples for verdicts.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do only what has no record of a completed run in the folder.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Only these experiments, by the names of their records, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Mechanisms, with commas between; by default all that can be used here.
    #[arg(long, value_name = "M,M", value_delimiter = ',')]
    pub(crate) mechanisms: Vec<String>,
    /// Kinds of kernels, with commas between, of alu, lds, mfma, memory, atomics, barrier, meeting
    /// and cooperative; by default all that the device has.
    #[arg(long, value_name = "K,K", value_delimiter = ',')]
    pub(crate) kinds: Vec<Kind>,
    /// Numbers of queues that are interrupted at once, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,4,24,64")]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) queues: Vec<u32>,
    /// Length of the victims' commands in microseconds.
    #[arg(long, value_name = "US", default_value_t = 2_000)]
    #[arg(value_parser = value_parser!(u64).range(100..=1_000_000))]
    pub(crate) command_us: u64,
    /// Trials of each combination; a P99 needs 1000.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) trials: u32,
    /// Interrupts of a mechanism after which results are compared, over all kinds of kernels.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=100_000_000))]
    pub(crate) interrupts: u32,
    /// Allocations, copies and first launches each, while victims rest, run and are interrupted.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u32).range(1..=300))]
    pub(crate) calls: u32,
    /// Other processes that keep the device busy in one more combination.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = value_parser!(u32).range(0..=16))]
    pub(crate) processes: u32,
    /// Go on though others have queues on the GPU, which are then interrupted as well.
    #[arg(long)]
    pub(crate) beside_others: bool,
    /// Write down everything as it happens, a JSON document in each line: what begins, and the
    /// moments of each trial.
    #[arg(long, value_name = "OUT")]
    pub(crate) events: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Numbers of threads that make requests at once, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2,3")]
    #[arg(value_parser = value_parser!(u32).range(1..=64))]
    pub(crate) clients: Vec<u32>,
    /// Numbers of processes that make requests at once, with commas between; 0 leaves them out.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "3")]
    #[arg(value_parser = value_parser!(u32).range(0..=16))]
    pub(crate) processes: Vec<u32>,
    /// How requests are launched, with commas between: kernel by kernel (`kernels`), or as one
    /// `graph`.
    #[arg(long, value_name = "F,F", value_delimiter = ',', default_value = "kernels,graph")]
    pub(crate) forms: Vec<Form>,
    /// Requests of each thread.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) requests: u32,
    /// Between two requests of a thread, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    #[arg(value_parser = value_parser!(u64).range(0..=10_000))]
    pub(crate) pause_ms: u64,
}

/// A process that makes requests, which `requests` starts.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device.
    #[arg(long)]
    pub(crate) device: u32,
    /// How its requests are launched.
    #[arg(long)]
    pub(crate) form: Form,
    /// How many.
    #[arg(long)]
    pub(crate) requests: u32,
    /// Between two.
    #[arg(long)]
    pub(crate) pause_ns: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PlacementArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Trials for each place of the word; a P99 needs 1000.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) trials: u32,
    /// Calls of each kind, while a stream is open and while it is held.
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = value_parser!(u32).range(1..=300))]
    pub(crate) calls: u32,
    /// Streams of normal priority; the runtime gives them 4 hardware rings (GPU_MAX_HW_QUEUES).
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = value_parser!(u32).range(0..=32))]
    pub(crate) shared: u32,
    /// Streams with hardware rings of their own.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = value_parser!(u32).range(0..=16))]
    pub(crate) own: u32,
}
