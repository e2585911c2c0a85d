//! Leftovers of contexts and threads that end, on the emulated driver. These programs keep all
//! processors busy, and are apart from those that a busy machine disturbs.

mod common;

use std::process::Command;

use serde_json::json;

use common::{emulated, says};

/// The number that the program says first.
fn number_of(command: &mut Command) -> u64 {
    let output = says(command);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.lines().next().and_then(|line| line.parse().ok());
    number.unwrap_or_else(|| panic!("{command:?}: {text}"))
}

#[test]
fn contexts_that_end_leave_no_threads_and_hardly_any_memory() {
    let plain = number_of(emulated::scheduled("contexts", "kept").env("XSCHED_AUTO_XQUEUE", "OFF"));
    for level in ["1", "2"] {
        let kept = number_of(
            emulated::scheduled("contexts", "kept").env("XSCHED_AUTO_XQUEUE_LEVEL", level),
        );
        // The emulated driver's own, for what XQueues do in a context, is part of it.
        assert!(kept < plain + 1_500, "level {level}: {kept} bytes a context, plainly {plain}");
    }
}

#[test]
fn threads_one_after_the_other_need_one_xqueue() {
    let counts = emulated::counts_of("contexts", "short_threads");
    let streams = counts["streams"].as_array().into_iter().flatten();
    let xqueues: u64 = streams.filter_map(|level| level["streams"].as_u64()).sum();
    // That of the first thread's stream, and that of the legacy default stream.
    assert_eq!((xqueues, &counts["later"]), (2, &json!(299)), "{counts:#}");
    let mut command = emulated::scheduled("contexts", "short_threads");
    let events = number_of(command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams"));
    assert!(events < 30, "{events} events for 300 threads");
}
