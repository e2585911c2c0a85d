//! Programs in C that know nothing of XQueues, scheduled on the emulated driver.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use common::{beside, check, compile, interposer, says, with_interposer};

struct Built {
    folder: TempDir,
    driver: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        compile("schedule.c", &folder.path().join("schedule"), &["-ldl", "-pthread"]);
        let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
        Built { folder, driver }
    })
}

/// The program in this mode, scheduled.
fn scheduled(mode: &str) -> Command {
    let built = built();
    let mut command = with_interposer(built.folder.path().join("schedule"));
    command.arg(mode).env("XSCHED_CUDA_DRIVER", &built.driver).env("XSCHED_AUTO_XQUEUE", "ON");
    command.env("PREEMPT", beside("libpreempt.so"));
    command
}

/// Runs it, and answers what was counted.
fn counts(mode: &str, command: &mut Command) -> Value {
    // Tests run at once, two of them in the same mode.
    let name = format!("{mode}-{:?}.json", std::thread::current().id());
    let file = built().folder.path().join(name);
    check(command.env("XSCHED_SHIM_COUNTS", &file), mode);
    serde_json::from_str(&fs::read_to_string(file).expect("counts")).expect("JSON")
}

fn counts_of(mode: &str) -> Value {
    counts(mode, &mut scheduled(mode))
}

#[test]
fn every_stream_goes_through_a_queue() {
    let counts = counts_of("streams");
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(200));
    assert_eq!(counts["scheduled"], counts["launches"]);
}

#[test]
fn nothing_does_unless_it_is_asked_for() {
    let mut command = scheduled("streams");
    let counts = counts("streams", command.env("XSCHED_AUTO_XQUEUE", "OFF"));
    assert_eq!(
        (&counts["scheduled"], &counts["launches"]["cuLaunchKernel"]),
        (&json!({}), &json!(200))
    );
}

#[test]
fn captures_are_left_alone_and_graphs_are_scheduled() {
    let counts = counts_of("captured");
    assert_eq!(counts["scheduled"]["cuGraphLaunch"], json!(3));
    // Two are captured, and the third comes while a capture is under way and has no queue yet.
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(3));
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], Value::Null);
}

#[test]
fn queues_spoil_no_capture() {
    let counts = counts_of("beside");
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(3_202));
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(3_002));
}

#[test]
fn streams_may_end() {
    let counts = counts_of("short_lived");
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(200));
}

#[test]
fn a_primary_context_may_be_reset() {
    let counts = counts_of("reset");
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(6));
}

#[test]
fn threads_launch_at_once() {
    let counts = counts_of("threads");
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(1_600));
}

#[test]
fn copies_and_fills_are_launches() {
    let counts = counts_of("copies");
    let expected = json!({
        "cuMemcpyAsync": 1, "cuMemcpyDtoH_v2": 2, "cuMemcpyHtoD_v2": 1, "cuMemsetD32Async": 1,
    });
    assert_eq!((&counts["scheduled"], &counts["launches"]), (&expected, &expected));
}

#[test]
fn own_contexts_and_threads_default_streams_go_past() {
    let output = says(&mut scheduled("past"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("runs unscheduled: "), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn a_held_queue_holds_a_launch() {
    let counts = counts_of("held");
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(2));
}

#[test]
fn without_the_library_programs_run_as_they_are() {
    // A folder with the interposer alone.
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("libshimcuda.so");
    fs::copy(interposer(), &alone).expect("a copy");
    let mut command = scheduled("streams");
    let output = says(command.env("LD_PRELOAD", alone));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("no libpreempt.so beside the interposer"), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}
