//! Text for a person: headings, tables and the lines about checks.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use xsched_console::table::{count, grouped, ms, number, percent, rate, table};
use xsched_sim::report::{
    Bands, CheckFigures, CompareRow, Comparison, DeviceFigures, LatencyBands, LatencyFigures,
    Overload, ReferenceResult, RunFigures, TaskFigures,
};
use xsched_sim::run::unnoticed_hints;
use xsched_sim::scenario::{Scenario, System};
use xsched_sim::stats::Band;

/// The name of the line for all tasks together.
const ALL: &str = "(all)";

/// Describes what ran and how fast. `commands` are those of all seeds.
pub(crate) fn heading(run: &RunFigures, seeds: u64, commands: u64, wall: Duration) -> String {
    let RunFigures { scenario, policy, level, seed, duration_ms, .. } = run;
    let seconds = duration_ms / 1000.0;
    let seed = if seeds > 1 {
        format!("seeds {seed} to {}", seed.saturating_add(seeds - 1))
    } else {
        format!("seed {seed}")
    };
    let what = match policy.parse::<System>() {
        Ok(system) => format!("system {system}"),
        Err(_) => format!("policy {policy}, Lv{level}"),
    };
    let each = if seeds > 1 { " for the first" } else { "" };
    format!(
        "{scenario}: {what}, {seed}; {seconds:.3} s simulated{each}, {}\n\n",
        speed(commands, wall)
    )
}

/// The time a computation took, and the commands it got through in each second of it.
pub(crate) fn speed(commands: u64, wall: Duration) -> String {
    let wall = wall.as_secs_f64();
    let per_second = commands as f64 / wall.max(1e-9);
    format!("{wall:.3} s taken, {} commands/s", grouped(per_second as u64))
}

/// The figures of the tasks.
pub(crate) fn tasks(run: &RunFigures) -> String {
    let any_failed = run.tasks.iter().any(|task| task.failed > 0);
    let mut header =
        vec!["<task", "count", "mean", "P50", "P95", "P99", "min", "max", "std", "req/s", "misses"];
    if any_failed {
        header.push("failed");
    }
    let all = TaskFigures {
        name: ALL.to_owned(),
        completed: run.tasks.iter().map(|task| task.completed).sum(),
        latency_ms: run.pooled_ms.clone(),
        throughput_rps: run.throughput_rps,
        deadline_misses: run.tasks.iter().map(|task| task.deadline_misses).sum(),
        deadline_ms: run.tasks.iter().find_map(|task| task.deadline_ms),
        unfinished: run.tasks.iter().map(|task| task.unfinished).sum(),
        failed: run.tasks.iter().map(|task| task.failed).sum(),
    };
    let all = (run.tasks.len() > 1).then_some(&all);
    let rows = run.tasks.iter().chain(all).map(|task| task_row(task, any_failed));
    table("latency in ms", &header, rows)
}

fn task_row(task: &TaskFigures, with_failed: bool) -> Vec<String> {
    let LatencyFigures { mean, p50, p95, p99, min, max, std } = task.latency_ms;
    let mut row = vec![task.name.clone(), task.completed.to_string()];
    row.extend([mean, p50, p95, p99, min, max, std].map(ms));
    let misses = task.misses().map_or_else(|| "-".to_owned(), |misses| misses.to_string());
    row.extend([rate(task.throughput_rps), misses]);
    if with_failed {
        row.push(task.failed.to_string());
    }
    row
}

/// A line for each task whose requests arrived faster than they were served, with the worst seed.
pub(crate) fn overload(overloads: &[Overload]) -> String {
    let line = |overload: &Overload| {
        let Overload { task, runs, seed, unfinished, arrived } = overload;
        let (unfinished, arrived) = (grouped(*unfinished), count(*arrived, "request"));
        let worst = match runs {
            1 => String::new(),
            _ => format!(", the worst of {} in which this was so,", count(*runs, "seed")),
        };
        format!(
            "overload: {unfinished} of {arrived} of task {task} were not complete at the end of \
             seed {seed}{worst} and are in no latency\n"
        )
    };
    overloads.iter().map(line).collect()
}

/// A line for each task with hints of which a policy takes no notice.
pub(crate) fn unnoticed<'p>(
    scenario: &Scenario,
    policies: impl IntoIterator<Item = &'p str>,
) -> String {
    let lines = policies.into_iter().flat_map(|policy| unnoticed_hints(scenario, policy));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The figures of the devices.
pub(crate) fn devices(devices: &[DeviceFigures]) -> String {
    let row = |device: &DeviceFigures| {
        vec![
            device.name.clone(),
            percent(device.busy),
            percent(device.overhead),
            device.preemptions.to_string(),
            number(device.preempt_latency_us.p50, 1),
            number(device.preempt_latency_us.p99, 1),
            number(device.quiet_latency_us.p50, 1),
            number(device.quiet_latency_us.p99, 1),
        ]
    };
    let header = [
        "<device",
        "busy",
        "overhead",
        "preemptions",
        "latency P50",
        "P99",
        "time to quiet P50",
        "P99",
    ];
    table("preemption times in µs", &header, devices.iter().map(row))
}

/// The bands over seeds.
pub(crate) fn bands(bands: &Bands, seeds: u64) -> String {
    let row = |name: &str, latency: &LatencyBands, others: [String; 3]| {
        let latencies = [latency.mean, latency.p50, latency.p99, latency.max];
        let mut row = vec![name.to_owned()];
        row.extend(latencies.map(|figure| band(figure, 3)));
        row.extend(others);
        row
    };
    let tasks = bands.tasks.iter().map(|task| {
        let counts = [task.completed, task.deadline_misses].map(|count| band(count, 0));
        let [completed, misses] = counts;
        row(&task.name, &task.latency_ms, [band(task.throughput_rps, 2), completed, misses])
    });
    let total = [band(bands.total.throughput_rps, 2), band(None, 0), band(None, 0)];
    let total = row(ALL, &bands.total.latency_ms, total);
    let title = format!("latency in ms: median [5th … 95th percentile] over {seeds} seeds");
    let header = ["<task", "mean", "P50", "P99", "max", "req/s", "count", "misses"];
    table(&title, &header, tasks.chain([total]))
}

/// Measured values next to simulated ones; empty without any.
pub(crate) fn references(references: &[ReferenceResult]) -> String {
    if references.is_empty() {
        return String::new();
    }
    let row = |reference: &ReferenceResult| {
        let deviation = reference.deviation_percent;
        vec![
            reference.metric.clone(),
            number(Some(reference.measured), 3),
            number(reference.simulated.map(|band| band.median), 3),
            reference.simulated.map_or_else(|| "-".to_owned(), |band| ends(&band)),
            deviation.map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.1}%")),
            format!("{}%", reference.within_percent),
            reference.verdict.to_string(),
        ]
    };
    let header = ["<metric", "measured", "simulated", "band", "deviation", "allowed", "<verdict"];
    table("measured values", &header, references.iter().map(row))
}

fn ends(band: &Band) -> String {
    format!("{:.3} … {:.3}", band.p5, band.p95)
}

/// The parameters that were fitted; empty without any.
pub(crate) fn fitted(fitted: &[String]) -> String {
    let mut text = String::new();
    for (index, parameter) in fitted.iter().enumerate() {
        let title = if index == 0 { "fitted parameters\n" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}  {parameter}");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The policies and levels side by side.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    table(COMPARISON_TITLE, &COMPARISON_HEADER, comparison_rows(comparison))
}

/// Title of the table of a comparison.
pub(crate) const COMPARISON_TITLE: &str = "latency in ms; ratios to the first combination";
/// The header of the table of a comparison, with `<` before columns of words.
pub(crate) const COMPARISON_HEADER: [&str; 12] = [
    "<policy",
    "<level",
    "<task",
    "mean",
    "P50",
    "P99",
    "max",
    "req/s",
    "count",
    "misses",
    "P99 ratio",
    "req/s ratio",
];

/// The rows of the table of a comparison.
pub(crate) fn comparison_rows(comparison: &Comparison) -> impl Iterator<Item = Vec<String>> {
    let row = |row: CompareRow| {
        let level = row.combination.level.map_or_else(|| "-".to_owned(), |l| format!("Lv{l}"));
        let mut cells = vec![row.combination.policy, level, row.task];
        cells.extend([row.mean, row.p50, row.p99, row.max].map(ms));
        cells.push(rate(row.throughput_rps));
        cells.extend([row.completed, row.deadline_misses].map(|count| number(count, 0)));
        cells.extend([number(row.p99_ratio, 3), number(row.throughput_ratio, 3)]);
        cells
    };
    comparison.rows().into_iter().map(row)
}

/// The line about the invariants, followed by the violations.
pub(crate) fn checks(checks: &BTreeMap<&'static str, CheckFigures>) -> String {
    if checks.is_empty() {
        return "checks: off\n".to_owned();
    }
    let observed = checks.values().map(|check| check.observed).sum();
    let total = checks.values().map(|check| check.violations).sum();
    let result = if total == 0 { "no violation".to_owned() } else { count(total, "violation") };
    format!(
        "checks: {}, {}, {result}\n{}",
        count(checks.len() as u64, "invariant"),
        count(observed, "observation"),
        violations(checks)
    )
}

/// A line for each invariant that was violated.
pub(crate) fn violations(checks: &BTreeMap<&'static str, CheckFigures>) -> String {
    let mut text = String::new();
    for (name, check) in checks.iter().filter(|(_, check)| check.violations > 0) {
        let first = check.first.as_deref().unwrap_or("not described");
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{} of {name}, first: {first}", count(check.violations, "violation"));
    }
    text
}

/// A line for each measured value that was missed.
pub(crate) fn misses(references: &[ReferenceResult]) -> String {
    let mut text = String::new();
    for reference in references.iter().filter(|reference| !reference.is_ok()) {
        let ReferenceResult { metric, measured, verdict, .. } = reference;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "missed: {metric} = {measured}: {verdict}");
    }
    text
}

/// A band as `median [p5 … p95]`.
fn band(band: Option<Band>, decimals: usize) -> String {
    match band {
        None => number(None, 0),
        Some(Band { p5, median, p95, .. }) => {
            format!("{median:.decimals$} [{p5:.decimals$} … {p95:.decimals$}]")
        }
    }
}
