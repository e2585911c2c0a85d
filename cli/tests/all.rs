//! `xsched bench all` on the host device: the records, the report, and what a second call does. How
//! fast anything was is not asserted.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use serde_json::Value;

fn all(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(["bench", "all", "--quick", "--report"]).arg(folder).args(args);
    command.stdin(Stdio::null()).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn record(folder: &Path, id: &str) -> Value {
    let text = fs::read_to_string(folder.join(format!("{id}.json")));
    serde_json::from_str(&text.unwrap_or_else(|error| panic!("{id}: {error}"))).expect("JSON")
}

fn written(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|found| found.modified()).expect("a file with a time")
}

/// What the test plan asks each record to have.
const FIELDS: [&str; 9] = [
    "test_id",
    "test_name",
    "date",
    "hardware",
    "rocm_version",
    "xsched_version",
    "results",
    "pass",
    "notes",
];

#[test]
fn every_experiment_leaves_a_record_and_a_second_call_does_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let folder = folder.path();
    let output = all(folder, &["--hal", "host"]);
    let printed = text(&output.stdout);
    assert_eq!(text(&output.stderr), "", "{printed}");
    for id in [
        "lv3-canary",
        "7.3.1",
        "7.3.2",
        "4.1.1",
        "7.2.1",
        "7.2.2",
        "7.3.3",
        "7.4.1",
        "7.4.2",
        "calibrate",
    ] {
        let record = record(folder, id);
        assert!(FIELDS.iter().all(|field| record.get(field).is_some()), "{record}");
        assert_eq!(record["status"], "measured", "{record}");
        let pass = if id == "lv3-canary" { Value::from(true) } else { Value::Null };
        assert_eq!(record["pass"], pass, "few samples give no verdict: {record}");
        for file in record["raw"].as_array().expect("a list") {
            let file = folder.join(file.as_str().expect("a path"));
            assert!(file.exists(), "{}", file.display());
        }
    }
    assert_eq!(record(folder, "8.1.1")["status"], "not_run");
    assert_eq!(output.status.code(), Some(0), "{printed}");

    let events = fs::read_to_string(folder.join("raw/interrupt.jsonl")).expect("the events");
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let trials = events.iter().filter(|event| event["event"] == "trial");
    assert!(trials.clone().count() > 0 && trials.clone().all(|t| t["enter_ns"].is_u64()));

    let page = fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("Lv3 against Lv1"));
    assert!(!page.contains("src=") && !page.contains("<link"), "it needs no other file");
    assert!(fs::read_to_string(folder.join("report.md")).expect("the text").contains("| 7.3.1 |"));

    // One is lost, one was cut short; the others stay as they are.
    fs::remove_file(folder.join("7.2.2.json")).expect("it was there");
    let mut cut = record(folder, "7.3.3");
    cut["status"] = "interrupted".into();
    fs::write(folder.join("7.3.3.json"), cut.to_string()).expect("a file");
    let before = written(&folder.join("raw/preempt.json"));
    let output = all(folder, &["--hal", "host", "--resume"]);
    assert!(text(&output.stdout).contains("preempt: done before"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("partition: measured"), "{}", text(&output.stdout));
    assert_eq!(written(&folder.join("raw/preempt.json")), before);
    assert_eq!(record(folder, "7.2.2")["status"], "measured");
    assert_eq!(record(folder, "7.3.3")["status"], "measured");
}

#[test]
fn a_device_that_is_not_there_fails_each_experiment_in_one_line_and_all_are_tried() {
    if Path::new("/dev/kfd").exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let output = all(folder.path(), &["--hal", "kfd", "--only", "7.3.1,7.2.2"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    for id in ["7.3.1", "4.1.1", "7.2.2"] {
        let record = record(folder.path(), id);
        assert_eq!(record["status"], "failed", "{record}");
        let why = record["notes"].as_str().expect("words");
        assert!(why.contains("/dev/kfd") && why.lines().count() == 1, "{why}");
    }
    assert!(!folder.path().join("7.2.1.json").exists(), "it was not asked for");
    let page = fs::read_to_string(folder.path().join("report.html")).expect("the page");
    assert!(page.contains("class=\"failed\""));
}

#[test]
fn an_experiment_that_there_is_not_is_refused() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let output = all(&folder.path().join("new"), &["--hal", "host", "--only", "9.9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there are lv3-canary"), "{}", text(&output.stderr));
    assert!(!folder.path().join("new").exists());
}
