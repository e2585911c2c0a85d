//! `xsched devices`, as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn xsched(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(args).envs(variables.iter().copied());
    command.output().expect("the program runs")
}

/// Standard output of a run that must be fine, as JSON.
fn json(args: &[&str], variables: &[(&str, &str)]) -> Value {
    let output = xsched(args, variables);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// Libraries that are not there.
const NOWHERE: [(&str, &str); 2] =
    [("XSCHED_CUDA_LIB", "/nowhere/libcuda.so"), ("XSCHED_HIP_LIB", "/nowhere/libamdhip64.so")];

#[test]
fn a_machine_without_gpus_has_the_host_device_and_says_what_is_missing() {
    let list = json(&["devices", "--json", "-"], &NOWHERE);
    let devices = list["devices"].as_array().expect("a list");
    let of = |backend: &str| devices.iter().find(|device| device["backend"] == backend);
    assert_eq!(of("host").map(|host| &host["level"]), Some(&Value::from(3)));
    for (backend, library) in [("cuda", NOWHERE[0].1), ("hip", NOWHERE[1].1)] {
        let entry = of(backend).expect("a line for each backend");
        let why = entry["why"].as_str().unwrap_or_default();
        assert!(why.contains(library) && !why.contains('\n'), "{backend}: {why}");
        assert!(entry["device"].is_null(), "{backend}");
    }
}

#[test]
fn a_cuda_device_is_listed() {
    let library = xsched_cuda_emulated::path().expect("a place next to this test");
    let variables = [("XSCHED_CUDA_LIB", library.to_str().expect("text")), NOWHERE[1]];
    let list = json(&["devices", "--json", "-"], &variables);
    let devices = list["devices"].as_array().expect("a list");
    let cuda = devices.iter().find(|device| device["backend"] == "cuda").expect("CUDA's line");
    assert_eq!((&cuda["device"], &cuda["level"]), (&"Emulated H200".into(), &2.into()), "{cuda}");
}

#[test]
fn a_machine_without_amds_driver_says_so_in_one_line() {
    if std::path::Path::new("/dev/kfd").exists() {
        // There it lists GPUs, which `hal-kfd`'s own tests do on an emulated driver.
        return;
    }
    let list = json(&["devices", "--json", "-"], &NOWHERE);
    let devices = list["devices"].as_array().expect("a list");
    let kfd = devices.iter().find(|device| device["backend"] == "kfd").expect("a line for it");
    let why = kfd["why"].as_str().unwrap_or_default();
    assert!(why.contains("no /dev/kfd") && !why.contains('\n'), "{why}");
    let shown = xsched(&["devices"], &NOWHERE).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.lines().any(|line| line.starts_with("kfd: there is no /dev/kfd")), "{shown}");
}
