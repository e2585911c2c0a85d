//! Benches on HIP devices, over the emulated runtime: that they run, and what they say where
//! something is missing. How fast it was is not asserted.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The emulated runtime's library, which Cargo puts where it puts the tests.
fn library() -> PathBuf {
    let test = env::current_exe().expect("tests are programs");
    test.parent().expect("programs are in folders").join("libxsched_hip_emulated.so")
}

/// A file with the emulated runtime's kernels, gone at the end.
struct Image(PathBuf);

impl Image {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("xsched-hip-{test}-{}", std::process::id()));
        fs::write(&path, xsched_hip_emulated::IMAGE).expect("a file for the test");
        Self(path)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Emulated devices keep processors busy, and one that does not answer for too long is given up.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn bench(library: &Path, image: &Path, args: &[&str]) -> Output {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    command.arg("bench").args(args).args(["--hal", "hip", "--json", "-"]).stdin(Stdio::null());
    command.env("XSCHED_HIP_LIB", library).env("XSCHED_HIP_KERNELS", image);
    command.output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Runs a bench, and gives what it measured.
fn measured(test: &str, args: &[&str]) -> Value {
    let image = Image::new(test);
    let output = bench(&library(), &image.0, args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["device"]["hal"], "hip", "{value}");
    value
}

/// The one line with which a bench refuses to start.
fn refused(library: &Path, image: &Path, args: &[&str]) -> String {
    let output = bench(library, image, args);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let said = text(&output.stderr).trim_end();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.to_owned()
}

#[test]
fn fixed_priority_runs_in_all_ways() {
    let args = ["fixed-priority", "--samples", "3", "--commands", "2", "--background-us", "500"];
    let value = measured("priority", &args);
    let cells = value["cells"].as_array().expect("a list");
    let ways: Vec<_> = cells.iter().filter_map(|cell| cell["mode"].as_str()).collect();
    for way in ["plain", "priority", "lv1", "gate", "gate@300", "gate+priority"] {
        assert!(ways.contains(&way), "{way}: {ways:?}");
    }
    assert_eq!(cells[0]["foreground"]["samples"], 3, "{value}");
}

#[test]
fn a_demo_takes_the_gpu_that_works_and_has_no_prediction_for_it() {
    let image = Image::new("demo");
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    command.args(["demo", "--requests", "3", "--json", "-"]).stdin(Stdio::null());
    command.env("XSCHED_CUDA_LIB", "/nowhere/libcuda.so");
    command.env("XSCHED_HIP_LIB", library()).env("XSCHED_HIP_KERNELS", &image.0);
    let output = command.output().expect("the program runs");
    let said = text(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("device: ") && first.contains(" (hip, since no better "), "{said}");
    assert!(first.ends_with("; --hal takes another: host, cuda, kfd"), "{said}");
    assert!(said.contains("\ncuda: ") && said.contains("nothing was simulated"), "{said}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["device"]["hal"], "hip", "{value}");
    assert_eq!(value["simulated"], Value::Null, "{value}");
}

#[test]
fn overhead_runs() {
    let args = ["overhead", "--rounds", "1", "--commands-us", "1000"];
    let value = measured("overhead", &args);
    assert!(!value["rows"].as_array().expect("a list").is_empty(), "{value}");
}

#[test]
fn requests_run_as_kernels_and_as_graphs_in_threads_and_processes() {
    let args = "requests --requests 2 --pause-ms 0 --clients 1,2 --processes 2";
    let args: Vec<&str> = args.split_whitespace().collect();
    let value = measured("requests", &args);
    assert_eq!(value["left_out"], Value::Array(Vec::new()), "{value}");
    let rows = value["rows"].as_array().expect("a list");
    let of = |row: &Value| {
        let series = row["series"].as_array().expect("a list").len();
        (row["form"].clone(), row["threads"].clone(), row["processes"].clone(), series)
    };
    let found: Vec<_> = rows.iter().map(of).collect();
    for form in ["kernels", "graph"] {
        for (threads, processes, times) in [(1, 0, 2), (2, 0, 2), (2, 2, 1)] {
            let wanted = (form.into(), threads.into(), processes.into(), 2 * threads);
            let here = found.iter().filter(|row| **row == wanted).count();
            assert_eq!(here, times, "{form}, {threads} threads: {found:?}");
        }
    }
}

/// The emulated runtime has 4 rings for streams of normal priority, so the fifth and the sixth
/// stream share those of the first and the second, and the default stream comes next.
#[test]
fn shared_rings_are_told_from_those_of_their_own() {
    let value = measured("placement", &["placement", "--trials", "3", "--calls", "1"]);
    assert_eq!(value["stopped"], Value::Null, "{value}");
    let rings = &value["rings"];
    let streams = rings["streams"].as_array().expect("a list");
    let name = |at: &Value| {
        let at = usize::try_from(at.as_u64().expect("a number")).expect("a place");
        streams[at]["name"].as_str().expect("a name")
    };
    let pairs = rings["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 10 * 9);
    assert!(pairs.iter().all(|pair| pair["was_held"] == true), "{rings}");
    let stopped = pairs.iter().filter(|pair| pair["took_ns"].is_null());
    let mut stopped: Vec<_> =
        stopped.map(|pair| (name(&pair["held"]), name(&pair["other"]))).collect();
    stopped.sort_unstable();
    let mut wanted = Vec::new();
    for (one, other) in [
        ("shared 0", "shared 4"),
        ("shared 1", "shared 5"),
        ("shared 2", "default 0"),
        // Not for its ring: the default stream waits for all streams that may block it.
        ("own 0", "default 0"),
        ("own 1", "default 0"),
        ("own 2", "default 0"),
    ] {
        wanted.extend([(one, other), (other, one)]);
    }
    wanted.sort_unstable();
    assert_eq!(stopped, wanted);

    let words = value["words"].as_array().expect("a list");
    assert_eq!(words.len(), 6);
    for word in words {
        assert_eq!((&word["error"], &word["passed"]), (&Value::Null, &0.into()), "{word}");
        assert_eq!(word["trials"].as_array().expect("a list").len(), 3, "{word}");
    }
    let firsts = value["firsts"].as_array().expect("a list");
    let waited = |held: bool| {
        let waited = firsts.iter().filter(|row| row["held"] == held && row["blocked"] != 0);
        waited.filter_map(|row| row["call"].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(waited(false), [""; 0]);
    assert!(waited(true).contains(&"launch in the default stream"), "{firsts:?}");
    assert!(!waited(true).contains(&"launch in a stream that is there"), "{firsts:?}");
    assert!(!waited(true).contains(&"new stream and its first launch"), "{firsts:?}");
}

#[test]
fn what_is_missing_is_said_in_a_line() {
    let image = Image::new("missing");
    let none = Path::new("/nonexistent/libamdhip64.so");
    let args = ["fixed-priority", "--samples", "3"];
    let said = refused(none, &image.0, &args);
    assert!(said.contains("XSCHED_HIP_LIB names `/nonexistent/libamdhip64.so`"), "{said}");
    let said = refused(&library(), Path::new("/nonexistent/spin.hsaco"), &args);
    assert!(said.contains("cannot be read from `/nonexistent/spin.hsaco`"), "{said}");
    // Without a file, the runtime gets the code object for gfx942, which this one cannot use.
    let said = refused(&library(), Path::new(""), &args);
    assert!(said.contains("hipErrorInvalidImage") && said.contains("spin.hip"), "{said}");
    let mut args = args.to_vec();
    args.extend(["--device", "7"]);
    let said = refused(&library(), &image.0, &args);
    assert!(said.contains("there is no device 7; choose one of 0..1"), "{said}");
    let said = refused(&library(), &image.0, &["graphs"]);
    assert!(said.contains("use --hal cuda"), "{said}");
}
