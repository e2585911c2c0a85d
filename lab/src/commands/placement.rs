//! `xsched-lab bench placement`.

use clap::{Args, value_parser};

use super::args::SpinArgs;
use crate::device::LabError;
use crate::device::gpu::Hip;
use crate::device::hal::SpinHal;
use crate::device::kfd::DriverAccess;
use crate::device::kfd::Kfd;
use crate::error::CommandError;
use crate::pace::Pace;
use crate::wait_placement::{Plan, Results, run};
use xsched_console::Ending;

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

/// Waits for words in all places and holds streams beside others, and prints what came out.
pub(super) fn execute(args: &PlacementArgs) -> Result<Ending, CommandError> {
    let PlacementArgs { trials, calls, shared, own, .. } = *args;
    let plan = Plan { trials, calls, shared, own };
    super::common::run(
        "placement",
        &args.spin,
        |pace| measure(args, &plan, pace),
        |outcome| Ok((String::new(), Ending::new(outcome.stopped.is_some()))),
    )
}

fn measure(args: &PlacementArgs, plan: &Plan, pace: &Pace<'_>) -> Result<Results, LabError> {
    match args.spin.hal {
        SpinHal::Hip => run(&Hip::open(args.spin.device)?, &DriverAccess::nothing(), plan, pace),
        SpinHal::Kfd => {
            let kfd = Kfd::open(args.spin.device)?;
            let (hip, below) = kfd.parts();
            run(hip, &below, plan, pace)
        }
        SpinHal::Host | SpinHal::Cuda => {
            Err(LabError::new("this is about HIP's streams; use --hal hip or --hal kfd"))
        }
    }
}
