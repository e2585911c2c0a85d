//! The table of what other programs meet through the C API, as `capi/bench` measured it on an H200.

use anyhow::Result;
use serde_json::Value;

use crate::records::{list, number, record, source, text};
use crate::table::{Table, time};

const DAY: &str = "h200-2026-11-23";

/// A kind of row: the record, what it is, and where its figure is.
const KINDS: [(&str, &str, &str); 8] = [
    (
        "many",
        "one thread feeds {} in turn with empty kernels, µs per command",
        "/per_command/p50_us",
    ),
    ("many", "the same with {}, a submit alone, µs", "/submit/p50_us"),
    ("drain", "empty callbacks after a hold, {}, µs per command", "/per_command/p50_us"),
    ("submit", "submit to a held queue each, {}, µs", "/submit/p50_us"),
    ("control", "suspend until {} have ended, after the last, µs", "/after_the_last_kernel/p50_us"),
    ("control", "resume with {}, µs", "/resume/p50_us"),
    ("threshold", "in a row, {}, µs per command", "/per_command/p50_us"),
    ("first-use", "longest of the first 70 requests of 50 × 100 µs, over plain", "/over_plain"),
];

/// The modes of the records, one for each column.
const MODES: [&str; 5] = ["plain", "lv1", "gate", "lv1_launcher", "gate_launcher"];

/// A row for each cell of the records, a column for each way.
pub(crate) fn table() -> Result<String> {
    let mut table = Table::new([
        "",
        "plain streams",
        "Lv1",
        "Lv2",
        "Lv1, launcher threads",
        "Lv2, launcher threads",
    ]);
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
    Ok(table.markdown() + &source("cbench", &paths))
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
        let mut figures = MODES.map(|_| String::new());
        for row in rows.iter().filter(|row| cell(row) == of) {
            let mode = text(row, "/mode")?;
            let place = MODES.iter().position(|known| *known == mode);
            if let Some(figure) = place.and_then(|place| figures.get_mut(place)) {
                let value = number(row, at)?;
                *figure = if value < 100.0 { format!("{value:.2}") } else { format!("{value:.1}") };
            }
        }
        let [plain, lv1, lv2, lv1_launcher, lv2_launcher] = figures;
        let what = what.replace("{}", &of);
        table.row([what, plain, lv1, lv2, lv1_launcher, lv2_launcher]);
    }
    Ok(())
}

/// What tells the rows of a record apart, besides the way.
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
