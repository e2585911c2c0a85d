//! Lv3 of a HIP device through AMD's kernel driver, both emulated, with real system calls: that the
//! benches run from end to end. No GPU is involved, and how fast anything was is not asserted.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use xsched_kfd_emulated::Config;
use xsched_kfd_emulated::system::{Options, run};

/// A library that Cargo puts where it puts the tests.
fn library(name: &str) -> PathBuf {
    let test = env::current_exe().expect("tests are programs");
    test.parent().expect("programs are in folders").join(name)
}

/// Runs the program on both. Its exit code, what it printed and what it complained.
fn xsched(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let image = folder.join("kernels");
    fs::write(&image, xsched_hip_emulated::IMAGE).expect("a file for the test");
    let file = |name: &str| fs::File::create(folder.join(name)).expect("a file for the test");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command.stdout(file("out")).stderr(file("err"));
    command.env("XSCHED_HIP_LIB", library("libxsched_hip_emulated.so"));
    command.env("XSCHED_HIP_KERNELS", &image).env("XSCHED_HIP_WORK_KERNELS", &image);
    command.env("XSCHED_EMULATED_KFD", "1");
    command.env("LD_PRELOAD", library("libxsched_kfd_watch.so"));
    let options = Options { config: Config::mi308x(), ..Options::default() };
    let report = run(&options, &mut command).expect("the emulated driver");
    assert_eq!(report.unmodelled, []);
    let text = |name: &str| fs::read_to_string(folder.join(name)).expect("what was printed");
    (report.status.code(), text("out"), text("err"))
}

#[test]
fn interrupts_by_the_driver_change_no_result() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let args = "bench interrupt --hal kfd --kinds alu,lds --queues 1,2 \
                --command-us 2000 --trials 2 --interrupts 20 --calls 1 --processes 0 \
                --json record.json --svg picture.svg --events events.jsonl";
    let args: Vec<&str> = args.split_whitespace().collect();
    let (code, printed, complained) = xsched(folder.path(), &args);
    assert_eq!(code, Some(0), "{printed}{complained}");
    let record = fs::read_to_string(folder.path().join("record.json")).expect("the record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["device"]["hal"], "kfd", "{record}");
    assert_eq!((&record["stopped"], &record["failures"]), (&Value::Null, &Value::Array(vec![])));
    // Two kinds in three shares, and two queues.
    let cells = record["cells"].as_array().expect("a list");
    assert_eq!(cells.len(), 7, "{record}");
    for cell in cells {
        assert_eq!((&cell["sums"]["wrong"], &cell["lost"]), (&0.into(), &0.into()), "{cell}");
        assert_eq!(cell["ran_on"], 0, "{cell}");
    }
    assert_eq!(record["mechanisms"], Value::from(vec!["update-queue"]), "{record}");
    let refused = record["refused"].to_string();
    assert!(refused.contains("preempt-queue"), "it has to be asked for: {refused}");
    // The emulated runtime does not say to the driver that it is there.
    assert!(refused.contains("debug-trap"), "{refused}");
}
