//! `xsched-lab bench fixed-priority`.

use clap::{Args, value_parser};

use super::args::{PredictFlags, SpinArgs};
use super::background::background_command;
use super::common::{PAUSE_NS, TASK_NS, prediction, run};
use crate::bench::priority;
use crate::device::foreground::Foreground;
use crate::device::hal::on_device;
use crate::device::mode::Mode;
use crate::device::processes::Request;
use crate::device::{BenchDevice, Described};
use crate::error::CommandError;
use crate::predict;
use xsched_console::Ending;

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
    /// priority, lv1, gate, gate@200 (gates 200 µs apart), gate+priority, lv3, and with the
    /// background in a process of its own: processes-plain, processes-lv1, processes-gate.
    #[arg(long, value_name = "W,W", value_delimiter = ',', conflicts_with = "level")]
    pub(crate) modes: Vec<Mode>,
}

/// `xsched-lab bench fixed-priority`.
pub(super) fn execute(args: &FixedPriorityArgs) -> Result<Ending, CommandError> {
    let highest = args.level;
    let given = predict::file_of(args.predict.options.device_file.as_deref())?;
    let plan = |device: &Described| {
        let task_ns = u64::from(args.commands) * TASK_NS;
        let pause = |load: u32| {
            let mean = task_ns / u64::from(load) * u64::from(100 - load);
            (mean / 2, mean + mean / 2)
        };
        priority::Plan {
            foreground: Foreground {
                commands: args.commands,
                command_ns: TASK_NS,
                pause_ns: args.load.map_or(PAUSE_NS, pause),
                samples: args.samples,
            },
            background_ns: args.background_us.iter().map(|us| us * 1_000).collect(),
            waves: args.waves.clone(),
            threshold: args.threshold,
            modes: if args.modes.is_empty() {
                Mode::of(device, highest.unwrap_or(3))
            } else {
                args.modes.clone()
            },
        }
    };
    let launcher = |request: &Request| background_command(&args.spin, request);
    run(
        "fixed-priority",
        &args.spin,
        |pace| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                priority::run(&bench, &plan(&bench.describe()), &launcher, pace)
            })
        },
        |outcome| {
            let on = (&args.predict, given, &outcome.device);
            let more = prediction(on, |device| {
                let alone = [&outcome.alone, &outcome.alone_queue];
                predict::fixed_priority(device, &outcome.plan, alone, &outcome.cells)
            });
            Ok((more, Ending::Fine))
        },
    )
}
