//! The benches whose pictures are bars: `overhead`, `partition` and `graphs`.

use serde::Deserialize;
use xsched_sim::report::{Bar, Bars, Chart, Plot};

use super::{different, length};
use crate::bench::graphs::{GOAL, GraphMode, Pair};
use crate::bench::partition;
use crate::device::mode::Mode;
use crate::error::CommandError;
use crate::record::read;

#[derive(Debug, Deserialize)]
struct Overhead {
    rows: Vec<Row>,
    lone: Vec<Lone>,
}

#[derive(Debug, Deserialize)]
struct Row {
    mode: Mode,
    command_ns: u64,
    overhead: f64,
}

#[derive(Debug, Deserialize)]
struct Lone {
    mode: Mode,
    added_us: f64,
}

impl Overhead {
    /// By the length of the commands. Plain streams are what the others are compared with.
    fn in_a_row(&self) -> Bars {
        let lengths = different(self.rows.iter().map(|row| row.command_ns));
        let modes = different(self.rows.iter().map(|row| row.mode));
        let overhead = |mode, length| {
            let row = self.rows.iter().find(|row| (row.mode, row.command_ns) == (mode, length))?;
            Some(row.overhead * 100.0)
        };
        let bar = |mode: Mode| {
            let values = lengths.iter().map(|&length| overhead(mode, length)).collect();
            Bar::new(mode.to_string(), values, &[])
        };
        let bars = modes.into_iter().filter(|mode| *mode != Mode::Plain).map(bar).collect();
        Bars::new(lengths.iter().map(|&ns| length(ns)).collect(), bars)
    }

    fn alone(&self) -> Bars {
        let lone = self.lone.iter().filter(|lone| lone.mode != Mode::Plain);
        let bar = |lone: &Lone| Bar::new(lone.mode.to_string(), vec![Some(lone.added_us)], &[]);
        Bars::new(vec![String::new()], lone.map(bar).collect())
    }
}

/// The figures of a record of `bench overhead`.
pub(crate) fn overhead(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let record: Overhead = read(text, place)?;
    let row = Chart {
        name: "rows",
        title: format!("Overhead of rows of commands on {device}"),
        x: "length of commands",
        y: "overhead (%)",
        plot: Plot::Bars(record.in_a_row()),
    };
    let lone = Chart {
        name: "lone",
        title: "What is added to the time of a lone tiny command (P50)".to_owned(),
        x: "",
        y: "added (µs)",
        plot: Plot::Bars(record.alone()),
    };
    Ok(vec![row, lone])
}

#[derive(Debug, Deserialize)]
struct Partition {
    plan: partition::Plan,
    cells: Vec<partition::Cell>,
}

/// The figures of a record of `bench partition`.
pub(crate) fn partition(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let Partition { plan, cells } = read(text, place)?;
    let name = |cell: &partition::Cell| {
        cell.level.map_or_else(|| "plain".to_owned(), |level| format!("lv{level}"))
    };
    let groups = cells.iter().map(name).collect();
    let part = |of: fn(f64) -> f64| cells.iter().map(|cell| Some(of(cell.first_percent))).collect();
    let task = |name: &str, ns, values| Bar::new(format!("{name}, {}", length(ns)), values, &[]);
    let first = task("first task", plan.commands_ns.0, part(|first| first));
    let second = task("second task", plan.commands_ns.1, part(|first| 100.0 - first));
    let mut bars = Bars::new(groups, vec![first, second]);
    bars.stacked = true;
    let (wanted, rest) = plan.shares;
    bars.line = Some((format!("wanted, {wanted}:{rest}"), f64::from(wanted)));
    Ok(vec![Chart {
        name: "partition",
        title: format!("Parts of two tasks under {} on {device}", plan.policy),
        x: "",
        y: "part of what both got (%)",
        plot: Plot::Bars(bars),
    }])
}

#[derive(Debug, Deserialize)]
struct Graphs {
    pairs: Vec<Pair>,
}

impl Graphs {
    fn bar(&self, chosen: GraphMode) -> Bar {
        let cell = |pair: &Pair| {
            let cell = pair.cells.iter().find(|cell| cell.way == chosen)?;
            cell.p99_over_alone
        };
        Bar::new(chosen.label(), self.pairs.iter().map(cell).collect(), &[])
    }
}

/// The figures of a record of `bench graphs`: the urgent one of two.
pub(crate) fn graphs(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let record: Graphs = read(text, place)?;
    let cells = record.pairs.iter().flat_map(|pair| &pair.cells);
    let ways = different(cells.map(|cell| cell.way));
    let ways = ways.into_iter().filter(|way| *way != GraphMode::Alone);
    let groups = record.pairs.iter().map(|pair| pair.shape.name.to_string()).collect();
    let mut bars = Bars::new(groups, ways.map(|way| record.bar(way)).collect());
    bars.line = Some((format!("goal, {GOAL:.2}"), GOAL));
    Ok(vec![Chart {
        name: "graphs",
        title: format!("An urgent graph beside another on {device}"),
        x: "",
        y: "P99 / P99 alone",
        plot: Plot::Bars(bars),
    }])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{drawn, has, quantiles};

    #[test]
    fn overheads_of_each_way_are_drawn() {
        let row = |mode: &str, overhead: f64| {
            json!({
                "mode": mode, "command_ns": 10_000, "overhead": overhead
            })
        };
        let svg = drawn(
            "overhead",
            "a device",
            json!({
                "rows": [row("plain", 0.0), row("lv1", 0.014), row("gate@200", -0.001)],
                "lone": [{ "mode": "lv1", "added_us": 0.8 }, { "mode": "gate", "added_us": 1.2 }]
            }),
        );
        has(&svg, &["lv1", "gate@200", "gate", "10 µs", "a device", "lone tiny"]);
        assert!(!svg.contains("plain"), "{svg}");
    }

    #[test]
    fn parts_stand_on_each_other_with_what_was_wanted() {
        let cell = |level: Option<u8>, first: f64| {
            json!({
                "level": level, "first_percent": first, "total": 1.0, "processors": 1.0
            })
        };
        let svg = drawn(
            "partition",
            "a device",
            json!({
                "plan": {
                    "policy": "wfq", "shares": [75, 25], "commands_ns": [500_000, 2_000_000],
                    "threshold": 8, "levels": [1], "measured_ms": 1
                },
                "cells": [cell(None, 50.1), cell(Some(1), 74.9)]
            }),
        );
        has(&svg, &["first task, 500 µs", "second task, 2 ms", "wanted, 75:25", "plain", "lv1"]);
    }

    #[test]
    fn each_way_of_two_graphs_is_drawn() {
        let cell = |way: &str, spacing: Option<u64>| {
            json!({
                "way": { "way": way, "spacing_ns": spacing }, "gates": 1,
                "urgent": quantiles(1.0, 2.0), "p99_over_alone": 1.5, "throughput": 0.9,
                "processors": 0.1
            })
        };
        let cells = [cell("alone", None), cell("plain", None), cell("gates", Some(200_000))];
        let shape = json!({
            "name": "a model", "kernels": 2, "p50_ns": 1, "p99_ns": 2, "max_ns": 2, "total_ns": 3
        });
        let pair = json!({ "shape": shape, "alone_per_s": 50.0, "cells": cells });
        let svg = drawn("graphs", "a device", json!({ "pairs": [pair] }));
        has(&svg, &["plain", "gates, every 200 µs", "a model", "goal, 1.10"]);
        assert!(!svg.contains("alone<"), "{svg}");
    }
}
