//! `xsched-lab bench all` on the host device: the records, the report, and what a second call does.
//! How fast anything was is not asserted.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;

fn all(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
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

/// Fields that the test plan asks each record to have.
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

/// Backends of GPUs without a device here.
fn absent() -> impl Iterator<Item = &'static str> {
    ["cuda", "hip", "kfd"].into_iter().filter(|hal| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
        let opened = command.args(["bench", "open", "--hal", hal]).output();
        !opened.expect("the program runs").status.success()
    })
}

#[test]
fn a_device_that_is_not_there_is_refused_once_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for hal in absent() {
        let place = folder.path().join(hal);
        let output = all(&place, &["--hal", hal]);
        assert_eq!(output.status.code(), Some(2), "{hal}: {}", text(&output.stdout));
        assert_eq!(text(&output.stdout), "", "{hal}");
        let why = text(&output.stderr);
        assert!(why.starts_with("error: the device cannot be used: "), "{why}");
        assert_eq!((why.matches("cannot be used").count(), why.lines().count()), (1, 1), "{why}");
        assert!(!place.exists(), "{hal}");
    }
}

/// The process that another one has started and whose command line has this word.
fn child_of(parent: u32, word: &str) -> Option<u32> {
    let is_child = |pid: &u32| {
        let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let line = format!("PPid:\t{parent}");
        read("status").lines().any(|found| found == line) && read("cmdline").contains(word)
    };
    let entries = fs::read_dir("/proc").expect("the processes").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(is_child)
}

/// Returns whether a process runs: it is there, and not merely not waited for.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Looks until there is something, for a part of the time that the bench below takes.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..250 {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: not within 5 s");
}

#[test]
fn the_bench_that_runs_ends_with_the_program_that_started_it() {
    for signal in ["TERM", "INT", "KILL"] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        // What runs in the background of a shell may have the second one ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_xsched-lab")]);
        command.args(["bench", "all", "--hal", "host", "--only", "7.2.2", "--report"]);
        command.arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let mut parent = command.spawn().expect("the program runs");
        let child = wait_for("a bench", || child_of(parent.id(), "partition"));
        // The bench asks for that first of all.
        thread::sleep(Duration::from_millis(300));
        assert!(runs(child));
        let kill = format!("kill -{signal} {}", parent.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("a shell").success());
        parent.wait().expect("the program ends");
        wait_for(&format!("the end after {signal}"), || (!runs(child)).then_some(()));
        assert_eq!(record(folder.path(), "7.2.2")["status"], "interrupted");
    }
}

#[test]
fn an_experiment_that_there_is_not_is_refused() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let output = all(&folder.path().join("new"), &["--hal", "host", "--only", "9.9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there are lv3-canary"), "{}", text(&output.stderr));
    assert!(!folder.path().join("new").exists());
}
