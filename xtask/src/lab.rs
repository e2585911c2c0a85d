//! The experiments of the test plan on the processor, with stand-ins for the models: that the
//! machinery works, not how fast anything is.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{self, cargo};
use crate::target_dir;

/// Rows whose programs need a GPU in all their cells.
const NEED_GPU: [&str; 3] = ["7.1.1", "4.2.1", "4.2.2"];
/// Files of a report.
const REPORTS: [&str; 3] = ["REPORT.md", "report.html", "figures.html"];

/// Runs all rows with few samples, and looks at what was written.
///
/// # Errors
/// If a row failed, is missing or says nothing, or there is no report.
pub fn run() -> Result<()> {
    let folder = target_dir().join("lab");
    // What an earlier run left must not be taken for what this one writes.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let list = folder.join("list.json");
    let listed =
        cargo("run --profile demo --package xsched-lab -- list --hal host --json").output()?;
    ensure!(listed.status.success(), "`xsched-lab list` ended with {}", listed.status);
    fs::write(&list, &listed.stdout)?;
    let mut all =
        cargo("run --profile demo --package xsched-lab -- all --hal host --quick --report");
    command::run(all.arg(&folder))?;
    let rows = read(&list)?;
    let rows = rows.as_array().context("the list of rows is no list")?;
    ensure!(!rows.is_empty(), "the list of rows is empty");
    for row in rows {
        let id = row.get("id").and_then(Value::as_str).context("a row without an id")?;
        check(&folder, id).with_context(|| format!("row {id}"))?;
    }
    for name in REPORTS {
        let size = fs::metadata(folder.join(name)).map(|found| found.len());
        ensure!(size.as_ref().is_ok_and(|&size| size > 0), "there is no {name} in the report");
    }
    println!("{} rows, each with its record; the report is in {}", rows.len(), folder.display());
    Ok(())
}

fn read(place: &Path) -> Result<Value> {
    let text = fs::read_to_string(place);
    let text = text.with_context(|| format!("cannot read {}", place.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", place.display()))
}

/// Checks that a row was measured or says that it needs a GPU, and has its documents.
fn check(folder: &Path, id: &str) -> Result<()> {
    let row = read(&folder.join("rows").join(format!("{id}.json")))?;
    verify(id, &row)?;
    let results = fs::read_dir(folder.join("test_results"))?.filter_map(Result::ok);
    let prefix = format!("{id}_");
    let named = |name: &str| name.starts_with(&prefix) && name.ends_with(".json");
    let mut names = results.filter_map(|entry| entry.file_name().into_string().ok());
    ensure!(names.any(|name| named(&name)), "there is no result in the plan's form");
    if row.get("status") == Some(&"measured".into()) {
        let prediction = read(&folder.join("predictions").join(format!("{id}.json")))?;
        let is_same = prediction.get("id").and_then(Value::as_str) == Some(id);
        ensure!(is_same, "the prediction is of another row");
    }
    Ok(())
}

/// Checks a row's document.
fn verify(id: &str, row: &Value) -> Result<()> {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let needs_gpu =
        |value: &Value| text(value, "status") == "not_run" && text(value, "reason").contains("GPU");
    if NEED_GPU.contains(&id) {
        ensure!(needs_gpu(row), "it does not say that it needs a GPU: {}", text(row, "status"));
        return Ok(());
    }
    let (status, reason) = (text(row, "status"), text(row, "reason"));
    ensure!(status == "measured", "it is {status}: {reason}");
    let cells = row.get("cells").and_then(Value::as_array).context("there are no cells")?;
    for cell in cells {
        let is_fine = text(cell, "status") == "measured" || needs_gpu(cell);
        let (name, why) = (text(cell, "name"), text(cell, "reason"));
        ensure!(is_fine, "cell {name} is {}: {why}", text(cell, "status"));
    }
    for way in ["native", "xsched"] {
        let measured =
            |cell: &Value| text(cell, "way") == way && text(cell, "status") == "measured";
        ensure!(cells.iter().any(measured), "no cell was measured in the way {way}");
    }
    let figures = row.get("figures").and_then(Value::as_array).map_or(0, Vec::len);
    ensure!(figures > 0, "there are no figures");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> Value {
        json!({
            "status": "measured",
            "cells": [
                { "name": "a", "way": "native", "status": "measured" },
                { "name": "b", "way": "xsched", "status": "measured" },
                { "name": "c", "way": "mps", "status": "not_run", "reason": "needs a GPU" },
            ],
            "figures": [{ "value": 1.0 }],
        })
    }

    #[test]
    fn a_row_with_all_that_is_asked_for_is_fine() {
        verify("7.2.1", &row()).expect("it is as it should be");
        let gpu = json!({ "status": "not_run", "reason": "needs a GPU" });
        verify("7.1.1", &gpu).expect("it says so");
    }

    #[test]
    fn what_failed_or_is_missing_is_found() {
        let broken = |pointer: &str, value: Value| {
            let mut row = row();
            *row.pointer_mut(pointer).expect("it is there") = value;
            verify("7.2.1", &row).expect_err("it is broken").to_string()
        };
        assert!(broken("/status", json!("failed")).contains("it is failed"));
        assert!(broken("/cells/0/status", json!("failed")).contains("cell a is failed"));
        assert!(broken("/cells/2/reason", json!("no time")).contains("cell c is not_run"));
        assert!(broken("/cells/1/way", json!("mps")).contains("in the way xsched"));
        assert!(broken("/figures", json!([])).contains("no figures"));
        assert!(verify("7.1.1", &row()).is_err(), "it cannot have been measured here");
    }
}
