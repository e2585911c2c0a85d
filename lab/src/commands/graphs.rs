//! `xsched-lab bench graphs`.

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::common::run;
use crate::bench::graphs::{self, Plan};
use crate::device::LabError;
use crate::device::gpu::Cuda;
use crate::device::hal::SpinHal;
use crate::error::CommandError;
use xsched_console::Ending;

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

/// Device time of the kernels of the graph that is held, in nanoseconds.
const KERNEL_NS: u64 = 100_000;

/// Holds graphs, and runs two at once.
pub(super) fn execute(args: &GraphsArgs) -> Result<Ending, CommandError> {
    let plan = Plan {
        holds: args.samples,
        kernels: args.kernels,
        kernel_ns: KERNEL_NS,
        requests: args.requests,
        period_ns: args.period_ms * 1_000_000,
    };
    run(
        "graphs",
        &args.spin,
        |pace| match args.spin.hal {
            SpinHal::Cuda => {
                graphs::run(&Cuda::open(args.spin.device)?, &plan, &|part| pace.show(part))
            }
            SpinHal::Host => {
                Err(LabError::new("the processor as a device has no graphs; use --hal cuda"))
            }
            SpinHal::Hip | SpinHal::Kfd => {
                Err(LabError::new("graphs have gates inside on CUDA only; use --hal cuda"))
            }
        },
        |outcome| Ok((String::new(), Ending::new(!outcome.errors.is_empty()))),
    )
}
