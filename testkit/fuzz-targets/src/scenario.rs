//! The property that fuzzing checks. Not part of the interface.

use std::path::Path;

use xsched_sim::scenario::{MAX_COMMANDS, MAX_DEVICES, MAX_TASKS, Scenario};

/// The file name that errors have to contain.
const FILE: &str = "fuzzed/scenario.toml";
/// Text of every trace file.
const TRACE: &[u8] = b"at_ms,commands,command_us\n0\n1.5,3\n2,4,10 # last\n";

/// Parses anything. An error has to be one line that names the file, and what is accepted has to
/// keep to the limits.
///
/// # Panics
///
/// If one of these does not hold.
pub fn fuzz_scenario(data: &[u8]) {
    // Nothing outside the folder exists, so that what is wrong in a file shows its name.
    let mut read = |path: &Path| match path.starts_with("fuzzed") {
        true => Ok(TRACE.to_vec()),
        false => Err(std::io::ErrorKind::NotFound.into()),
    };
    match Scenario::parse_bytes(data, Path::new(FILE), &mut read) {
        Ok(scenario) => check_limits(&scenario),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("fuzzed/"), "no file in {text:?}");
            assert_eq!(text.lines().count(), 1, "not one line: {text:?}");
            assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
            assert!(error.line >= 1, "no line in {text:?}");
            assert!(!error.key.is_empty(), "no key in {text:?}");
            assert!(!error.message.is_empty(), "no message in {text:?}");
        }
    }
}

fn check_limits(scenario: &Scenario) {
    assert!((1..=MAX_DEVICES).contains(&scenario.devices.len()), "number of devices");
    let tasks = scenario.expanded_tasks();
    assert!((1..=MAX_TASKS).contains(&tasks.len()), "number of tasks");
    let ends = scenario.duration_ns.is_some() || tasks.iter().any(|task| task.requests.is_some());
    assert!(ends, "a run without an end");
    for task in &tasks {
        assert_eq!(task.count, 1, "an expanded task has one copy");
        assert!((1..=MAX_COMMANDS).contains(&task.commands), "commands of {}", task.name);
        assert!(task.device < scenario.devices.len(), "device of {}", task.name);
        assert!(task.process.is_none_or(|p| p < scenario.processes.len()), "process");
        assert!(task.after.is_none_or(|after| after < tasks.len()), "after of {}", task.name);
        assert!((1..=task.threshold).contains(&task.batch), "batch of {}", task.name);
        assert!(task.threshold <= task.capacity, "capacity of {}", task.name);
    }
}
