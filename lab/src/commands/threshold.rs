//! `xsched bench threshold`.

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::common::{ROW_NS, describe, run};
use super::on::on_device;
use crate::bench::threshold;
use crate::console::Ending;
use crate::console::table::{percent, table};
use crate::device::mode::{Mode, SPACING_US};
use crate::device::{BenchDevice, Described};
use crate::error::CommandError;

#[derive(Debug, Args)]
pub struct ThresholdArgs {
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

/// `xsched bench threshold`.
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
        |outcome| Ok(threshold_report(outcome)),
    )
}

fn threshold_report(outcome: &threshold::Results) -> String {
    let threshold::Results { device, plan, cells, least } = outcome;
    let mut text = describe(device);
    text += &format!(
        "rows of {} ms, medians of {} rounds, over those of a plain stream\n\n",
        plan.row_ns / 1_000_000,
        plan.rounds
    );
    let mut header = vec!["command".to_owned(), "in flight".to_owned(), "per fence".to_owned()];
    header.extend(plan.modes.iter().map(ToString::to_string));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = cells.iter().filter_map(|cell| {
        let command_ns = cell.rows.first()?.command_ns;
        let mut row = vec![(command_ns / 1_000).to_string()];
        row.extend([cell.threshold.to_string(), cell.batch.to_string()]);
        row.extend(cell.rows.iter().skip(1).map(|row| percent(Some(row.overhead))));
        Some(row)
    });
    text += &table("overhead of commands in a row", &header, rows);
    for least in least {
        let length = least.command_ns / 1_000;
        let limit = threshold::LITTLE * 100.0;
        text += &match least.threshold {
            Some(n) => format!("{}, {length} µs: below {limit:.0} % from {n} on\n", least.mode),
            None => format!("{}, {length} µs: never below {limit:.0} %\n", least.mode),
        };
    }
    text
}
