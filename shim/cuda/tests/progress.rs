//! Programs in C whose work waits for what no driver tells of, scheduled in all ways: none hangs.

mod common;

use common::emulated;
use common::says;

/// Runs it where streams are held by their priorities, at each level, alike, and where nothing
/// tells them apart.
fn ends_in_all_ways(mode: &str) {
    for (unit, level, policy) in [
        ("streams", "1", "HPF"),
        ("streams", "2", "HPF"),
        ("process", "2", "HPF"),
        ("streams", "2", "UP"),
    ] {
        let mut command = emulated::scheduled("progress", mode);
        command.env("XSCHED_AUTO_XQUEUE_UNIT", unit).env("XSCHED_AUTO_XQUEUE_LEVEL", level);
        let output = says(command.env("XSCHED_POLICY", policy));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.lines().last(), Some(mode), "{command:?}");
    }
}

#[test]
fn a_stream_may_wait_for_the_thread_that_launches_there() {
    ends_in_all_ways("launches");
}

#[test]
fn a_function_of_the_host_may_need_a_lock_of_a_thread_that_launches() {
    ends_in_all_ways("locks");
}

#[test]
fn an_urgent_stream_may_wait_for_a_value_of_another_one() {
    ends_in_all_ways("values");
}

#[test]
fn a_stream_may_end_before_its_work() {
    ends_in_all_ways("ends");
}

#[test]
fn a_capture_may_begin_before_the_work_of_its_stream_ends() {
    ends_in_all_ways("captures");
}
