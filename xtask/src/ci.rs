//! Everything that CI does, in order, up to the first failure.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use toml::Table;

use crate::command::{cargo, run as run_command, run_and_keep};
use crate::{
    MAIN_JOB, capi, fuzz, hip, kfd_vm, loom, proof, python, root, stress, target_dir, tidy,
};

/// How long CI runs each fuzz target.
const FUZZ_SECONDS: u32 = 30;
/// How long CI stresses the runtime.
const STRESS_SECONDS: u32 = 60;

/// The main experiment of the simulator.
const SCENARIO: &str = "sim/scenarios/bert-mi308x.toml";

/// A step: its name, and what it does. The test runner's closing lines are kept.
type Step = (&'static str, fn(&mut Vec<String>) -> Result<()>);

const STEPS: [Step; 17] = [
    ("format", |_| format()),
    ("tidy", |_| tidy::run()),
    ("clippy", |_| clippy()),
    ("features", |_| features()),
    ("tests", tests),
    ("hip", |_| hip::run()),
    ("capi", |_| capi::check::run()),
    ("kfd-vm", |_| kfd_vm::run()),
    ("python", |_| python::run(&python::Options { profile: "dev".into() })),
    ("stress", |_| stressing()),
    ("examples", |_| examples()),
    ("loom", |_| loom::run(&loom::Options::default())),
    ("documentation", |_| documentation()),
    ("proof", |_| proof::run()),
    ("main job", |_| main_job()),
    ("simulator", |_| simulator()),
    ("fuzz", |_| fuzzing()),
];

/// Does it, and says how long each step took.
///
/// # Errors
/// The first step that fails ends it.
pub fn run() -> Result<()> {
    let start = Instant::now();
    let (mut times, mut closing) = (Vec::new(), Vec::new());
    for (number, (name, step)) in (1..).zip(STEPS) {
        println!("=== {number}/{} {name}", STEPS.len());
        let step_start = Instant::now();
        let result = step(&mut closing);
        times.push((name, step_start.elapsed()));
        if result.is_err() {
            print_times(&times, start.elapsed());
        }
        result.with_context(|| format!("CI FAILED in step {number}, {name}"))?;
    }
    print_times(&times, start.elapsed());
    for line in closing {
        println!("{line}");
    }
    println!("CI passed");
    Ok(())
}

fn print_times(times: &[(&str, Duration)], total: Duration) {
    println!("=== times");
    for (name, time) in times.iter().chain([&("total", total)]) {
        println!("{name:>14} {:>6.1} s", time.as_secs_f64());
    }
}

fn format() -> Result<()> {
    run_command(&mut cargo("fmt --all --check"))?;
    for folder in ["proof", "fuzz", "testkit/hip-abi-check"] {
        run_command(&mut cargo(&format!("fmt --check --manifest-path {folder}/Cargo.toml")))?;
    }
    Ok(())
}

fn clippy() -> Result<()> {
    run_command(&mut cargo("clippy --workspace --all-targets --all-features -- -D warnings"))?;
    let target = target_dir().join("proof");
    loom::clippy()?;
    let mut bare = cargo("clippy --manifest-path proof/Cargo.toml --release --locked --target-dir");
    run_command(bare.arg(target).args(["--", "-D", "warnings"]))
}

/// The lean crates without features and with each of them alone.
fn features() -> Result<()> {
    for folder in ["core", "policies"] {
        let package = format!("clippy --package xsched-{folder} --no-default-features");
        run_command(&mut cargo(&format!("{package} -- -D warnings")))?;
        for feature in features_of(folder)? {
            run_command(&mut cargo(&format!("{package} --features {feature} -- -D warnings")))?;
        }
    }
    Ok(())
}

fn features_of(folder: &str) -> Result<Vec<String>> {
    let path = root().join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let table: Table = text.parse().with_context(|| format!("{}", path.display()))?;
    let features = table.get("features").and_then(toml::Value::as_table);
    Ok(features
        .into_iter()
        .flat_map(Table::keys)
        .filter(|name| *name != "default")
        .cloned()
        .collect())
}

fn tests(closing: &mut Vec<String>) -> Result<()> {
    let mut command = cargo("test --workspace --all-features --locked");
    *closing = run_and_keep(&mut command, "test result:")?;
    Ok(())
}

fn stressing() -> Result<()> {
    stress::run(&stress::Options { seconds: STRESS_SECONDS, seed: None })
}

fn examples() -> Result<()> {
    for example in ["quickstart", "custom_policy", "server"] {
        run_command(&mut cargo(&format!(
            "run --release -p xsched --all-features --example {example}"
        )))?;
    }
    Ok(())
}

fn documentation() -> Result<()> {
    let mut command = cargo("doc --workspace --all-features --no-deps");
    run_command(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The README's main job. It measures, so a machine that is busy with other things may spoil it:
/// one run of three has to reach its goals.
fn main_job() -> Result<()> {
    let picture = target_dir().join("xsched-demo.svg");
    let mut command = cargo(MAIN_JOB.strip_prefix("cargo ").unwrap_or(MAIN_JOB));
    command.arg("--svg").arg(picture);
    run_command(&mut command)
        .or_else(|_| run_command(&mut command))
        .or_else(|_| run_command(&mut command))
}

/// The main experiment, a comparison, and many random runs with faults.
fn simulator() -> Result<()> {
    run_command(&mut cargo(&format!("run --release -- sim run {SCENARIO}")))?;
    let policies = "--policies fcfs,hpf --levels 1,2,3";
    run_command(&mut cargo(&format!("run --release -- sim compare {SCENARIO} {policies}")))?;
    run_command(&mut cargo("run --release -- sim swarm --seeds 2000"))
}

fn fuzzing() -> Result<()> {
    run_command(&mut cargo("fetch --locked --manifest-path fuzz/Cargo.toml"))?;
    fuzz::run(&fuzz::Options { seconds: FUZZ_SECONDS, target: None, replay: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_come_from_the_manifest() {
        assert_eq!(features_of("core").expect("a manifest"), ["alloc"]);
        assert_eq!(features_of("policies").expect("a manifest"), [""; 0]);
        assert!(features_of("gone").is_err());
    }
}
