//! `xsched bench graphs`.

use std::cell::Cell;

use clap::{Args, value_parser};

use super::args::{SpinArgs, SpinHal};
use super::common::{describe, run};
use crate::bench::graphs::{self, GOAL, GraphMode, Held, Pair, Plan, Results, Row, spacing_label};
use crate::console::Ending;
use crate::console::table::{number, percent, table};
use crate::device::LabError;
use crate::device::gpu::Cuda;
use crate::error::CommandError;
use crate::stats::Quantiles;

#[derive(Debug, Args)]
pub struct GraphsArgs {
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

/// Columns of what was held.
const HELD: [&str; 12] = [
    "<gates in the graph",
    "number",
    "holds",
    "quiet P50",
    "P99",
    "max",
    "bound",
    "started",
    "idle",
    "ran on",
    "graph alone P50",
    "cost",
];
/// Columns of two graphs.
const PAIR: [&str; 9] =
    ["<way", "gates", "P50", "P99", "max", "P99/alone", "<goal", "other/alone", "cores"];

/// Holds graphs, and runs two at once.
pub(super) fn execute(args: &GraphsArgs) -> Result<Ending, CommandError> {
    let plan = Plan {
        holds: args.samples,
        kernels: args.kernels,
        kernel_ns: KERNEL_NS,
        requests: args.requests,
        period_ns: args.period_ms * 1_000_000,
    };
    let failed = Cell::new(false);
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
        |outcome| {
            failed.set(!outcome.errors.is_empty());
            Ok(report(outcome))
        },
    )?;
    Ok(Ending::new(failed.get()))
}

fn report(outcome: &Results) -> String {
    let mut text = describe(&outcome.device);
    if let Some(held) = &outcome.held {
        text += &held_report(held, &outcome.plan);
    }
    for pair in &outcome.pairs {
        text += &pair_report(pair, &outcome.plan);
    }
    if (1..1_000).contains(&outcome.plan.holds) || (1..1_000).contains(&outcome.plan.requests) {
        text += "a P99 needs 1000 samples\n";
    }
    for error in &outcome.errors {
        text += &format!("FAIL {error}\n");
    }
    text
}

fn us(value: f64, digits: usize) -> String {
    number(Some(value), digits)
}

fn held_report(held: &Held, plan: &Plan) -> String {
    let Held { kernel, clock_uncertain, clock_step_ns, launches_taken, launches_tried, .. } = held;
    let mut text = format!(
        "graphs of {} kernels of {:.1} µs (P50 by their own stamps), one behind the other, held at \
         random moments\nbetween the clocks of host and device: off by at most {:.2} µs (P50), \
         {:.2} (worst); steps of {} ns\n\n",
        plan.kernels, kernel.p50_us, clock_uncertain.p50_us, clock_uncertain.max_us, clock_step_ns
    );
    let title = "held: times in µs from the hold to the end of the last kernel";
    text += &table(title, &HELD, held.rows.iter().map(held_row));
    if let Some(taken) = launches_taken {
        let end = if taken == launches_tried { "none blocked" } else { "the next one blocked" };
        text += &format!(
            "launches of the graph with most gates behind a closed gate: {taken} were taken, \
             {end}\n\n"
        );
    }
    text
}

fn held_row(row: &Row) -> Vec<String> {
    let Quantiles { samples, p50_us, p99_us, max_us, .. } = row.quiet;
    vec![
        spacing_label(row.spacing_ns),
        row.gates.to_string(),
        samples.to_string(),
        us(p50_us, 1),
        number(p99_us, 1),
        us(max_us, 1),
        us(row.bound_ns as f64 / 1e3, 0),
        row.started_most.to_string(),
        row.idle.to_string(),
        row.ran_on.to_string(),
        us(row.alone.p50_us, 1),
        format!("{:.2}%", (row.over_none - 1.0) * 100.0),
    ]
}

fn pair_report(pair: &Pair, plan: &Plan) -> String {
    let shape = &pair.shape;
    let ms = |ns: u64| ns as f64 / 1e6;
    let ns = |ns: u64| ns as f64 / 1e3;
    let mut text = format!(
        "two graphs in the shape of {}: {} kernels, P50 {} µs, P99 {}, longest {}, {:.2} ms in \
         all; one every {:.0} ms, {} times, the other all the time ({:.1} in a second alone)\n\n",
        shape.name,
        shape.kernels,
        ns(shape.p50_ns),
        ns(shape.p99_ns),
        ns(shape.max_ns),
        ms(shape.total_ns),
        ms(plan.period_ns),
        plan.requests,
        pair.alone_per_s
    );
    text += &table("times of the urgent graph in µs", &PAIR, pair.cells.iter().map(pair_row));
    text
}

fn pair_row(cell: &graphs::Cell) -> Vec<String> {
    let Quantiles { p50_us, p99_us, max_us, .. } = cell.urgent;
    let goal = match (cell.way, cell.p99_over_alone) {
        (GraphMode::Gates { .. }, Some(ratio)) if ratio <= GOAL => format!("reached ({GOAL:.2})"),
        (GraphMode::Gates { .. }, Some(_)) => format!("missed ({GOAL:.2})"),
        _ => String::new(),
    };
    vec![
        cell.way.label(),
        cell.gates.to_string(),
        us(p50_us, 0),
        number(p99_us, 0),
        us(max_us, 0),
        number(cell.p99_over_alone, 3),
        goal,
        percent(cell.throughput),
        us(cell.processors, 2),
    ]
}
