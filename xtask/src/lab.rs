//! The experiments of the test plan on the processor, with stand-ins for the models: that the
//! machinery works, not how fast anything is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{cargo, run as run_command};
use crate::python::interpreter;
use crate::test::rest;
use crate::{root, target_dir};

/// The row whose programs need a GPU in all their cells.
const NEEDS_GPU: &str = "7.1.1";
/// Exit codes of `xsched-lab`: all is fine, or a goal is missed, as on a shared processor.
const FINE: [Option<i32>; 2] = [Some(0), Some(1)];
/// Requests of each of the plan's tasks on the emulated driver.
const REQUESTS: u32 = 4;
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
    let ended = all.arg(&folder).status()?;
    ensure!(FINE.contains(&ended.code()), "`xsched-lab all` ended with {ended}");
    let rows = read(&list)?;
    let rows = rows.as_array().context("the list of rows is no list")?;
    ensure!(!rows.is_empty(), "the list of rows is empty");
    let mut verdicts = Verdicts::default();
    for row in rows {
        let id = row.get("id").and_then(Value::as_str).context("a row without an id")?;
        verdicts.add(&check(&folder, id).with_context(|| format!("row {id}"))?);
    }
    let Verdicts { met, missed, open } = verdicts;
    println!("{met} goals met, {missed} missed, {open} open");
    ensure!(met + missed > 0, "no goal has a verdict");
    for name in REPORTS {
        let size = fs::metadata(folder.join(name)).map(|found| found.len());
        ensure!(size.as_ref().is_ok_and(|&size| size > 0), "there is no {name} in the report");
    }
    println!("{} rows, each with its record; the report is in {}", rows.len(), folder.display());
    emulated(&folder)
}

/// Runs two rows and the plan's BERT scripts on the emulated driver, with stand-ins for PyTorch,
/// and looks at what was scheduled.
fn emulated(folder: &Path) -> Result<()> {
    run_command(rest("test").arg("--no-run"))?;
    let built = target_dir().join("debug");
    let [driver, report] = ["driver", "emulated"].map(|name| folder.join(name));
    fs::create_dir_all(&driver)?;
    let library = built.join("libxsched_cuda_emulated.so");
    symlink(&library, driver.join("libcuda.so.1")).context("the emulated driver's name")?;
    let python = interpreter()?;
    let start = |mut command: Command| {
        command.env("XSCHED_LAB_STAND_INS", "1").env("LD_LIBRARY_PATH", &driver);
        command.env("XSCHED_CUDA_LIB", &library).env("XSCHED_CUDA_DRIVER", &library);
        command.env("XSCHED_LIB_DIR", &built).env("XSCHED", built.join("xsched"));
        // No daemon of the user's is meant.
        command.env("XSCHED_SOCKET", folder.join("none")).env("PYTHON", &python);
        let ended = command.status()?;
        ensure!(FINE.contains(&ended.code()), "{command:?} ended with {ended}");
        anyhow::Ok(())
    };
    let mut rows = Command::new(built.join("xsched-lab"));
    rows.args(["run", "7.2.1", "7.4.2", "--hal", "cuda", "--quick", "--python"]).arg(&python);
    rows.arg("--report").arg(&report);
    start(rows)?;
    let row = |id: &str| read(&report.join("rows").join(format!("{id}.json")));
    let counts = |row: &Value| counts(row, "xsched").context("no cell with counts");
    let (priority, cost) = (counts(&row("7.2.1")?)?, counts(&row("7.4.2")?)?);
    ensure!(priority("holds") > 0, "nothing was held in row 7.2.1");
    let (scheduled, alone) = (cost("scheduled"), cost("alone") + cost("past"));
    ensure!(scheduled > 0 && alone == 0, "{alone} launches of row 7.4.2 were not scheduled");
    let plan = folder.join("plan");
    let mut scripts = Command::new(root().join("lab/programs/run_xsched_test.sh"));
    scripts.arg(&plan).args(["--requests", &REQUESTS.to_string()]).env("MODES", "eager");
    start(scripts)?;
    let record = read(&plan.join("5.4_xsched_integration_eager.json"))?;
    let tasks = record.pointer("/results/xsched/tasks").and_then(Value::as_object);
    let has_all = |task: &Value| task.get("requests") == Some(&REQUESTS.into());
    let tasks = tasks.context("the script's record has no tasks")?;
    ensure!(tasks.len() == 6 && tasks.values().all(has_all), "requests are missing: {tasks:?}");
    println!(
        "on the emulated driver {scheduled} launches were scheduled, and the plan's scripts ran"
    );
    Ok(())
}

/// The counts of a row's first cell in a way.
fn counts(row: &Value, way: &str) -> Option<impl Fn(&str) -> u64 + use<>> {
    let cells = row.get("cells")?.as_array()?;
    let cell = cells.iter().find(|cell| cell.get("way").is_some_and(|name| name == way))?;
    let counts = cell.get("counts")?.clone();
    Some(move |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or(0))
}

fn read(place: &Path) -> Result<Value> {
    let text = fs::read_to_string(place);
    let text = text.with_context(|| format!("cannot read {}", place.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", place.display()))
}

/// Goals by their verdicts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdicts {
    met: usize,
    missed: usize,
    open: usize,
}

impl Verdicts {
    fn add(&mut self, row: &Value) {
        for verdict in row.get("verdicts").and_then(Value::as_array).into_iter().flatten() {
            match verdict.get("met").and_then(Value::as_bool) {
                Some(true) => self.met += 1,
                Some(false) => self.missed += 1,
                None => self.open += 1,
            }
        }
    }
}

/// Checks that a row was measured or says that it needs a GPU, and has its documents. Answers it.
fn check(folder: &Path, id: &str) -> Result<Value> {
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
    Ok(row)
}

/// Checks a row's document.
fn verify(id: &str, row: &Value) -> Result<()> {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let needs_gpu =
        |value: &Value| text(value, "status") == "not_run" && text(value, "reason").contains("GPU");
    if id == NEEDS_GPU {
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
    let is_judged = |verdict: &Value| verdict.get("met").is_some_and(Value::is_boolean);
    for verdict in row.get("verdicts").and_then(Value::as_array).into_iter().flatten() {
        let has_interval = verdict.get("interval").is_some_and(Value::is_array);
        let goal = text(verdict, "goal");
        ensure!(has_interval || !is_judged(verdict), "a verdict has no interval: {goal}");
    }
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
            "verdicts": [
                { "goal": "a", "met": true, "interval": [1.0, 1.1] },
                { "goal": "b", "met": null, "open": "it was measured once" },
            ],
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
        assert!(broken("/verdicts/0/interval", json!(null)).contains("no interval: a"));
        let mut verdicts = Verdicts::default();
        verdicts.add(&row());
        assert_eq!(verdicts, Verdicts { met: 1, missed: 0, open: 1 });
        assert!(verify("7.1.1", &row()).is_err(), "it cannot have been measured here");
    }
}
