//! The commands that run a real device: what they print, what they write and how they end. How fast
//! the device was is not asserted, since tests run on busy machines.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use xsched_sim::replay::{Orders, Record, orders};

/// A folder of its own for a test, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("xsched-{test}-{}", std::process::id()));
        fs::create_dir(&path).expect("a folder for the test");
        Self(path)
    }

    /// Runs the program in the folder.
    fn lab(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    /// Runs the program, which has to refuse its input, and returns what it complained.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.lab(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        let names = fs::read_dir(&self.0).expect("the folder");
        assert_eq!(names.count(), 0, "nothing is written: {args:?}");
        text(&output.stderr)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Asserts that the program ended as the lines that it printed say.
fn assert_ends_as_printed(output: &Output, printed: &str) {
    let failed = printed.contains("FAIL");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{printed}");
}

#[test]
fn a_quick_demo_prints_its_tables_and_draws_a_picture() {
    let folder = Folder::new("demo");
    let files = ["--json", "demo.json", "--record", "demo.xsr", "--svg", "demo.svg"];
    let output = folder.lab(&[&["demo", "--hal", "host", "--quick"][..], &files].concat());
    let printed = text(&output.stdout);
    assert_ends_as_printed(&output, &printed);
    assert_eq!(text(&output.stderr), "", "no bar without a terminal");
    for words in [
        "device: the processor, 1 compute unit (host, as asked for); --hal takes another: cuda, hip, kfd",
        "alone: each task by itself",
        "unscheduled: ",
        "scheduled: policy hpf, Lv3",
        "P99 ratio",
        "low/high mean",
        "high: P50 scheduled / P50 alone",
        "latency distributions: demo.svg",
        "record of the scheduled part: demo.xsr",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    let svg = fs::read_to_string(folder.0.join("demo.svg")).expect("a picture");
    for words in ["<svg", "alone", "unscheduled", "hpf Lv3", "simulated hpf Lv3"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(svg.contains("one diagram per task, measured") && !svg.contains("seed"), "{svg}");
    let json = fs::read_to_string(folder.0.join("demo.json")).expect("a document");
    let json: Value = serde_json::from_str(&json).expect("valid JSON");
    for kind in ["live", "simulated"] {
        for mode in ["alone", "unscheduled", "scheduled"] {
            let tasks = json[kind][mode]["tasks"].as_array().expect("tasks");
            let names: Vec<_> = tasks.iter().map(|task| &task["name"]).collect();
            assert_eq!(names, ["high", "mid", "low"], "{kind} {mode}");
            let complete = tasks.iter().all(|task| task["latency_ms"]["p50"].is_f64());
            assert!(complete || kind == "live", "{kind} {mode}");
        }
    }
    let bytes = fs::read(folder.0.join("demo.xsr")).expect("a record");
    let record = Record::parse(&bytes).expect("a whole record");
    assert!(matches!(orders(&record), Ok(Orders::Identical { .. })), "{:?}", orders(&record));
    let criteria = json["criteria"].as_array().expect("criteria");
    assert_eq!(
        criteria.iter().filter(|c| c["reached"] == true).count(),
        printed.matches("PASS").count()
    );
}

/// Busy threads beside the demo until it is dropped.
struct Noise(Arc<AtomicBool>);

impl Noise {
    fn new(threads: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let over = over.clone();
            std::thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        Self(over)
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_demo_beside_noise_is_no_failure_and_writes_nothing_that_was_not_asked_for() {
    let folder = Folder::new("noisy-demo");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let noise = Noise::new(2 * cores);
    let output = folder.lab(&["demo", "--hal", "host", "--quick"]);
    drop(noise);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("other programs used processors"), "{printed}");
    assert_eq!(fs::read_dir(&folder.0).expect("the folder").count(), 0);
}

#[test]
fn the_tables_make_room_for_the_document() {
    let folder = Folder::new("stdout");
    let args = "demo --hal host --requests 9 --policy fcfs --svg /dev/null --json -";
    let args: Vec<_> = args.split(' ').collect();
    let output = folder.lab(&args);
    let printed = text(&output.stderr);
    assert_ends_as_printed(&output, &printed);
    assert!(printed.contains("scheduled: policy fcfs"), "{printed}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
    assert_eq!(json["policy"], "fcfs");
    assert_eq!(json["device"]["hal"], "host");
    let criteria = json["criteria"].as_array().expect("criteria");
    let failed = criteria.iter().any(|criterion| criterion["verdict"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(failed)));
    assert!(json["quiet"]["looks"].is_u64());
}

#[test]
fn a_demo_that_is_to_connect_says_where_no_daemon_answers() {
    let folder = Folder::new("lonely-demo");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    command.args(["demo", "--hal", "host", "--requests", "3"]).current_dir(&folder.0);
    let nowhere = folder.0.join("nowhere");
    command.env("XSCHED_SCHEDULER", "GLB").env("XSCHED_SOCKET", &nowhere);
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let printed = text(&output.stdout);
    let line = format!("no xschedd answers at {}: this process", nowhere.display());
    assert!(printed.contains(&line), "{printed}");
    assert!(printed.contains("then as one on `host`"), "{printed}");
    assert_ends_as_printed(&output, &printed);
}

#[test]
fn a_demo_refuses_bad_input() {
    let folder = Folder::new("bad-demo");
    let known = folder.refused(&["demo", "--policy", "magic"]);
    assert!(known.starts_with("error: unknown policy `magic`; known are fcfs, hpf, "), "{known}");
    assert!(folder.refused(&["demo", "--level", "4"]).contains("there is no level 4"));
    assert!(folder.refused(&["demo", "--svg", "-"]).contains("--svg -"));
    assert!(folder.refused(&["demo", "--record", "-"]).contains("--record -"));
    assert!(folder.refused(&["demo", "--svg", "nowhere/a.svg"]).contains("cannot write"));
    assert!(folder.refused(&["demo", "--requests", "0"]).contains("--requests"));
    assert!(folder.refused(&["demo", "--quick", "--requests", "9"]).contains("--quick"));
    assert!(folder.refused(&["demo", "--hal", "toaster"]).contains("cuda"));
}

#[test]
fn a_bench_with_few_samples_prints_no_p99_and_no_verdict() {
    let folder = Folder::new("bench");
    let output = folder.lab(&["bench", "preempt", "--samples", "5", "--json", "bench.json"]);
    let printed = text(&output.stdout);
    assert_ends_as_printed(&output, &printed);
    for words in ["lv1", "gate", "lv3", "quiet P50", "restart P50", "busy threads", "need 1000"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert_eq!(printed.matches("no verdict").count(), 3, "{printed}");
    let json = fs::read_to_string(folder.0.join("bench.json")).expect("a document");
    let json: Value = serde_json::from_str(&json).expect("valid JSON");
    for row in json["rows"].as_array().expect("rows") {
        assert_eq!(row["quiet"]["samples"], 5);
        assert!(row["quiet"]["max_us"].is_f64() && row["quiet"]["p99_us"].is_null());
        assert!(row["goal"]["reached"].is_null());
    }
}

#[test]
fn a_bench_draws_a_picture_and_a_record_gives_the_same_one() {
    let folder = Folder::new("draw");
    let bench = ["bench", "fixed-priority", "--samples", "3", "--background-us", "100"];
    let files = ["--level", "1", "--json", "a.json", "--svg", "a.svg"];
    let output = folder.lab(&[&bench[..], &files].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let svg = fs::read_to_string(folder.0.join("a.svg")).expect("a picture");
    for words in ["<svg", ">\nplain\n<", ">\nLv1\n<", "100 µs", "</svg>"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    let output = folder.lab(&["bench", "draw", "a.json", "--svg", "b.svg"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(svg, fs::read_to_string(folder.0.join("b.svg")).expect("the picture again"));
}

#[test]
fn a_hold_is_drawn() {
    let folder = Folder::new("draw-preempt");
    folder.lab(&["bench", "preempt", "--samples", "3", "--level", "3", "--svg", "a.svg"]);
    let svg = fs::read_to_string(folder.0.join("a.svg")).expect("a picture");
    assert!(svg.contains("Lv3, 8 in flight"), "{svg}");
}

#[test]
fn a_picture_is_refused_before_anything_runs() {
    let folder = Folder::new("draw-bad");
    for bench in ["preempt", "fixed-priority", "overhead", "partition", "threshold", "graphs"] {
        assert!(folder.refused(&["bench", bench, "--svg", "-"]).contains("--svg -"), "{bench}");
    }
    let error = folder.refused(&["bench", "calibrate", "--svg", "a.svg"]);
    assert!(error.contains("`bench calibrate` has no picture"), "{error}");
    let error = folder.refused(&["bench", "draw", "nowhere.json", "--svg", "a.svg"]);
    assert!(error.contains("cannot read nowhere.json"), "{error}");
    assert!(folder.refused(&["bench", "draw", "a.json", "--svg", "-"]).contains("--svg -"));
}

#[test]
fn committed_records_are_drawn() {
    let folder = Folder::new("draw-records");
    let records = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/results/h200-2026-11-21");
    for bench in [
        "fixed-priority",
        "fixed-priority-load20",
        "graphs",
        "overhead",
        "partition-up",
        "threshold",
    ] {
        let record = format!("{records}/{bench}.json");
        let output = folder.lab(&["bench", "draw", &record, "--svg", "a.svg"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let svg = fs::read_to_string(folder.0.join("a.svg")).expect("a picture");
        assert!(svg.contains("NVIDIA H200") && svg.contains("Lv1"), "{bench}: {svg}");
    }
}

#[test]
fn a_bench_takes_the_levels_that_it_is_given() {
    let folder = Folder::new("levels");
    let args = ["bench", "preempt", "--hal", "host", "--level", "3", "--samples", "3"];
    let printed = text(&folder.lab(&args).stdout);
    assert!(printed.contains("lv3") && !printed.contains("lv1"), "{printed}");
    assert!(folder.refused(&["bench", "preempt", "--level", "0"]).contains("no level 0"));
    assert!(folder.refused(&["bench", "preempt", "--hal", "cuda"]).contains("cuda"));
    assert!(folder.refused(&["bench", "preempt", "--samples", "0"]).contains("--samples"));
}
