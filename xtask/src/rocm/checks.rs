//! The checks, and what each must print.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::build::EXAMPLES;
use super::stage::{Check, Judge, Mechanism, Stage};
use crate::{python, root};

/// Tests of scheduling that only the emulated runtime can run: it counts its own calls, has several
/// devices, and is not preloaded. With AMD's own, four of 12 programs that reset the device 60
/// times hang in a reset: a thread of the runtime holds a lock that the reset waits for, and waits
/// for a signal. Without XSched none of 44 does.
const EMULATED_ONLY: [&str; 5] = [
    "a_device_that_is_reset_leaves_no_threads",
    "a_launch_that_nothing_holds_calls_the_runtime_once",
    "captures_are_not_asked_about_unless_it_schedules",
    "each_device_has_its_default_stream",
    "without_the_library_programs_run_as_they_are",
];
/// Small rows of benches: commands that an interpreter gets through.
const OVERHEAD: &str = "bench overhead --hal hip --rounds 1 --commands-us 1000 --threshold 4";

/// All checks, those that take longest first.
///
/// # Errors
/// If a program of theirs was not built.
pub(super) fn all(stage: &Stage<'_>) -> Result<Vec<Check>> {
    let mut checks = conformance(stage)?;
    checks.extend(interrupted(stage)?);
    checks.push(interposer(stage)?);
    checks.extend(network(stage)?);
    checks.extend(benches(stage));
    checks.extend(examples(stage)?);
    checks.extend(devices(stage));
    Ok(checks)
}

fn conformance(stage: &Stage<'_>) -> Result<Vec<Check>> {
    let program = stage.built.test("rocm_conformance")?;
    let check = |name, level, subject: &str, mechanism, judge| {
        let mut command = stage.command(program, mechanism);
        command.env("XSCHED_ROCM_SUBJECT", subject);
        Check { name, level, mechanism, command, limit: Duration::from_secs(300), judge }
    };
    let by = |mechanism| check("conformance", "Lv3", "kfd", Some(mechanism), tests as Judge);
    let mut checks: Vec<_> = Mechanism::ALL.into_iter().map(by).collect();
    checks.push(check("conformance", "Lv1, Lv2", "hip", None, tests));
    checks.push(check("destroyed streams", "Lv2", "streams", None, streams));
    Ok(checks)
}

/// The device's own tests, which start the emulated driver themselves: memory, graphs, processes,
/// and results of kernels that are interrupted 10,500 times.
fn interrupted(stage: &Stage<'_>) -> Result<Option<Check>> {
    if !stage.is_emulated || stage.runtime.loader.is_some() {
        return Ok(None);
    }
    let mut command = Command::new(stage.built.test("runtime")?);
    command.env("XSCHED_ROCM", &stage.runtime.beside).arg("--test-threads=1");
    let (name, level, limit) = ("interrupted results", "Lv3", Duration::from_secs(240));
    Ok(Some(Check { name, level, mechanism: None, command, limit, judge: tests }))
}

/// Programs in C that know nothing of `XQueues`, with the interposer in front of the runtime.
fn interposer(stage: &Stage<'_>) -> Result<Check> {
    let mut command = stage.starter(stage.built.test("schedule")?);
    command.args(EMULATED_ONLY.iter().flat_map(|name| ["--skip", name]));
    command.args(["--include-ignored", "--test-threads=1"]).env_remove("XSCHED_HIP_LIB");
    let (name, limit) = ("interposed programs", Duration::from_secs(240));
    Ok(Check { name, level: "Lv1, Lv2", mechanism: None, command, limit, judge: tests })
}

/// A program like those of `PyTorch`, under `xsched run`: alone at each level, and through
/// `xschedd` beside another process.
fn network(stage: &Stage<'_>) -> Result<Vec<Check>> {
    let program = stage.built.test("network")?;
    let check = |name, test| {
        let mut command = stage.starter(program);
        command.args(["--ignored", "--exact", "--nocapture", test]);
        let (level, limit) = ("Lv1 to Lv3", Duration::from_secs(150));
        Check { name, level, mechanism: None, command, limit, judge: tests as Judge }
    };
    Ok(vec![
        check("like PyTorch", "it_computes_the_same_at_each_level"),
        check("the same by xschedd", "it_computes_the_same_beside_another_process"),
    ])
}

fn benches(stage: &Stage<'_>) -> Vec<Check> {
    let bench = |name, level, line: &str, mechanism, judge| {
        let mut command = stage.command(&stage.built.lab, mechanism);
        command.args(line.split(' ')).args(["--json", "-"]);
        Check { name, level, mechanism, command, limit: Duration::from_secs(120), judge }
    };
    vec![bench("bench overhead", "Lv1, Lv2", OVERHEAD, None, rows as Judge)]
}

fn devices(stage: &Stage<'_>) -> Vec<Check> {
    let listed = |mechanism| {
        let mut command = stage.command(&stage.built.xsched, Some(mechanism));
        command.args(["devices", "--json", "-"]);
        let judge = match mechanism {
            Mechanism::DebugTrap => |said: &str| has_lv3(said, Mechanism::DebugTrap),
            Mechanism::UpdateQueue => |said: &str| has_lv3(said, Mechanism::UpdateQueue),
        };
        let limit = Duration::from_secs(60);
        let (name, level) = ("xsched devices", "Lv2, Lv3");
        Check { name, level, mechanism: Some(mechanism), command, limit, judge }
    };
    Mechanism::ALL.into_iter().map(listed).collect()
}

/// Examples in C++ and Python. This system's Python cannot be started by another system's loader.
fn examples(stage: &Stage<'_>) -> Result<Vec<Check>> {
    let check = |name, mut command: Command| {
        command.env("XLOG_LEVEL", "ERRO");
        let (level, limit) = ("Lv1", Duration::from_secs(60));
        Check { name, level, mechanism: None, command, limit, judge: |_| Ok(1) }
    };
    let mut checks = Vec::new();
    for name in EXAMPLES {
        let mut command = stage.command(&stage.built.example(name), None);
        command.arg("hip");
        checks.push(check(name, command));
    }
    if stage.runtime.loader.is_none() {
        let mut command = stage.command(&python::interpreter()?, None);
        command.arg(root().join("python/examples/bert_ctypes.py"));
        command.args("--device hip --requests 5 --pause-ms 1".split(' '));
        command.env("XSCHED_HIP_KERNELS", root().join("hal-hip/kernels/spin.gfx942.hsaco"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        checks.push(check("bert_ctypes.py", command));
    }
    Ok(checks)
}

/// How many tests passed, of which none may have failed. The last line counts: those before are of
/// programs that the tests start.
fn tests(said: &str) -> Result<usize> {
    let results = said.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let mut passed = results.filter_map(|rest| rest.split_once(" passed;")?.0.parse().ok());
    let passed = passed.next_back().unwrap_or(0);
    ensure!(passed > 0, "no test passed");
    Ok(passed)
}

fn streams(said: &str) -> Result<usize> {
    let line = said.lines().find(|line| line.ends_with(" streams destroyed"));
    let count = line.and_then(|line| line.split(' ').next()?.parse().ok());
    count.context("it does not say how many streams were destroyed")
}

/// How many rows a bench measured.
fn rows(said: &str) -> Result<usize> {
    let value: Value = serde_json::from_str(said)?;
    let rows = value["rows"].as_array().map_or(0, Vec::len);
    ensure!(rows > 0 && value["device"]["hal"] == "hip", "the bench measured nothing on HIP");
    Ok(rows)
}

/// HIP at Lv2 and the driver at Lv3 by this mechanism.
fn has_lv3(said: &str, mechanism: Mechanism) -> Result<usize> {
    let value: Value = serde_json::from_str(said)?;
    let devices = value["devices"].as_array().context("no devices")?;
    for (backend, level) in [("hip", 2), ("kfd", 3)] {
        let device = devices.iter().find(|device| device["backend"] == backend);
        let device = device.with_context(|| format!("no device of {backend}"))?;
        ensure!(device["level"] == level, "{backend} is not at Lv{level}: {device}");
        let by = device["mechanism"].as_str().unwrap_or_default();
        ensure!(backend == "hip" || by.starts_with(mechanism.name()), "{backend}: {device}");
    }
    Ok(2)
}

/// The runtime's version, by what the devices are listed with.
pub(super) fn version(said: &str) -> Option<String> {
    let value: Value = serde_json::from_str(said).ok()?;
    let hip = value["devices"].as_array()?.iter().find(|device| device["backend"] == "hip")?;
    Some(hip["driver"].as_str()?.to_owned())
}
