//! Lv3 of a HIP device through AMD's kernel driver, both emulated, with real system calls: that the
//! benches run from end to end. No GPU is involved, and how fast anything was is not asserted.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use xsched_kfd_emulated::Config;
use xsched_kfd_emulated::system::{Options, run};

/// A library that Cargo puts where it puts the tests.
fn library(name: &str) -> PathBuf {
    let test = env::current_exe().expect("tests are programs");
    test.parent().expect("programs are in folders").join(name)
}

/// Emulated devices keep processors busy, and one that does not answer for too long is given up.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the program on both, with the library preloaded that watches calls, or without. Its exit
/// code, what it printed and what it complained.
fn lab(folder: &Path, args: &str, watched: bool) -> (Option<i32>, String, String) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let image = folder.join("kernels");
    fs::write(&image, xsched_hip_emulated::IMAGE).expect("a file for the test");
    let file = |name: &str| fs::File::create(folder.join(name)).expect("a file for the test");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    command.args(args.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.stdout(file("out")).stderr(file("err"));
    command.env("XSCHED_HIP_LIB", library("libxsched_hip_emulated.so"));
    command.env("XSCHED_HIP_KERNELS", &image).env("XSCHED_HIP_WORK_KERNELS", &image);
    command.env("XSCHED_EMULATED_KFD", "1");
    // What must not be sent.
    command.env("HOME", folder.join("users/ottilie")).env("USER", "ottilie");
    command.env("HSA_OVERRIDE", "/srv/Geheimnis/ottilie.txt");
    let found = env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}/bin:{found}", folder.display()));
    if watched {
        command.env("LD_PRELOAD", library("libxsched_kfd_watch.so"));
    }
    let options = Options { config: Config::mi308x(), ..Options::default() };
    let report = run(&options, &mut command).expect("the emulated driver");
    assert_eq!(report.unmodelled, []);
    let text = |name: &str| fs::read_to_string(folder.join(name)).expect("what was printed");
    (report.status.code(), text("out"), text("err"))
}

/// A report of some benches on the emulated driver, with private texts in the environment.
#[test]
fn the_one_command_is_rehearsed_through_to_the_tables_of_what_is_sent() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let home = folder.path().join("users/ottilie");
    fs::create_dir_all(&home).expect("a folder for the test");
    let args = format!("bench all --hal kfd --quick --report {}/mi308x", home.display());
    let some = format!("{args} --only lv3-canary,7.2.2,4.2.1");
    let (code, printed, complained) = lab(folder.path(), &some, false);
    assert_eq!(code, Some(0), "{printed}{complained}");
    assert!(printed.starts_with("3 benches with few samples"), "{printed}");
    assert!(printed.contains("at most 10"), "{printed}");
    // What is there is not done again.
    let (code, again, _) = lab(folder.path(), &format!("{some} --resume"), false);
    assert_eq!(code, Some(0), "{again}");
    assert_eq!(again.matches("done before").count(), 3, "{again}");

    let report = home.join("mi308x");
    let archive = report.join("xsched-report.jsonl.gz");
    let unpacked = Command::new("gzip").args(["-dc"]).arg(&archive).output();
    let unpacked = unpacked.expect("gzip").stdout;
    let unpacked = String::from_utf8(unpacked).expect("texts");
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let temporary = folder.path().display().to_string();
    for private in ["ottilie", "Geheimnis", &temporary, &node] {
        println!("looking for {private:?} in {} bytes", unpacked.len());
        assert!(!unpacked.contains(private), "{private}");
    }
    assert!(unpacked.contains("HSA_OVERRIDE"), "the environment is there: {unpacked}");

    for file in [&archive, &report] {
        let args = format!("report {} --html page.html", file.display());
        let (code, text, complained) = lab(folder.path(), &args, false);
        assert_eq!(code, Some(0), "{text}{complained}");
        for part in ["## How long does an interrupt take", "| debug-trap | ", "| lv3-canary |"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
        assert!(page.contains("Do results survive?") && !page.contains("<script"), "{page}");
    }
}

/// Script in place of Python with PyTorch for ROCm: it has what is asked for, and its one program
/// had other results under `xsched run`.
const PYTHON: &str = r#"#!/bin/sh
[ "$1" = -c ] && exit 0
while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done
echo '{"programs": [{"program": "operators.py", "same": false, "ratio": 1.25}]}' > "$out"
exit 1
"#;

#[test]
fn programs_of_pytorch_are_run_where_it_is_and_other_results_are_a_finding() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the test");
        fs::write(&path, text).expect("a file for the test");
        path
    };
    put("lab/programs/run.py", "");
    // The program that the real `run.py` would start; nothing starts it here.
    for program in [put("bin/python3", PYTHON), put("bin/xsched", "")] {
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its own file");
    }
    let args = "bench all --hal kfd --quick --report report --only 4.2.1";
    let (code, printed, complained) = lab(folder.path(), args, false);
    assert_eq!(code, Some(1), "{printed}{complained}");
    let record = fs::read_to_string(folder.path().join("report/4.2.1.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!((&record["pass"], &record["status"]), (&false.into(), &"measured".into()));
    assert_eq!(record["results"]["programs"][0]["scheduled_over_plain"], 1.25, "{record}");
}

#[test]
fn what_is_no_report_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    fs::write(folder.path().join("text"), "no archive").expect("a file for the test");
    for (file, why) in [("text", "not an archive"), (".", "cannot read"), ("none", "cannot read")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
        let output = command.args(["report", file]).current_dir(folder.path()).output();
        let output = output.expect("the program runs");
        let complained = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{complained}");
        assert!(complained.contains(why) && complained.lines().count() == 1, "{complained}");
    }
}

/// A record in which nothing went wrong, of `combinations` combinations.
fn record(folder: &Path, args: &str, watched: bool, combinations: usize) -> Value {
    let (code, printed, complained) = lab(folder, args, watched);
    assert_eq!(code, Some(0), "{printed}{complained}");
    let record = fs::read_to_string(folder.join("record.json")).expect("the record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["device"]["hal"], "kfd", "{record}");
    assert_eq!((&record["stopped"], &record["failures"]), (&Value::Null, &Value::Array(vec![])));
    let cells = record["cells"].as_array().expect("a list");
    assert_eq!(cells.len(), combinations, "{record}");
    for cell in cells {
        assert_eq!((&cell["sums"]["wrong"], &cell["lost"]), (&0.into(), &0.into()), "{cell}");
        assert_eq!(cell["ran_on"], 0, "{cell}");
    }
    record
}

#[test]
fn interrupts_by_the_driver_change_no_result() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let args = "bench interrupt --hal kfd --kinds alu,lds --queues 1,2 \
                --command-us 2000 --trials 2 --interrupts 20 --calls 1 --processes 0 \
                --json record.json --svg picture.svg --events events.jsonl";
    // Two kinds in three shares, and two queues; by each mechanism.
    let record = record(folder.path(), args, true, 14);
    assert_eq!(record["mechanisms"], Value::from(vec!["update-queue", "debug-trap"]), "{record}");
    let refused = record["refused"].as_array().expect("a list");
    assert_eq!(refused.len(), 1, "{record}");
    assert!(refused[0].to_string().contains("preempt-queue"), "it has to be asked for: {record}");
}

#[test]
fn the_debuggers_list_tells_queues_without_the_preloaded_library() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let args = "bench interrupt --hal kfd --kinds alu --queues 2 \
                --command-us 2000 --trials 2 --interrupts 5 --calls 1 --processes 0 \
                --json record.json";
    let record = record(folder.path(), args, false, 4);
    assert_eq!(record["mechanisms"], Value::from(vec!["debug-trap"]), "{record}");
    let refused = record["refused"].to_string();
    assert!(refused.contains("libxsched_kfd_watch.so"), "{refused}");
}

#[test]
fn the_driver_stops_only_the_streams_of_its_queue() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let args = "bench placement --hal kfd --trials 2 --calls 1 --json record.json";
    let (code, printed, complained) = lab(folder.path(), args, true);
    assert_eq!(code, Some(0), "{printed}{complained}");
    let record = fs::read_to_string(folder.path().join("record.json")).expect("the record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let rings = &record["rings"];
    assert_eq!(rings["not_by_the_driver"], Value::Null, "{rings}");
    let streams = rings["streams"].as_array().expect("a list");
    // Those that were first in their ring, and those with a ring of their own.
    let with_queue = streams.iter().filter(|stream| stream["queue"].is_u64());
    let names: Vec<&str> = with_queue.filter_map(|stream| stream["name"].as_str()).collect();
    let all = ["shared 0", "shared 1", "shared 2", "shared 3", "own 0", "own 1", "own 2"];
    // On a busy machine a ring of a stream that was tried before may still be there, and is shared.
    let without_one = [&all[..3], &all[4..]].concat();
    assert!(names == all || names == without_one, "{rings}");
    let pairs = rings["pairs"].as_array().expect("a list");
    let of = |by: &str| -> Vec<(Value, Value)> {
        let stopped = pairs.iter().filter(|pair| pair["by"] == by && pair["took_ns"].is_null());
        stopped.map(|pair| (pair["held"].clone(), pair["other"].clone())).collect()
    };
    let (by_gate, by_driver) = (of("gate"), of("update-queue"));
    assert!(!by_driver.is_empty() && by_driver.iter().all(|pair| by_gate.contains(pair)));
    for pair in by_gate {
        let held = usize::try_from(pair.0.as_u64().expect("a number")).expect("a place");
        let known = streams[held]["queue"].is_u64();
        assert_eq!(by_driver.contains(&pair), known, "{pair:?}");
    }
}

#[test]
fn a_cooperative_kernel_is_not_in_the_ring_that_is_interrupted() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let args = "bench interrupt --hal kfd --kinds meeting,cooperative --queues 1 \
                --command-us 2000 --trials 3 --interrupts 20 --calls 1 --processes 0 \
                --json record.json";
    let (code, printed, complained) = lab(folder.path(), args, true);
    assert_eq!(code, Some(0), "{printed}{complained}");
    let record = fs::read_to_string(folder.path().join("record.json")).expect("the record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!((&record["stopped"], &record["failures"]), (&Value::Null, &Value::Array(vec![])));
    let cells = record["cells"].as_array().expect("a list");
    // Two kinds in three shares, by each mechanism.
    assert_eq!(cells.len(), 12, "{record}");
    for cell in cells {
        assert_eq!((&cell["sums"]["wrong"], &cell["lost"]), (&0.into(), &0.into()), "{cell}");
        if cell["combination"]["load"]["kind"] == "meeting" {
            assert_eq!(cell["ran_on"], 0, "{cell}");
        }
    }
    let ran_on = |cell: &&Value| cell["ran_on"] != 0;
    assert!(cells.iter().any(|cell| ran_on(&cell)), "the device's own ring is not held: {record}");
    let traits = record["traits"].to_string();
    assert!(traits.contains("hipModuleLaunchCooperativeKernel"), "{traits}");
}
