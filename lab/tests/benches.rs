//! The benches on commands that spin, as a user runs them.

use std::process::{Command, Output};

use serde_json::Value;

fn lab(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    command.args(args).envs(variables.iter().copied());
    command.output().expect("the program runs")
}

/// Standard output of a run that must be fine, as JSON.
fn json(args: &[&str], variables: &[(&str, &str)]) -> Value {
    let output = lab(args, variables);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// The error of a run that must be refused, in one line.
fn refused(args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = lab(args, variables);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{args:?}: {errors}");
    errors
}

/// Libraries that are not there.
const NOWHERE: [(&str, &str); 2] =
    [("XSCHED_CUDA_LIB", "/nowhere/libcuda.so"), ("XSCHED_HIP_LIB", "/nowhere/libamdhip64.so")];

#[test]
fn a_bench_on_a_device_that_is_not_there_is_refused_in_one_line() {
    for bench in ["fixed-priority", "overhead", "partition", "preempt", "threshold", "graphs"] {
        let error = refused(&["bench", bench, "--hal", "cuda"], &NOWHERE);
        assert!(error.contains("no CUDA driver"), "{error}");
    }
    let error = refused(&["bench", "partition", "--policy", "best"], &[]);
    assert!(error.contains("wfq"), "{error}");
    let error = refused(&["bench", "graphs"], &[]);
    assert!(error.contains("no graphs; use --hal cuda"), "{error}");
}

/// The figure at this path, which has to be a number.
fn figure(record: &Value, path: &str) -> f64 {
    let found = record.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path}: {record}"))
}

/// Returns whether two figures are equal, up to what reading and writing decimals changes.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

#[test]
fn fixed_priority_has_a_cell_for_each_combination() {
    let small = ["--samples", "3", "--commands", "2", "--background-us", "100,300"];
    let record = json(&[&["bench", "fixed-priority", "--json", "-"], &small[..]].concat(), &[]);
    assert_eq!(record["device"]["hal"], "host");
    let cells = record["cells"].as_array().expect("cells");
    let combination = |cell: &Value| {
        let mode = cell["mode"].as_str().expect("a way").to_owned();
        (cell["background_ns"].as_u64().expect("a length"), mode)
    };
    let mut found: Vec<_> = cells.iter().map(combination).collect();
    found.sort();
    let mut wanted = Vec::new();
    for length in [100_000, 300_000] {
        // Plain streams and three levels.
        wanted.extend(["gate", "lv1", "lv3", "plain"].map(|mode| (length, mode.to_owned())));
    }
    assert_eq!(found, wanted);
    // The task is two commands of 100 µs, which the device cannot run in half of that.
    let least_us = 100.0;
    for times in cells.iter().map(|cell| &cell["foreground"]).chain([&record["alone"]]) {
        assert_eq!(times["samples"], 3);
        assert!(times["p99_us"].is_null(), "3 samples have no P99");
        assert!(figure(times, "/min_us") > least_us, "{times}");
        assert!(figure(times, "/min_us") <= figure(times, "/p50_us"), "{times}");
        assert!(figure(times, "/p50_us") <= figure(times, "/max_us"), "{times}");
    }
}

#[test]
fn a_background_can_have_a_process_of_its_own() {
    let small = ["--samples", "3", "--commands", "2", "--background-us", "300"];
    let bench = ["bench", "fixed-priority", "--json", "-", "--modes"];
    let both = ["processes-plain,processes-lv1"];
    let record = json(&[&bench[..], &both, &small].concat(), &[]);
    let cells = record["cells"].as_array().expect("cells");
    let modes: Vec<_> = cells.iter().filter_map(|cell| cell["mode"].as_str()).collect();
    assert_eq!(modes, ["processes-plain", "processes-lv1"]);
    for cell in cells {
        // Each process has a device of its own, so its share is that of the whole, and no more.
        let share = figure(cell, "/background_share");
        assert!(share > 0.0 && share < 1.1, "{cell}");
    }
    // The processor's queues have no gates that others could close. The background says so too.
    let output = lab(&[&bench[..], &["processes-gate"], &small].concat(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no gates that other processes"), "{errors}");
}

#[test]
fn threshold_says_from_where_on_it_costs_little() {
    let small = ["--rounds", "1", "--commands-us", "1000", "--threshold", "1,4", "--level", "1"];
    let record = json(&[&["bench", "threshold", "--json", "-"], &small[..]].concat(), &[]);
    let cells = record["cells"].as_array().expect("cells");
    let thresholds: Vec<_> = cells.iter().filter_map(|cell| cell["threshold"].as_u64()).collect();
    assert_eq!(thresholds, [1, 4]);
    // The least is the last from the end on whose overhead is little.
    let little = |cell: &&Value| {
        let rows = cell["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["mode"] == "lv1").expect("a row of Lv1");
        figure(row, "/overhead") < 0.03
    };
    let from = cells.iter().rev().take_while(little).last();
    let from = from.map_or(Value::Null, |cell| cell["threshold"].clone());
    let least = record["least"].as_array().expect("a list");
    assert_eq!(least.len(), 1);
    assert_eq!((&least[0]["mode"], &least[0]["threshold"]), (&"lv1".into(), &from), "{record}");
}

#[test]
fn overhead_compares_with_a_plain_stream() {
    let small = ["--rounds", "1", "--commands-us", "1000"];
    let record = json(&[&["bench", "overhead", "--json", "-"], &small[..]].concat(), &[]);
    let modes = ["plain", "lv1", "gate", "gate@300", "lv3"];
    for (list, time, over) in
        [("rows", "/row/p50_us", "/overhead"), ("lone", "/time/p50_us", "/added_us")]
    {
        let rows = record[list].as_array().expect("a list");
        let found: Vec<_> = rows.iter().filter_map(|row| row["mode"].as_str()).collect();
        assert_eq!(found, modes);
        let plain = figure(&rows[0], time);
        for row in rows {
            let wanted = match list {
                "rows" => figure(row, time) / plain - 1.0,
                _ => figure(row, time) - plain,
            };
            assert!(same(figure(row, over), wanted), "{wanted}: {row}");
        }
    }
    // 40 commands of 1 ms in a row, which the device cannot run in half of that.
    for row in record["rows"].as_array().expect("rows") {
        assert_eq!(row["commands"], 40, "{row}");
        assert!(figure(row, "/row/min_us") > 20_000.0, "{row}");
    }
}

#[test]
fn partition_gives_the_first_task_its_part_at_each_level() {
    let record = json(&["bench", "partition", "--seconds", "1", "--json", "-"], &[]);
    let cells = record["cells"].as_array().expect("cells");
    let levels: Vec<_> = cells.iter().map(|cell| cell["level"].as_u64()).collect();
    assert_eq!(levels, [None, Some(1), Some(2), Some(3)]);
    // Plain streams take turns, so that each gets half. 75:25 is the default of the bench. Half of
    // the distance between the two is left for other programs on the processors.
    for (cell, wanted) in cells.iter().zip([50.0, 75.0, 75.0, 75.0]) {
        let first = figure(cell, "/first_percent");
        assert!((first - wanted).abs() < 12.5, "{wanted}: {cell}");
    }
}
