//! Programs in C that know nothing of XQueues, scheduled on the emulated runtime, or on HIP's own:
//! `cargo xtask rocm`.

mod common;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

// It is built with these tests.
use xsched_hip_emulated as _;

use common::{
    SONAMES, beside, check, compile, interposer, is_real, names, runtime, says, with_interposer,
    with_preloaded,
};

fn built() -> &'static TempDir {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        names(&folder.path().join("names"));
        compile("schedule.c", &folder.path().join("schedule"), &["-ldl", "-pthread"]);
        // Linked with the name that programs of ROCm 7 need.
        let named = folder.path().join("names/libamdhip64.so.7");
        let named = [named, interposer()].map(|path| path.into_os_string().into_string());
        let [named, interposer] = named.map(|path| path.expect("text"));
        let linked = ["-DLINKED", "-ldl", "-pthread", &named, &interposer];
        compile("schedule.c", &folder.path().join("linked"), &linked);
        folder
    })
}

/// The program in this mode, scheduled.
fn scheduled(mode: &str) -> Command {
    let folder = built().path();
    let mut command = with_interposer(folder.join("schedule"), &folder.join("names"));
    command.arg(mode).env("XSCHED_AUTO_XQUEUE", "ON");
    command.env("XSCHED_HIP_RUNTIME", runtime());
    command.env("PREEMPT", beside("libpreempt.so"));
    command
}

/// Runs it, and answers what was counted.
fn counts(mode: &str, command: &mut Command) -> Value {
    // Tests run at once, two of them in the same mode.
    let name = format!("{mode}-{:?}.json", std::thread::current().id());
    let file = built().path().join(name);
    check(command.env("XSCHED_SHIM_COUNTS", &file), mode);
    serde_json::from_str(&fs::read_to_string(file).expect("counts")).expect("JSON")
}

/// Counts while nothing tells the streams apart, where each launch that is scheduled is made at
/// once.
fn counts_of(mode: &str) -> Value {
    let counts = counts(mode, &mut scheduled(mode));
    assert_eq!(counts["alone"], counts["scheduled"], "{mode}");
    counts
}

/// Counts when streams are scheduled one by one.
fn counts_apart(mode: &str) -> Value {
    let mut command = scheduled(mode);
    let counts = counts(mode, command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams"));
    assert_eq!(counts["alone"], json!({}), "{mode}");
    counts
}

/// Counts in both ways.
fn in_both_ways(mode: &str) -> [Value; 2] {
    [counts_of(mode), counts_apart(mode)]
}

#[test]
fn every_stream_goes_through_a_queue() {
    for counts in in_both_ways("streams") {
        assert_eq!(counts["launches"]["hipLaunchKernel"], json!(200));
        assert_eq!(counts["scheduled"], counts["launches"]);
    }
}

#[test]
fn by_whatever_name_the_runtime_is_opened() {
    for soname in SONAMES {
        let counts = counts("streams", scheduled("streams").env("SONAME", soname));
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(200), "{soname}");
    }
}

#[test]
fn a_linked_program_calls_before_main() {
    let folder = built().path();
    let mut command = with_interposer(folder.join("linked"), &folder.join("names"));
    command.arg("kernels").env("XSCHED_AUTO_XQUEUE", "ON");
    command.env("XSCHED_HIP_RUNTIME", runtime());
    let counts = counts("kernels", &mut command);
    assert_eq!(counts["scheduled"], counts["launches"]);
}

#[test]
fn nothing_does_unless_it_is_asked_for() {
    for mode in ["streams", "copies", "kernels"] {
        let counts = counts(mode, scheduled(mode).env("XSCHED_AUTO_XQUEUE", "OFF"));
        assert_eq!((&counts["scheduled"], &counts["alone"]), (&json!({}), &json!({})));
        assert_ne!(counts["launches"], json!({}));
    }
}

#[test]
fn captures_are_left_alone_and_graphs_are_scheduled() {
    for counts in in_both_ways("captured") {
        assert_eq!(counts["scheduled"]["hipGraphLaunch"], json!(3));
        // Two are captured, and the third comes while a capture is under way and has no queue yet.
        assert_eq!(counts["launches"]["hipLaunchKernel"], json!(3));
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], Value::Null);
    }
}

#[test]
fn queues_spoil_no_capture() {
    for counts in in_both_ways("beside") {
        assert_eq!(counts["launches"]["hipLaunchKernel"], json!(3_202));
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(3_002));
    }
}

#[test]
fn the_legacy_default_stream_is_left_alone_while_a_blocking_one_is_captured() {
    for counts in in_both_ways("blocking") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(2_000));
    }
}

#[test]
fn a_stream_may_join_a_capture() {
    for counts in in_both_ways("joined") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(42));
    }
}

#[test]
fn streams_may_end_with_work_in_them() {
    for counts in in_both_ways("short_lived") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(200));
    }
}

#[test]
fn a_device_that_is_reset_leaves_no_threads() {
    for unit in ["process", "streams"] {
        check(scheduled("resets").env("XSCHED_AUTO_XQUEUE_UNIT", unit), "resets");
    }
}

#[test]
fn a_device_may_be_reset() {
    for counts in in_both_ways("reset") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(6));
    }
}

#[test]
fn threads_launch_at_once() {
    for counts in in_both_ways("threads") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(1_600));
    }
}

#[test]
fn copies_fills_functions_and_allocations_are_launches() {
    let expected = json!({
        "hipFreeAsync": 1, "hipLaunchHostFunc": 1, "hipMallocAsync": 1, "hipMemcpy": 3,
        "hipMemcpyAsync": 2, "hipMemcpyWithStream": 1, "hipMemset": 1, "hipMemsetAsync": 1,
        "hipMemsetD32Async": 1, "hipStreamAddCallback": 1,
    });
    for counts in in_both_ways("copies") {
        assert_eq!((&counts["scheduled"], &counts["launches"]), (&expected, &expected));
    }
}

#[test]
fn kernels_are_launched_in_many_ways() {
    let expected = json!({
        "hipDrvLaunchKernelEx": 1, "hipExtLaunchKernel": 1, "hipExtModuleLaunchKernel": 1,
        "hipLaunchCooperativeKernel": 1, "hipLaunchKernel": 2, "hipLaunchKernelExC": 1,
        "hipMemcpy": 8, "hipModuleLaunchKernel": 1,
    });
    for counts in in_both_ways("kernels") {
        assert_eq!((&counts["scheduled"], &counts["launches"]), (&expected, &expected));
    }
}

#[test]
fn each_device_has_its_default_stream() {
    for unit in ["process", "streams"] {
        let mut command = scheduled("devices");
        command.env("XSCHED_EMULATED_DEVICES", "2").env("XSCHED_AUTO_XQUEUE_UNIT", unit);
        let counts = counts("devices", &mut command);
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(82), "{unit}");
        assert_eq!(counts["scheduled"], counts["launches"], "{unit}");
    }
}

#[test]
fn threads_default_streams_go_through_queues() {
    for counts in in_both_ways("of_thread") {
        let launches = json!({"hipLaunchKernel": 1, "hipLaunchKernel_spt": 1, "hipMemcpy": 2});
        assert_eq!(counts["launches"], launches);
        assert_eq!(counts["scheduled"], launches);
    }
}

#[test]
fn a_held_queue_holds_a_launch() {
    let at_first = counts("held", &mut scheduled("held"));
    assert_eq!(at_first["scheduled"]["hipLaunchKernel"], json!(51));
    // The program then asks for the queue.
    assert_eq!(at_first["alone"]["hipLaunchKernel"], json!(50));
    assert_eq!(counts_apart("held")["scheduled"]["hipLaunchKernel"], json!(51));
}

/// On HIP's own runtime, streams are held by gates in hardware queues that others share.
#[test]
fn branches_of_graphs_wait_for_nothing_that_is_held_and_hold_nothing() {
    let mut command = scheduled("branches");
    command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams").env("XSCHED_AUTO_XQUEUE_LEVEL", "2");
    let counts = counts("branches", command.env("XSCHED_GATE_SPACING_US", "0"));
    // The other one is the default stream, which copies.
    let (level, count) = if is_real() { (2, 4) } else { (1, 5) };
    let streams = counts["streams"].as_array().expect("a list");
    let is_one = |row: &&Value| row["level"] == level;
    let at: u64 = streams.iter().filter(is_one).filter_map(|row| row["streams"].as_u64()).sum();
    assert_eq!(at, count, "{counts:#}");
}

/// On HIP's own runtime, copies of all streams wait in the queues of the same copy engines.
#[test]
fn copies_wait_for_none_of_a_stream_that_is_held() {
    let mut command = scheduled("copied");
    command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams").env("XSCHED_AUTO_XQUEUE_LEVEL", "2");
    let counts = counts("copied", command.env("XSCHED_GATE_SPACING_US", "0"));
    assert_eq!(counts["scheduled"]["hipMemcpyAsync"], json!(6));
}

/// Calls of each function of the runtime's own table, by its place, that a profiler counts which
/// registers with AMD's `rocprofiler-register`; `None` if the runtime registers no table.
fn seen_by_profiler(mut command: Command, calls: &str) -> Option<BTreeMap<usize, u64>> {
    let (tool, calls) = (built().path().join("tool.so"), built().path().join(calls));
    if !tool.exists() {
        compile("tool.c", &tool, &["-shared", "-fPIC"]);
    }
    let preloaded = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
    let preloaded = preloaded.and_then(|(_, libraries)| libraries).expect("libraries");
    let libraries = [tool.clone()].into_iter().chain(env::split_paths(preloaded));
    let libraries = env::join_paths(libraries).expect("paths without colons");
    command.env("LD_PRELOAD", libraries);
    command.env("ROCPROFILER_REGISTER_LIBRARY", &tool).env("CALLS", &calls);
    check(&mut command, "streams");
    let text = fs::read_to_string(calls).ok()?;
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let pair = |line: &str| line.split_once(' ').map(|(at, n)| (number(at) as usize, number(n)));
    Some(text.lines().map(|line| pair(line).expect("two numbers")).collect())
}

#[test]
#[ignore = "needs AMD's runtime: `cargo xtask rocm`"]
fn a_profiler_sees_each_call_once_and_those_of_this_library() {
    let mut alone = with_preloaded(built().path().join("schedule"), []);
    alone.arg("streams");
    let Some(alone) = seen_by_profiler(alone, "alone") else { return };
    assert!(alone.values().any(|calls| *calls == 200), "launches: {alone:?}");
    for unit in ["process", "streams"] {
        let mut command = scheduled("streams");
        command.env("XSCHED_AUTO_XQUEUE_LEVEL", "2").env("XSCHED_AUTO_XQUEUE_UNIT", unit);
        let seen = seen_by_profiler(command, unit).expect("the same table");
        for (at, calls) in &alone {
            let here = seen.get(at).copied().unwrap_or(0);
            assert!(here >= *calls, "{unit}: {here} calls of {at} and {calls} alone");
            assert!(*calls != 200 || here == 200, "{unit}: {here} launches and 200 alone");
        }
        assert!(seen.len() > alone.len(), "{unit}: it makes calls of its own");
    }
}

#[test]
fn a_device_may_be_waited_for_while_a_queue_is_held() {
    let at_first = counts("synchronized", &mut scheduled("synchronized"));
    for counts in [at_first, counts_apart("synchronized")] {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(2));
    }
}

#[test]
fn streams_may_have_masks() {
    for counts in in_both_ways("masks") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(160));
    }
}

#[test]
fn processes_that_were_forked_before_the_first_call_have_queues_of_their_own() {
    for unit in ["process", "streams"] {
        check(scheduled("children").env("XSCHED_AUTO_XQUEUE_UNIT", unit), "children");
    }
}

#[test]
fn a_program_s_own_xqueue_is_used() {
    for auto in ["ON", "OFF"] {
        let counts = counts("own_queue", scheduled("own_queue").env("XSCHED_AUTO_XQUEUE", auto));
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(2), "{auto}");
        // What its own command launches is not scheduled once more.
        assert_eq!(counts["launches"]["hipLaunchKernel"], json!(3), "{auto}");
    }
}

#[test]
fn a_launch_that_nothing_holds_calls_the_runtime_once() {
    let counts = counts_of("calls");
    assert_eq!(counts["alone"]["hipLaunchKernel"], json!(2_002));
}

#[test]
fn captures_are_not_asked_about_unless_it_schedules() {
    check(scheduled("unasked").env("XSCHED_AUTO_XQUEUE", "OFF"), "unasked");
}

#[test]
fn a_program_finds_its_own_errors() {
    for counts in in_both_ways("errors") {
        assert_eq!(counts["scheduled"]["hipLaunchKernel"], json!(200));
    }
    check(scheduled("errors").env("XSCHED_AUTO_XQUEUE", "OFF"), "errors");
}

#[test]
fn a_stream_of_another_priority_tells_them_apart() {
    assert_eq!(counts_of("alike")["alone"]["hipLaunchKernel"], json!(30));
    let prioritized = counts("priorities", &mut scheduled("priorities"));
    assert_eq!(prioritized["launches"]["hipLaunchKernel"], json!(30));
    assert_eq!(prioritized["scheduled"], prioritized["launches"]);
    assert_eq!(prioritized["alone"]["hipLaunchKernel"], json!(10));
}

#[test]
fn without_the_library_programs_run_as_they_are() {
    // A folder with the interposer alone.
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("libshimhip.so");
    fs::copy(interposer(), &alone).expect("a copy");
    let names = built().path().join("names/libamdhip64.so.7");
    let mut command = scheduled("streams");
    let preload = env::join_paths([alone, names]).expect("paths without colons");
    let output = says(command.env("LD_PRELOAD", preload));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("no libpreempt.so beside the interposer"), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}
