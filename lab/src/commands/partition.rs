//! `xsched-lab bench partition`.

use clap::{Args, value_parser};

use super::args::{PredictFlags, SpinArgs};
use super::common::{prediction, run};
use crate::bench::partition;
use crate::device::hal::on_device;
use crate::device::{BenchDevice, Described};
use crate::error::CommandError;
use crate::predict;
use xsched_console::Ending;

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

/// `xsched-lab bench partition`.
pub(super) fn execute(args: &PartitionArgs) -> Result<Ending, CommandError> {
    let given = predict::file_of(args.predict.options.device_file.as_deref())?;
    let first = args.commands_us.first().copied().unwrap_or(500);
    let second = args.commands_us.get(1).copied().unwrap_or(first);
    let plan = |device: &Described| partition::Plan {
        policy: args.policy.clone(),
        shares: (args.share, 100 - args.share),
        commands_ns: (first * 1_000, second * 1_000),
        threshold: args.threshold,
        levels: (1..=args.level.unwrap_or(3).min(device.level)).collect(),
        measured_ms: args.seconds * 1_000,
    };
    run(
        "partition",
        &args.spin,
        |pace| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                partition::run(&bench, &plan(&bench.describe()), pace)
            })
        },
        |outcome| {
            let on = (&args.predict, given, &outcome.device);
            let more =
                prediction(on, |device| predict::partition(device, &outcome.plan, &outcome.cells));
            Ok((more, Ending::Fine))
        },
    )
}
