//! `xsched-lab bench overhead`.

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::common::{ROW_NS, run};
use crate::bench::overhead;
use crate::device::hal::on_device;
use crate::error::CommandError;
use xsched_console::Ending;

/// Lone tiny commands, each way.
const LONE: u32 = 3_000;

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

/// `xsched-lab bench overhead`.
pub(super) fn execute(args: &OverheadArgs) -> Result<Ending, CommandError> {
    let plan = overhead::Plan {
        commands_ns: args.commands_us.iter().map(|us| us * 1_000).collect(),
        row_ns: ROW_NS,
        rounds: args.rounds,
        lone: LONE,
        threshold: args.threshold,
        batch: args.batch,
    };
    run(
        "overhead",
        &args.spin,
        |pace| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                overhead::run(&bench, &plan, pace)
            })
        },
        |_| Ok((String::new(), Ending::Fine)),
    )
}
