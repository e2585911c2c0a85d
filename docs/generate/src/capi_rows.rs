//! The table of what other programs meet through the C API, as `capi/bench` measured it on an H200.

use anyhow::Result;
use serde_json::Value;

use crate::records::{list, number, record, source, text};
use crate::table::{Table, time};

const DAY: &str = "h200-2026-11-23-launchers";

/// A kind of row: the record, what it is, and where its figure is.
const KINDS: [(&str, &str, &str); 6] = [
    ("drain", "empty callbacks after a hold, {}, µs per command", "/per_command/p50_us"),
    ("submit", "submit to a held queue each, {}, µs", "/submit/p50_us"),
    ("control", "suspend until {} have ended, after the last, µs", "/after_the_last_kernel/p50_us"),
    ("control", "resume with {}, µs", "/resume/p50_us"),
    ("threshold", "in a row, {}, µs per command", "/per_command/p50_us"),
    ("first-use", "longest of the first 70 requests of 50 × 100 µs, over plain", "/over_plain"),
];

/// The modes of the records, one for each column.
const MODES: [(&str, &str); 3] = [("plain", "plain streams"), ("lv1", "Lv1"), ("gate", "Lv2")];

/// A row for each cell of the records, a column for each way.
pub(crate) fn table() -> Result<String> {
    let heads = MODES.iter().map(|(_, head)| *head);
    let mut table = Table::new(std::iter::once("").chain(heads));
    let mut paths: Vec<String> = Vec::new();
    for (name, what, at) in KINDS {
        let path = format!("{DAY}/capi-{name}.json");
        let record = record(&path)?;
        add(&mut table, list(&record, "rows")?, what, at)?;
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("cbench", &paths)?)
}

fn add(table: &mut Table, rows: &[Value], what: &str, at: &str) -> Result<()> {
    let mut cells: Vec<String> = Vec::new();
    for row in rows {
        let cell = cell(row);
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    for of in cells {
        let mut cells = vec![what.replace("{}", &of)];
        for (mode, _) in MODES {
            let is =
                |row: &&Value| cell(row) == of && text(row, "/mode").is_ok_and(|is| is == mode);
            // Not every mode has every figure.
            let value = rows.iter().find(is).and_then(|row| number(row, at).ok());
            cells.push(value.map(figure).unwrap_or_default());
        }
        table.row(cells);
    }
    Ok(())
}

fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// Text that tells the rows of a record apart, besides the way.
fn cell(row: &Value) -> String {
    let many =
        |name: &str, n: u64| if n == 1 { format!("1 {name}") } else { format!("{n} {name}s") };
    let commands = row["command_ns"].as_u64().map(|ns| format!("kernels of {}", time(ns)));
    let parts = [
        row["queues"].as_u64().map(|n| many("queue", n)),
        row["threads"].as_u64().map(|n| many("thread", n)),
        row["threshold"].as_u64().map(|n| format!("threshold {n}")),
        commands,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
