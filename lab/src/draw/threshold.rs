//! `bench threshold`: overhead over the commands in flight.

use serde::Deserialize;
use xsched_sim::report::{Chart, Line, Plot};

use super::{different, length};
use crate::device::mode::Mode;
use crate::error::CommandError;
use crate::record::read;

#[derive(Debug, Deserialize)]
struct Record {
    cells: Vec<Cell>,
}

#[derive(Debug, Deserialize)]
struct Cell {
    threshold: u32,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    mode: Mode,
    command_ns: u64,
    overhead: f64,
}

/// The figures of a record.
pub(crate) fn charts(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let record: Record = read(text, place)?;
    let rows = record.cells.iter().flat_map(|cell| &cell.rows);
    // The overhead is over that of plain streams.
    let rows = rows.filter(|row| row.mode != Mode::Plain);
    let kinds = different(rows.map(|row| (row.mode, row.command_ns)));
    Ok(vec![Chart {
        name: "threshold",
        title: format!("Overhead of rows of commands on {device}"),
        x: "commands in flight",
        y: "overhead (%)",
        plot: Plot::Lines(kinds.into_iter().map(|kind| record.line(kind)).collect()),
    }])
}

impl Record {
    fn line(&self, kind: (Mode, u64)) -> Line {
        let point = |cell: &Cell| {
            let row = cell.rows.iter().find(|row| (row.mode, row.command_ns) == kind)?;
            Some((f64::from(cell.threshold), row.overhead * 100.0))
        };
        let mut points: Vec<_> = self.cells.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::new(format!("{}, {}", kind.0, length(kind.1)), points).dotted()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{drawn, has};

    #[test]
    fn each_way_and_length_is_drawn() {
        let row = |mode: &str, overhead: f64| {
            json!({
                "mode": mode, "command_ns": 10_000, "overhead": overhead
            })
        };
        let cell = |threshold: u32, overhead: f64| {
            let rows = [row("plain", 0.0), row("lv1", overhead), row("gate", -overhead)];
            json!({ "threshold": threshold, "rows": rows })
        };
        let record = json!({ "cells": [cell(64, 0.01), cell(2, 0.4)] });
        let svg = drawn("threshold", "a device", record);
        has(&svg, &["lv1, 10 µs", "gate, 10 µs", "a device"]);
        assert!(!svg.contains("plain"), "{svg}");
    }
}
