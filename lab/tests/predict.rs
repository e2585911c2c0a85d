//! The simulator's predictions of the benches, as a user gets them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Record that was measured on an H200.
const RECORD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/results/h200-2026-11-21/fixed-priority.json");

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xsched-lab")).args(args).output().expect("the program runs")
}

/// Standard output of a run that ends with this code.
fn printed(args: &[&str], code: i32) -> String {
    let output = lab(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(args: &[&str]) -> String {
    let output = lab(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{args:?}: {errors}");
    errors
}

/// A file of a test's own, gone at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("xsched-predict-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("a file for the test");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn record() -> Value {
    let text = fs::read_to_string(RECORD).expect("the record is there");
    serde_json::from_str(&text).expect("it is JSON")
}

/// The error that a prediction may have: `bench predict` takes a larger median for a finding.
const GOAL: f64 = 0.1;

/// The record of a bench in the folder of [`RECORD`].
fn record_of(bench: &str) -> String {
    RECORD.replace("fixed-priority", bench)
}

/// Predicts a committed record and compares the median of the errors with the goal, and the error
/// of each P99 if `each` asks for that. Returns how many cells the record and the prediction have.
fn predicted_cells(path: &str, list: &str, each: bool) -> (usize, usize) {
    let predicted = printed(&["bench", "predict", path, "--json", "-"], 0);
    let predicted: Value = serde_json::from_str(&predicted).expect("JSON");
    let median = predicted["median_error"].as_f64().expect("a median error");
    assert!(median <= GOAL, "{median}");
    let cells = predicted["cells"].as_array().expect("cells");
    for cell in cells.iter().filter(|_| each) {
        let error = cell["pairs"][1]["error"].as_f64().expect("an error of the P99");
        assert!(error <= GOAL, "{cell}");
    }
    let text = fs::read_to_string(path).expect("the record is there");
    let record: Value = serde_json::from_str(&text).expect("it is JSON");
    (record[list].as_array().expect("a list").len(), cells.len())
}

#[test]
fn what_was_measured_on_an_h200_is_predicted_from_measurements_with_one_queue() {
    // Beside the record's cells, the task alone on a stream and through a queue.
    for bench in ["fixed-priority", "fixed-priority-load20"] {
        let (measured, predicted) = predicted_cells(&record_of(bench), "cells", true);
        assert!(measured > 0, "{bench}");
        assert_eq!(predicted, measured + 2, "{bench}");
    }
    let (measured, predicted) = predicted_cells(&record_of("preempt"), "rows", false);
    assert!(measured > 0);
    assert_eq!(predicted, measured);
}

#[test]
fn an_error_above_the_limit_is_a_finding() {
    let table = printed(&["bench", "predict", RECORD, "--within", "0"], 1);
    assert!(table.contains("prediction of P99: the median error is"), "{table}");
}

/// `fence_us` in sim/devices/h200-streams.toml.
const FENCE_US: f64 = 1.53;
/// Samples of a simulated hold.
const SAMPLES: f64 = 1_000.0;

#[test]
fn parts_of_the_device_are_predicted() {
    // Without a policy, streams of equal commands take turns. WFQ gives the parts that were asked
    // for. In both cases the device never rests, except for the gate and the fence of a command
    // (`gate_us` and `fence_us` in sim/devices/h200-streams.toml), which is all that the prediction
    // may be off by.
    let (gate_us, command_us) = (2.148, 500.0);
    let allowed = (gate_us + FENCE_US) / command_us;
    let record = json!({
        "bench": "partition",
        "device": { "device": "NVIDIA H200" },
        "plan": {
            "policy": "wfq", "shares": [75, 25], "commands_ns": [500_000, 500_000],
            "threshold": 8, "levels": [1, 2], "measured_ms": 2_000,
        },
        "cells": [
            { "level": null, "first_percent": 50.0, "total": 1.0, "processors": 1.0 },
            { "level": 2, "first_percent": 75.0, "total": 1.0, "processors": 1.0 },
        ],
    });
    let file = File::new("partition.json", &record.to_string());
    let predicted = printed(&["bench", "predict", file.path(), "--json", "-"], 0);
    let predicted: Value = serde_json::from_str(&predicted).expect("JSON");
    assert_eq!(predicted["figures"], json!(["first", "second", "total"]));
    let cells = predicted["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    for cell in cells {
        for pair in cell["pairs"].as_array().expect("pairs") {
            let error = pair["error"].as_f64().expect("an error");
            assert!(error <= allowed, "{cell}");
        }
    }
}

/// P50 and P99 of a time that is spread evenly between two bounds.
fn even(from_us: f64, to_us: f64) -> [f64; 2] {
    [0.5, 0.99].map(|quantile| from_us + quantile * (to_us - from_us))
}

/// The standard deviation of a quantile of [`SAMPLES`] even samples between 0 and 1.
fn deviation_of(quantile: f64) -> f64 {
    (quantile * (1.0 - quantile) / SAMPLES).sqrt()
}

#[test]
fn how_fast_a_queue_stops_is_predicted() {
    const COMMAND_US: f64 = 500.0;
    // `gate_close_us` in sim/devices/h200-streams.toml.
    const CLOSE_US: f64 = 2.0;
    let row = |mode: &str, threshold: u32, [p50, p99]: [f64; 2]| {
        let quiet = json!({
            "samples": SAMPLES as u32, "mean_us": p50, "min_us": 0.0, "p50_us": p50,
            "p90_us": p99, "p95_us": p99, "p99_us": p99, "max_us": p99,
        });
        json!({
            "mode": mode, "level": 2, "command_ns": COMMAND_US as u64 * 1_000,
            "threshold": threshold,
            "quiet": quiet, "detect": quiet, "restart": quiet, "uncertain_us": 0.0, "ran_on": 0,
            "goal": { "what": "", "reached": null },
        })
    };
    // A hold comes at a random moment of a command. At Lv1 the rest of that command and the seven
    // behind it still run; behind a gate per command the rest of that command; with gates 1000 µs
    // apart the rest of two commands.
    // At Lv1 each command of the window has a fence behind it.
    let window = even(7.0 * (COMMAND_US + FENCE_US), 8.0 * (COMMAND_US + FENCE_US));
    let one = even(0.0, COMMAND_US).map(|us| us + CLOSE_US);
    let two = even(0.0, 2.0 * COMMAND_US).map(|us| us + CLOSE_US);
    let rows = [
        row("lv1", 8, window),
        row("gate", 8, one),
        row("gate", 64, one),
        row("gate@1000", 8, two),
    ];
    let record = json!({
        "bench": "preempt", "device": { "device": "NVIDIA H200" }, "rows": rows,
    });
    let file = File::new("preempt.json", &record.to_string());
    let predicted = printed(&["bench", "predict", file.path(), "--within", "3", "--json", "-"], 0);
    let predicted: Value = serde_json::from_str(&predicted).expect("JSON");
    let cells = predicted["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    let spreads_us = [COMMAND_US, COMMAND_US, COMMAND_US, 2.0 * COMMAND_US];
    for (cell, spread_us) in cells.iter().zip(spreads_us) {
        let pairs = cell["pairs"].as_array().expect("pairs");
        for (pair, quantile) in pairs.iter().zip([0.5, 0.99]) {
            let error = pair["error"].as_f64().expect("an error");
            let measured_us = pair["measured"].as_f64().expect("a measured time");
            let allowed = 3.0 * deviation_of(quantile) * spread_us / measured_us;
            assert!(error <= allowed, "{cell}, allowed {allowed}");
        }
    }
}

#[test]
fn what_cannot_be_predicted_is_refused_with_what_to_do() {
    let with = |key: &str, value: Value| {
        let mut record = record();
        record[key] = value;
        record.to_string()
    };
    let other = File::new("other.json", &with("bench", json!("overhead")));
    assert!(
        refused(&["bench", "predict", other.path()])
            .contains("fixed-priority, partition and preempt")
    );
    let toaster = with("device", json!({ "device": "toaster" }));
    let toaster = File::new("toaster.json", &toaster);
    assert!(refused(&["bench", "predict", toaster.path()]).contains("--device-file"));
    let broken = File::new("broken.json", "{}");
    assert!(refused(&["bench", "predict", broken.path()]).contains("not a record of a bench"));
    assert!(refused(&["bench", "predict", "/nowhere/a.json"]).contains("cannot read"));
    let error = refused(&["bench", "predict", RECORD, "--device-file", broken.path()]);
    assert!(error.contains("broken.json"), "{error}");
}

#[test]
fn what_calibrate_writes_is_a_device_to_predict_with() {
    let file = File::new("device.toml", "");
    let small = ["--samples", "10", "--rounds", "1", "--out", file.path()];
    let table = printed(&[&["bench", "calibrate"], &small[..]].concat(), 0);
    assert!(table.contains("one queue at a time") && !table.contains("[origin]"), "{table}");
    let bench = ["bench", "fixed-priority", "--samples", "3", "--commands", "2"];
    let predict = ["--background-us", "100", "--predict", "--device-file", file.path()];
    let table = printed(&[&bench[..], &predict[..]].concat(), 0);
    assert!(table.contains("predicted by the simulator"), "{table}");
    assert!(table.contains("a P99 needs 1000 runs"), "{table}");
    let predict = ["--predict", "--device-file", file.path()];
    let bench = ["bench", "preempt", "--level", "1", "--samples", "3"];
    // Two cores are not enough for a verdict on busy threads.
    let table = lab(&[&bench[..], &predict[..]].concat()).stdout;
    let table = String::from_utf8_lossy(&table).into_owned();
    assert!(table.contains("predicted by the simulator"), "{table}");
    // The figures are worth having even if there is nothing to predict them with.
    let table = printed(&[&bench[..], &["--predict"][..]].concat(), 0);
    assert!(table.contains("no prediction: no description of the device"), "{table}");
}
