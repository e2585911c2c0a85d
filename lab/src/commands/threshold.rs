//! `xsched-lab bench threshold`.

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::common::{ROW_NS, run};
use crate::bench::threshold;
use crate::device::hal::on_device;
use crate::device::mode::{Mode, SPACING_US};
use crate::device::{BenchDevice, Described};
use crate::error::CommandError;
use xsched_console::Ending;

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

/// `xsched-lab bench threshold`.
pub(super) fn execute(args: &ThresholdArgs) -> Result<Ending, CommandError> {
    let plan = |device: &Described| {
        let modes = [Mode::Lv1, Mode::Gate { spacing_us: SPACING_US }, Mode::Lv3];
        let highest = args.level.unwrap_or(3).min(device.level);
        threshold::Plan {
            commands_ns: args.commands_us.iter().map(|us| us * 1_000).collect(),
            modes: modes.into_iter().filter(|mode| mode.level() <= highest).collect(),
            thresholds: args.thresholds.clone(),
            row_ns: ROW_NS,
            rounds: args.rounds,
        }
    };
    run(
        "threshold",
        &args.spin,
        |pace| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                threshold::run(&bench, &plan(&bench.describe()), pace)
            })
        },
        |_| Ok((String::new(), Ending::Fine)),
    )
}
