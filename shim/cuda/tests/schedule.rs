//! Programs in C that know nothing of XQueues, scheduled on the emulated driver.

mod common;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use common::emulated::{self, counts};
use common::{check, interposer, says};

/// The program in this mode, scheduled.
fn scheduled(mode: &str) -> Command {
    emulated::scheduled("schedule", mode)
}

fn counts_of(mode: &str) -> Value {
    emulated::counts_of("schedule", mode)
}

fn counts_apart(mode: &str) -> Value {
    emulated::counts_apart("schedule", mode)
}

fn in_both_ways(mode: &str) -> [Value; 2] {
    emulated::in_both_ways("schedule", mode)
}

#[test]
fn every_stream_goes_through_a_queue() {
    for counts in in_both_ways("streams") {
        assert_eq!(counts["launches"]["cuLaunchKernel"], json!(200));
        assert_eq!(counts["scheduled"], counts["launches"]);
    }
}

#[test]
fn nothing_does_unless_it_is_asked_for() {
    let mut command = scheduled("streams");
    let counts = counts("streams", command.env("XSCHED_AUTO_XQUEUE", "OFF"));
    assert_eq!(
        (&counts["scheduled"], &counts["launches"]["cuLaunchKernel"]),
        (&json!({}), &json!(200))
    );
    assert_eq!(counts["alone"], json!({}));
}

#[test]
fn captures_are_left_alone_and_graphs_are_scheduled() {
    for counts in in_both_ways("captured") {
        assert_eq!(counts["scheduled"]["cuGraphLaunch"], json!(3));
        // Two are captured, and the third comes while a capture is under way and has no queue yet.
        assert_eq!(counts["launches"]["cuLaunchKernel"], json!(3));
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], Value::Null);
    }
}

#[test]
fn a_capture_that_is_never_ended_ends_with_its_stream() {
    for counts in in_both_ways("abandoned") {
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(60));
        assert_eq!(counts["past"], json!({"while a stream was being captured": 3}));
    }
}

#[test]
fn workers_that_were_forked_before_the_driver_was_initialised_are_scheduled() {
    for unit in ["process", "streams"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = scheduled("workers");
        command.env("XSCHED_SHIM_COUNTS", folder.path().join("%p.json"));
        check(command.env("XSCHED_AUTO_XQUEUE_UNIT", unit), "workers");
        let files = fs::read_dir(folder.path()).expect("a folder");
        let read = |file: std::io::Result<fs::DirEntry>| {
            let text = fs::read_to_string(file.expect("a file").path()).expect("counts");
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        let all: Vec<_> = files.map(read).collect();
        assert_eq!(all.len(), 3, "two workers and their parent: {all:#?}");
        for counts in all {
            assert_eq!(counts["launches"]["cuLaunchKernel"], json!(200), "{counts:#}");
            assert_eq!(counts["scheduled"], counts["launches"], "{counts:#}");
        }
    }
}

#[test]
fn events_that_are_destroyed_are_forgotten() {
    check(scheduled("events").env("XSCHED_AUTO_XQUEUE_UNIT", "streams"), "events");
}

#[test]
fn times_that_contain_a_hold_are_counted() {
    for level in ["1", "2"] {
        let mut command = scheduled("times");
        command.env("XSCHED_AUTO_XQUEUE_LEVEL", level).env("XSCHED_POLICY", "hpf");
        let counts = counts("times", &mut command);
        assert_eq!(counts["held_times"], json!(1), "level {level}: {counts:#}");
    }
}

#[test]
fn queues_spoil_no_capture() {
    for counts in in_both_ways("beside") {
        assert_eq!(counts["launches"]["cuLaunchKernel"], json!(3_202));
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(3_002));
    }
}

#[test]
fn the_legacy_default_stream_is_left_alone_while_a_blocking_one_is_captured() {
    for counts in in_both_ways("blocking") {
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(2_000));
    }
}

#[test]
fn a_stream_may_join_a_capture() {
    for counts in in_both_ways("joined") {
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(42));
    }
}

#[test]
fn streams_may_end() {
    for counts in in_both_ways("short_lived") {
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(200));
    }
}

/// How many XQueues the streams of the program had.
fn xqueues_of(counts: &Value) -> u64 {
    let levels = counts["streams"].as_array().into_iter().flatten();
    levels.filter_map(|level| level["streams"].as_u64()).sum()
}

#[test]
fn a_stream_like_another_gets_its_xqueue_once_streams_are_told_apart() {
    // 200 streams, one after the other, and the default stream.
    let apart = counts_apart("short_lived");
    assert_eq!((xqueues_of(&apart), &apart["later"]), (201, &json!(0)));
    // That of the first one, which comes before the default stream's.
    let alike = counts_of("short_lived");
    assert_eq!((xqueues_of(&alike), &alike["later"]), (2, &json!(199)));
    // Four, then one that tells them apart, and the default stream.
    let late = counts("late", &mut scheduled("late"));
    assert_eq!(late["alone"], json!({ "cuLaunchKernel": 5 }));
    assert_eq!(late["scheduled"], late["launches"]);
    assert_eq!((xqueues_of(&late), &late["later"]), (6, &json!(0)));
}

#[test]
fn streams_like_one_that_ends_get_xqueues() {
    let counts = counts_of("left");
    assert_eq!((xqueues_of(&counts), &counts["later"]), (2, &json!(1)));
    assert_eq!(counts["alone"], counts["launches"]);
}

#[test]
fn a_primary_context_may_be_reset() {
    for counts in in_both_ways("reset") {
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(6));
    }
}

#[test]
fn a_library_may_retain_and_release_the_primary_context() {
    let mut command = scheduled("retained");
    let counts = counts("retained", command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams"));
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(6));
    check(&mut scheduled("retained"), "retained");
}

#[test]
fn a_program_s_own_xqueue_is_used_whatever_the_environment_says() {
    // With ON the other stream's two go through an XQueue too, and so do those after the last
    // XQueue's end.
    for (auto, launched, scheduled_of_these) in [("OFF", 8, 2), ("", 8, 2), ("ON", 6, 6)] {
        let mut command = scheduled("own_queue");
        let counts = counts("own_queue", command.env("XSCHED_AUTO_XQUEUE", auto));
        assert_eq!(counts["launches"]["cuLaunchKernel"], json!(launched), "{auto}: {counts:#}");
        let expected = json!(scheduled_of_these);
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], expected, "{auto}: {counts:#}");
    }
}

#[test]
fn threads_launch_at_once() {
    for counts in in_both_ways("threads") {
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(1_600));
    }
}

#[test]
fn copies_and_fills_are_launches() {
    let expected = json!({
        "cuMemcpyAsync": 1, "cuMemcpyDtoH_v2": 2, "cuMemcpyHtoD_v2": 1, "cuMemsetD32Async": 1,
    });
    for counts in in_both_ways("copies") {
        assert_eq!((&counts["scheduled"], &counts["launches"]), (&expected, &expected));
    }
}

#[test]
fn a_launch_that_nothing_holds_calls_the_driver_once() {
    let counts = counts_of("calls");
    assert_eq!(counts["alone"]["cuLaunchKernel"], json!(2_002));
}

#[test]
fn captures_are_not_asked_about_unless_it_schedules() {
    check(scheduled("unasked").env("XSCHED_AUTO_XQUEUE", "OFF"), "unasked");
}

#[test]
fn streams_of_one_priority_are_not_told_apart() {
    let counts = counts_of("alike");
    assert_eq!(counts["alone"]["cuLaunchKernel"], json!(30));
}

#[test]
fn a_stream_of_another_priority_tells_them_apart() {
    let prioritized = counts("priorities", &mut scheduled("priorities"));
    assert_eq!(prioritized["launches"]["cuLaunchKernel"], json!(30));
    assert_eq!(prioritized["scheduled"], prioritized["launches"]);
    assert_eq!(prioritized["alone"]["cuLaunchKernel"], json!(10));
    let default = counts("beside_default", &mut scheduled("beside_default"));
    assert_eq!(default["alone"], json!({ "cuLaunchKernel": 1 }));
    // The environment says one for all.
    let mut command = scheduled("priorities");
    let counts = counts("priorities", command.env("XSCHED_AUTO_XQUEUE_PRIORITY", "3"));
    assert_eq!(counts["alone"]["cuLaunchKernel"], json!(30));
}

#[test]
fn a_stream_in_the_connection_of_one_that_is_held_goes_on() {
    for (mode, connections) in [("neighbours", "2"), ("waiters", "4")] {
        let mut command = scheduled(mode);
        command.env("XSCHED_AUTO_XQUEUE_LEVEL", "2").env("XSCHED_POLICY", "hpf");
        command.env("CUDA_DEVICE_MAX_CONNECTIONS", connections);
        says(&mut command);
    }
}

#[test]
fn what_the_program_has_waited_for_is_known_to_have_run() {
    let counts = counts_apart("waited");
    assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(601));
}

#[test]
fn a_held_queue_holds_a_launch() {
    let at_first = counts("held", &mut scheduled("held"));
    assert_eq!(at_first["scheduled"]["cuLaunchKernel"], json!(51));
    // The program then asks for the queue.
    assert_eq!(at_first["alone"]["cuLaunchKernel"], json!(50));
    assert_eq!(counts_apart("held")["scheduled"]["cuLaunchKernel"], json!(51));
}

#[test]
fn launches_by_the_thread_that_suspended_their_stream_return() {
    // At level 2 the first four are the XQueue's, and the others are behind the gate of the first.
    for (level, tracked) in [("1", 1), ("2", 13)] {
        let mut command = scheduled("suspended");
        command.env("XSCHED_AUTO_XQUEUE_LEVEL", level).env("XSCHED_AUTO_XQUEUE_UNIT", "streams");
        command.env("XSCHED_AUTO_XQUEUE_THRESHOLD", "4").env("XLOG_LEVEL", "ERRO");
        let counts = counts("suspended", &mut command);
        assert_eq!(counts["launches"]["cuLaunchKernel"], json!(121), "{level}");
        assert_eq!(counts["scheduled"]["cuLaunchKernel"], json!(tracked), "{level}: {counts:#}");
    }
}

#[test]
fn why_streams_are_not_at_level_2_is_said_once() {
    let mut command = scheduled("short_lived");
    command.env("XSCHED_AUTO_XQUEUE_LEVEL", "2").env("XSCHED_AUTO_XQUEUE_UNIT", "streams");
    let output = says(command.env("XLOG_LEVEL", "INFO"));
    let said = String::from_utf8_lossy(&output.stderr);
    for why in ["it is the legacy default stream", "the legacy default stream waits for it"] {
        assert_eq!(said.matches(why).count(), 1, "{said}");
    }
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
