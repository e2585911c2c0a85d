//! Programs in C whose streams are those of several contexts and threads, on the emulated driver.

mod common;

use std::process::Command;

use serde_json::{Value, json};

use common::emulated::{self, counts};
use common::{calm, check};

/// The program in this mode, scheduled.
fn scheduled(mode: &str) -> Command {
    emulated::scheduled("contexts", mode)
}

/// All that was launched is scheduled, whether or not streams are scheduled one by one.
fn all_is_scheduled(mode: &str) -> Value {
    let [_, counts] = emulated::in_both_ways("contexts", mode).map(|counts| {
        assert_eq!(counts["scheduled"], counts["launches"], "{mode}");
        counts
    });
    counts
}

#[test]
fn streams_of_own_contexts_go_through_queues() {
    let counts = all_is_scheduled("versions");
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(3 * 81));
}

#[test]
fn own_contexts_may_end() {
    let counts = all_is_scheduled("ends");
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(20 * 21));
}

#[test]
fn a_context_ends_with_the_last_reference() {
    check(&mut scheduled("attached"), "attached");
    check(scheduled("attached").env("XSCHED_AUTO_XQUEUE_UNIT", "streams"), "attached");
}

#[test]
fn a_stream_is_of_its_own_context_whichever_is_current() {
    let counts = all_is_scheduled("elsewhere");
    assert_eq!(counts["launches"]["cuMemsetD32Async"], json!(20));
}

#[test]
fn contexts_may_be_of_several_devices() {
    let mut command = scheduled("devices");
    let counts = counts("devices", command.env("XSCHED_EMULATED_DEVICES", "2"));
    assert_eq!(counts["scheduled"], counts["launches"]);
    // The thread launches into default streams alone, and has another context meanwhile.
    let levels = counts["streams"].as_array().expect("levels");
    let streams: u64 = levels.iter().filter_map(|level| level["streams"].as_u64()).sum();
    assert_eq!(streams, 2, "{counts:#}");
}

#[test]
fn streams_of_several_contexts_are_compared() {
    check(scheduled("compared").env("XSCHED_POLICY", "HPF"), "compared");
}

/// At level 2, where streams are held at gates.
fn at_level_2(mode: &str) -> Command {
    let mut command = scheduled(mode);
    command.env("XSCHED_AUTO_XQUEUE_LEVEL", "2").env("XSCHED_GATE_SPACING_US", "1");
    command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams").env("XSCHED_POLICY", "HPF");
    command
}

fn with_gates(mode: &str) {
    // Default streams have no gates, which is said. Calls that take long on a busy machine open
    // all.
    calm(&mut at_level_2(mode));
}

#[test]
fn a_call_that_waits_for_the_device_opens_gates() {
    with_gates("frees");
}

#[test]
fn a_call_of_a_thread_that_ends_opens_gates() {
    with_gates("frees_at_end");
}

#[test]
fn a_thread_that_ends_may_launch() {
    let counts = all_is_scheduled("of_ending_threads");
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(5 * 11));
}

#[test]
fn a_wait_for_a_stream_opens_none() {
    with_gates("waits");
}

#[test]
fn a_context_may_end_with_a_held_stream() {
    with_gates("ends_held");
}

#[test]
fn default_streams_of_threads_go_through_queues() {
    let counts = all_is_scheduled("of_threads");
    let launches = &counts["launches"];
    assert_eq!(
        (&launches["cuLaunchKernel_ptsz"], &launches["cuLaunchKernel"]),
        (&json!(1_800), &json!(1_801))
    );
}

#[test]
fn a_thread_may_end_before_what_it_launched() {
    all_is_scheduled("left");
}

#[test]
fn the_default_stream_of_a_thread_may_be_captured() {
    for counts in emulated::in_both_ways("contexts", "captured") {
        let scheduled = &counts["scheduled"];
        assert_eq!(
            (&scheduled["cuLaunchKernel_ptsz"], &scheduled["cuGraphLaunch_ptsz"]),
            (&json!(1), &json!(1))
        );
    }
}

#[test]
fn the_child_of_a_fork_goes_past_and_waits_for_no_lock() {
    let mut command = scheduled("forks");
    check(command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams"), "forks");
    check(&mut scheduled("forks"), "forks");
}
