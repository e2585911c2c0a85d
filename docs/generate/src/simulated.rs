//! Tables of what the simulator said, from records that it wrote.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::records::{list, number, record, source, text, whole};
use crate::table::Table;

/// What `xsched bench predict RECORD --json` wrote about records of an H200.
pub(crate) fn predictions() -> Result<String> {
    let mut table = Table::new(["record", "cells", "median error of the P99", "largest"]);
    let names = ["fixed-priority", "fixed-priority-load20", "preempt"];
    let paths = names.map(|name| format!("simulated/predict-{name}.json"));
    for (name, path) in names.iter().zip(&paths) {
        let of = record(path)?;
        let pairs = whole(&of, "/pairs")?;
        table.row([
            format!("`{name}.json`"),
            pairs.to_string(),
            format!("{:.2} %", number(&of, "/median_percent")?),
            format!("{:.1} %", number(&of, "/largest_percent")?),
        ]);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("xsched bench predict RECORD --json OUT", &paths))
}

const SCENARIOS: [&str; 4] = ["bert-mi308x", "bert-mi308x-hostlock", "bert-h200", "bert-h200-six"];

/// Measured and simulated figures of the BERT runs.
pub(crate) fn bert_fit() -> Result<String> {
    let head = ["scenario", "figure", "measured", "simulated [5th … 95th percentile]", "verdict"];
    let mut table = Table::new(head);
    let paths = SCENARIOS.map(|name| format!("simulated/{name}.json"));
    for (name, path) in SCENARIOS.iter().zip(&paths) {
        for row in list(&record(path)?, "references")? {
            let band = list(row, "band")?;
            let edge = |at: usize| band.get(at).and_then(Value::as_f64).context("no band");
            let (low, high) = (edge(0)?, edge(1)?);
            let simulated = number(row, "/simulated")?;
            table.row([
                format!("`{name}`"),
                text(row, "/metric")?.to_owned(),
                format!("{:.2}", number(row, "/measured")?),
                format!("{simulated:.2} [{low:.2} … {high:.2}]"),
                text(row, "/verdict")?.to_owned(),
            ]);
        }
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("xsched sim run sim/scenarios/NAME.toml --json OUT", &paths))
}

/// Mean and P99 of the tasks under each policy and level.
pub(crate) fn bert_compare() -> Result<String> {
    let names = ["bert-mi308x", "bert-mi308x-hostlock", "bert-h200", "bert-mi308x-endless"];
    let mut table = Table::new(["scenario", "policy", "mean / P99 of each task", "req/s of all"]);
    let paths = names.map(|name| format!("simulated/compare-{name}.json"));
    for (name, path) in names.iter().zip(&paths) {
        for run in list(&record(path)?, "runs")? {
            let policy = match text(run, "/policy")? {
                "fcfs" => "`fcfs`".to_owned(),
                policy => format!("`{policy}`, Lv{}", whole(run, "/level")?),
            };
            let total = number(run, "/bands/total/throughput_rps/median")
                .or_else(|_| number(run, "/throughput_rps"))?;
            let tasks: Result<Vec<_>> = tasks(run)?.iter().map(figures).collect();
            let cells = [format!("`{name}`"), policy, tasks?.join(", "), format!("{total:.1}")];
            table.row(cells);
        }
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let command = "xsched sim compare sim/scenarios/NAME.toml --policies fcfs,hpf --json OUT";
    Ok(table.markdown() + &source(command, &paths))
}

/// The tasks of a run: with several seeds their bands.
fn tasks(run: &Value) -> Result<&[Value]> {
    list(run.get("bands").unwrap_or(run), "tasks")
}

fn figures(task: &Value) -> Result<String> {
    let figure = |name: &str| {
        let band = number(task, &format!("/latency_ms/{name}/median"));
        band.or_else(|_| number(task, &format!("/latency_ms/{name}")))
    };
    Ok(format!("{} {:.1} / {:.1}", text(task, "/name")?, figure("mean")?, figure("p99")?))
}
