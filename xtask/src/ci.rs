//! Everything that CI does, in order, up to the first failure.

use std::fs;
use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use toml::Table;

use crate::ahead::Ahead;
use crate::command::{cargo, release, run as run_command};
use crate::package::PUBLISHED;
use crate::{
    apt, book, capi, demo, fuzz, hip, integrations, kfd_vm, lab, loom, mutants, package, proof,
    python, rocm, root, stress, target_dir, test, tidy, tour,
};

/// How long CI runs each fuzz target.
const FUZZ_SECONDS: u32 = 3;
/// How long CI stresses the runtime.
const STRESS_SECONDS: u32 = 8;

/// While these run, what later steps need is built with the time that they leave. The steps behind
/// them take all processors, or measure.
const LEAVE_TIME: Range<&str> = "test".."clippy";

/// The main experiment of the simulator.
const SCENARIO: &str = "sim/scenarios/bert-mi308x.toml";

/// Lints for code that must not panic: all but tests, chores and fuzz targets.
const NO_PANICS: [&str; 4] =
    ["clippy::unwrap_used", "clippy::expect_used", "clippy::panic", "clippy::unreachable"];

/// A step: its name, and what it does. The test runner's closing lines are kept.
type Step = (&'static str, fn(&mut Vec<String>) -> Result<()>);

const STEPS: [Step; 31] = [
    ("format", |_| format()),
    ("tidy", |_| tidy::run(&tidy::Options::default())),
    ("test", tests),
    // These two run what the tests have built.
    ("stress", |_| stressing()),
    ("examples", |_| examples()),
    ("other tests", other_tests),
    // It runs what both have built.
    ("tour", |_| tour::run()),
    // What is for clusters, with the real engines.
    ("slurm", |_| integrations::slurm()),
    ("podman", |_| integrations::podman()),
    ("containerd", |_| integrations::containerd()),
    ("kubernetes", |_| integrations::kubernetes()),
    ("ray", |_| integrations::ray()),
    // What is for a node.
    ("systemd", |_| integrations::systemd()),
    ("prometheus", |_| integrations::prometheus()),
    ("book", |_| book::run(&book::Options { check: true })),
    ("package", |_| package::run()),
    ("hip", |_| hip::run()),
    ("kfd-vm", |_| kfd_vm::run()),
    ("rocm", |_| rocm::run(&rocm::Options::default())),
    ("python", |_| python::run(&python::Options { profile: "dev".into() })),
    // These three share what they know of other packages.
    ("clippy", |_| clippy()),
    ("features", |_| features()),
    ("documentation", |_| documentation()),
    // Each two share a build.
    ("main job", |_| demo::run()),
    ("lab", |_| lab::run()),
    ("simulator", |_| simulator()),
    ("capi", |_| capi::check::run(&capi::check::Options::default())),
    // These two as well.
    ("loom", |_| loom::run(&loom::Options::default())),
    ("mutants", |_| mutants::run(&mutants::Options::default())),
    ("proof", |_| proof::run()),
    ("fuzz", |_| fuzzing()),
];

/// Parts to do.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Begin with this step, as the run that failed there called it.
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
}

/// Does it, and says how long each step took.
///
/// # Errors
/// The first step that fails ends it.
pub fn run(options: &Options) -> Result<()> {
    let first = first_step(options.from.as_deref())?;
    let start = Instant::now();
    let (mut times, mut closing, mut ahead) = (Vec::new(), Vec::new(), None);
    for (number, (name, step)) in (1..).zip(STEPS).skip(first) {
        println!("=== {number}/{} {name}", STEPS.len());
        let step_start = Instant::now();
        if name == LEAVE_TIME.start {
            ahead = Some(Ahead::start()?);
        } else if name == LEAVE_TIME.end {
            drop(ahead.take());
        }
        let result = step(&mut closing);
        times.push((name, step_start.elapsed()));
        if let Err(error) = &result {
            print_times(&times, start.elapsed());
            print_room();
            println!("CI FAILED in step {number}, {name}: {error:#}");
        }
        result.with_context(|| format!("CI FAILED in step {number}, {name}"))?;
    }
    print_times(&times, start.elapsed());
    for line in apt::all_left_out().into_iter().chain(closing) {
        println!("{line}");
    }
    match &options.from {
        Some(from) => println!("CI passed from the step `{from}` on"),
        None => println!("CI passed"),
    }
    Ok(())
}

/// Where the step of this name is; the first without one.
fn first_step(name: Option<&str>) -> Result<usize> {
    let Some(name) = name else { return Ok(0) };
    let found = STEPS.iter().position(|(step, _)| *step == name);
    found.with_context(|| format!("no step `{name}`; there are: {}", STEPS.map(|s| s.0).join(", ")))
}

fn print_times(times: &[(&str, Duration)], total: Duration) {
    println!("=== times");
    for (name, time) in times.iter().chain([&("total", total)]) {
        println!("{name:>14} {:>6.1} s", time.as_secs_f64());
    }
}

/// Prints how much room is left on the disk, which a failure may be due to.
fn print_room() {
    // This only adds to what a failure says.
    let _ = run_command(Command::new("df").arg("--human-readable").arg(root()));
}

fn format() -> Result<()> {
    run_command(&mut cargo("fmt --all --check"))?;
    for folder in ["proof", "fuzz", "testkit/hip-abi-check", integrations::KUBERNETES] {
        run_command(&mut cargo(&format!("fmt --check --manifest-path {folder}/Cargo.toml")))?;
    }
    Ok(())
}

/// A command that looks at code, in a folder of its own: see [`crate::ahead`].
fn looks(verb: &str, rest: &str) -> Command {
    let mut command = cargo(verb);
    command.arg("--locked").arg("--target-dir").arg(target_dir().join("clippy"));
    command.args(rest.split_whitespace());
    command
}

/// Clippy for everything.
pub(crate) fn lint_all() -> Result<()> {
    run_command(&mut looks("clippy", "--workspace --all-features --all-targets -- -D warnings"))
}

fn clippy() -> Result<()> {
    lint_all()?;
    let excluded = "--exclude xsched-xtask --exclude xsched-fuzz-targets";
    let code = format!("--workspace --all-features {excluded} --lib --bins -- -D warnings");
    run_command(looks("clippy", &code).args(NO_PANICS.iter().flat_map(|lint| ["-D", lint])))?;
    for targets in ["--all-targets", "--lib --bins"] {
        let mut separate = integrations::kubernetes_cargo("clippy");
        separate.args(targets.split(' ')).args(["--", "-D", "warnings"]);
        let is_code = targets != "--all-targets";
        let lints = NO_PANICS.iter().filter(|_| is_code).flat_map(|lint| ["-D", lint]);
        run_command(separate.args(lints))?;
    }
    let target = target_dir().join("proof");
    loom::clippy()?;
    let mut bare = cargo("clippy --manifest-path proof/Cargo.toml --release --locked --target-dir");
    run_command(bare.arg(target).args(["--", "-D", "warnings"]))
}

/// The published crates without features and with each of them alone.
fn features() -> Result<()> {
    for (folder, name) in PUBLISHED {
        let package = format!("--package {name} --no-default-features");
        run_command(&mut looks("clippy", &format!("{package} -- -D warnings")))?;
        for feature in features_of(folder)? {
            let one = format!("{package} --features {feature} -- -D warnings");
            run_command(&mut looks("clippy", &one))?;
        }
    }
    Ok(())
}

fn features_of(folder: &str) -> Result<Vec<String>> {
    let path = root().join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&path);
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
    *closing = test::run()?;
    Ok(())
}

/// The decoder of gfx942 is held against LLVM's where there is one that knows it.
fn other_tests(closing: &mut Vec<String>) -> Result<()> {
    if !apt::program("llvm-mc-19", &["llvm-19"])? {
        apt::left_out("the decoder of gfx942 against LLVM's", "llvm-mc-19");
    }
    closing.extend(test::run_the_rest()?);
    Ok(())
}

fn stressing() -> Result<()> {
    stress::run(&stress::Options { seconds: STRESS_SECONDS, debug: true, seed: None })
}

/// Runs the runtime's examples.
fn examples() -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("runtime/examples"))? {
        names.push(entry?.path().with_extension(""));
    }
    names.sort();
    ensure!(!names.is_empty(), "the runtime has no examples");
    let built = target_dir().join("debug/examples");
    names
        .iter()
        .filter_map(|path| path.file_name())
        .try_for_each(|name| run_command(Command::new(built.join(name)).current_dir(root())))
}

fn documentation() -> Result<()> {
    let mut command = looks("doc", "--workspace --all-features --no-deps");
    run_command(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The main experiment, a comparison, and many random runs with faults.
fn simulator() -> Result<()> {
    run_command(&mut release(&format!("run --release -- sim run {SCENARIO}")))?;
    let policies = "--policies fcfs,hpf --level 1,2,3";
    run_command(&mut release(&format!("run --release -- sim compare {SCENARIO} {policies}")))?;
    run_command(&mut release("run --release -- sim swarm --seeds 1000"))?;
    run_command(&mut release("run --release -- sim swarm --daemon --seeds 5000"))
}

fn fuzzing() -> Result<()> {
    run_command(&mut cargo("fetch --locked --manifest-path fuzz/Cargo.toml"))?;
    let seconds = FUZZ_SECONDS;
    fuzz::run(&fuzz::Options { seconds, debug: true, target: None, replay: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_by_their_names() {
        assert_eq!(first_step(None).expect("the first"), 0);
        assert_eq!(STEPS[first_step(Some("loom")).expect("a step")].0, "loom");
        let unknown = first_step(Some("lunch")).expect_err("no step").to_string();
        assert!(unknown.contains("format, tidy, test"), "{unknown}");
    }

    #[test]
    fn features_come_from_the_manifest() {
        assert_eq!(features_of("core").expect("a manifest"), ["alloc"]);
        assert_eq!(features_of("policies").expect("a manifest"), [""; 0]);
        assert!(features_of("gone").is_err());
    }
}
