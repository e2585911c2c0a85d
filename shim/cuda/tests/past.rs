//! Why launches of programs in C go past XQueues, on the emulated driver.

mod common;

use std::fs;

use serde_json::{Value, json};

use common::{check, compile, with_interposer};

/// Counts of a program in this mode.
fn past(mode: &str, auto: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    compile("schedule.c", &folder.path().join("schedule"), &["-ldl", "-pthread"]);
    let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
    let counts = folder.path().join("counts.json");
    let mut command = with_interposer(folder.path().join("schedule"));
    command.arg(mode).env("XSCHED_CUDA_DRIVER", driver).env("XSCHED_AUTO_XQUEUE", auto);
    check(command.env("XSCHED_SHIM_COUNTS", &counts), mode);
    let counts: Value =
        serde_json::from_str(&fs::read_to_string(counts).expect("counts")).expect("JSON");
    // Each launch that was not scheduled has a reason.
    let sum = |key: &str| -> u64 {
        counts[key].as_object().expect("counts").values().filter_map(Value::as_u64).sum()
    };
    assert_eq!(sum("past"), sum("launches") - sum("scheduled"), "{counts:#}");
    counts["past"].clone()
}

#[test]
fn launches_go_past_for_a_reason() {
    assert_eq!(past("streams", "ON"), json!({}));
    let captured = json!({
        "while a stream was being captured": 2,
        "beside a capture, before their stream had an XQueue": 1,
    });
    assert_eq!(past("captured", "ON"), captured);
    let off = past("streams", "OFF");
    assert!(off["XSCHED_AUTO_XQUEUE is not ON"].as_u64() >= Some(200), "{off}");
}
