//! Programs in C on the emulated driver, scheduled.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{beside, check, compile, with_interposer};

struct Built {
    folder: TempDir,
    driver: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["schedule", "contexts", "progress", "random", "ready"] {
            let source = format!("{name}.c");
            compile(&source, &folder.path().join(name), &["-ldl", "-pthread"]);
        }
        let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
        Built { folder, driver }
    })
}

/// A program in this mode, scheduled.
pub(crate) fn scheduled(program: &str, mode: &str) -> Command {
    let built = built();
    let mut command = with_interposer(built.folder.path().join(program));
    command.arg(mode).env("XSCHED_CUDA_DRIVER", &built.driver).env("XSCHED_AUTO_XQUEUE", "ON");
    command.env("PREEMPT", beside("libpreempt.so"));
    command
}

/// Runs it, and answers what was counted.
pub(crate) fn counts(mode: &str, command: &mut Command) -> Value {
    // Tests run at once, two of them in the same mode.
    let name = format!("{mode}-{:?}.json", std::thread::current().id());
    let file = built().folder.path().join(name);
    check(command.env("XSCHED_SHIM_COUNTS", &file), mode);
    serde_json::from_str(&fs::read_to_string(file).expect("counts")).expect("JSON")
}

/// Counts while nothing tells the streams apart, where each launch that is scheduled is made at
/// once.
pub(crate) fn counts_of(program: &str, mode: &str) -> Value {
    let counts = counts(mode, &mut scheduled(program, mode));
    assert_eq!(counts["alone"], counts["scheduled"], "{mode}");
    counts
}

/// Counts when streams are scheduled one by one.
pub(crate) fn counts_apart(program: &str, mode: &str) -> Value {
    let mut command = scheduled(program, mode);
    let counts = counts(mode, command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams"));
    assert_eq!(counts["alone"], json!({}), "{mode}");
    counts
}

/// Counts in both ways.
pub(crate) fn in_both_ways(program: &str, mode: &str) -> [Value; 2] {
    [counts_of(program, mode), counts_apart(program, mode)]
}
