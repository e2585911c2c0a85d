//! Benches on HIP devices, over the emulated runtime: that they run, and what they say where
//! something is missing. How fast it was is not asserted.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

fn bench(library: &Path, image: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
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
fn overhead_runs() {
    let args = ["overhead", "--rounds", "1", "--commands-us", "1000"];
    let value = measured("overhead", &args);
    assert!(!value["rows"].as_array().expect("a list").is_empty(), "{value}");
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
