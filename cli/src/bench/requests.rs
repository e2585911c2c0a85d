//! `xsched bench requests`.

use xsched_lab::Quantiles;
use xsched_lab::mode::Mode;
use xsched_lab::requests::{Outcome, Plan, Row, run};

use super::on::on_device;
use super::spin::describe;
use crate::Ending;
use crate::args::RequestsArgs;
use crate::error::CliError;
use crate::table::{number, table};

/// Runs requests from one thread and from several, and prints what of them is the host's.
pub(crate) fn execute(args: &RequestsArgs) -> Result<Ending, CliError> {
    let plan = Plan {
        threads: args.clients.clone(),
        requests: args.requests,
        pause_ns: args.pause_ms * 1_000_000,
        modes: vec![Mode::Plain, Mode::Lv1],
    };
    super::spin::run(
        "requests",
        &args.spin,
        |show| on_device!(args.spin.hal, args.spin.device, |bench| run(&bench, &plan, show)),
        |outcome| Ok(report(outcome)),
    )
}

fn report(outcome: &Outcome) -> String {
    let Outcome { device, plan, kernels_ns, rows } = outcome;
    let total_ms = kernels_ns.iter().sum::<u64>() as f64 / 1e6;
    let mut text = describe(device);
    text += &format!(
        "{} requests of {} kernels of {total_ms:.2} ms in all from each thread, {} ms between \
         them\n\n",
        plan.requests,
        kernels_ns.len(),
        plan.pause_ns / 1_000_000
    );
    let header = [
        "<way",
        "threads",
        "whole mean",
        "P50",
        "P95",
        "max",
        "launches mean",
        "max",
        "rest mean",
        "requests/s",
    ];
    text += &table("times of a request in ms", &header, rows.iter().map(cells));
    text
}

fn cells(row: &Row) -> Vec<String> {
    let ms = |us: f64| number(Some(us / 1e3), 3);
    let Quantiles { mean_us, p50_us, p95_us, max_us, .. } = row.whole;
    let mut cells = vec![row.mode.to_string(), row.threads.to_string()];
    cells.extend([mean_us, p50_us, p95_us, max_us].map(ms));
    cells.extend([row.submit.mean_us, row.submit.max_us, row.rest.mean_us].map(ms));
    cells.push(number(Some(row.per_second), 2));
    cells
}
