//! `xsched bench overhead`.

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::common::{ROW_NS, describe, run};
use super::on::on_device;
use crate::bench::overhead;
use crate::console::Ending;
use crate::console::table::{number, percent, table};
use crate::error::CommandError;

/// Lone tiny commands, each way.
const LONE: u32 = 3_000;

#[derive(Debug, Args)]
pub struct OverheadArgs {
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

/// `xsched bench overhead`.
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
        |outcome| Ok(overhead_report(outcome)),
    )
}

fn overhead_report(outcome: &overhead::Results) -> String {
    let mut text = describe(&outcome.device);
    let plan = &outcome.plan;
    text += &format!(
        "rows of {} ms, medians of {} rounds; {} in flight, a fence every {}\n\n",
        plan.row_ns / 1_000_000,
        plan.rounds,
        plan.threshold,
        plan.batch
    );
    let header = ["command", "<way", "row P50", "overhead", "cores"];
    let rows = outcome.rows.iter().map(|row| {
        vec![
            (row.command_ns / 1_000).to_string(),
            row.mode.to_string(),
            number(Some(row.row.p50_us), 1),
            percent(Some(row.overhead)),
            number(Some(row.processors), 2),
        ]
    });
    text += &table("commands in a row, times in µs", &header, rows);
    let header = ["<way", "P50", "P95", "P99", "added"];
    let lone = outcome.lone.iter().map(|lone| {
        vec![
            lone.mode.to_string(),
            number(Some(lone.time.p50_us), 2),
            number(Some(lone.time.p95_us), 2),
            number(lone.time.p99_us, 2),
            number(Some(lone.added_us), 2),
        ]
    });
    text += &table("a lone tiny command, times in µs", &header, lone);
    let idle = percent(Some(outcome.idle_processors));
    text + &format!("idle queues use {idle} of a core\n")
}
