//! Runs the loom models of what threads share.
//!
//! They are unit tests that exist only with `--cfg loom`, which replaces what threads wait for; so
//! they are built in a target folder of their own. `cargo xtask loom --list` lists them.
//!
//! The models run the code itself: with `--cfg loom` the modules `sync` of the packages replace
//! locks, conditions, atomics, parking, the futex and the clock. A model passes if no order of its
//! threads' steps, up to a bound on how often one interrupts another, ends in a failed assertion, a
//! deadlock, or more than 20,000 steps. A *mutant* is a deliberate defect from `testkit/mutants`,
//! which a model or a test must notice.
//!
//! Models cannot show
//!
//! - time: short waits end at once and longer ones never, so leases and limits are not modelled;
//! - spinning: small bounds replace the numbers of looks and rounds;
//! - orderings: loom treats `SeqCst` accesses as `AcqRel`, and reorders no relaxed stores with what
//!   follows;
//! - panics, fork, callbacks at completion, waits between queues, late steps, replay, and several
//!   queues per device, which have tests.

mod list;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::command::{cargo, run as run_command, run_and_keep};
use crate::target_dir;

/// The packages that have models.
const PACKAGES: [&str; 6] = [
    "xsched",
    "xsched-capi",
    "xsched-hal-host",
    "xsched-hal-process",
    "xsched-hal-stream",
    "xsched-node",
];
/// The profile that they are built with.
pub(crate) const PROFILE: &str = "models";
/// Makes the crates' modules `sync` take loom's forms. It replaces flags of the caller's, which
/// would make a build of their own.
pub(crate) const RUSTFLAGS: &str = "--cfg loom";
/// Models that run at a time; each keeps one processor busy.
const THREADS: &str = "2";

/// How to run the models.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// One more preemption and more commands: takes hours instead of minutes.
    #[arg(long)]
    pub long: bool,
    /// Run only the models whose names start like this: `waiting::`, say.
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// List the models, with what they prove, their bounds and their mutants, and run none.
    #[arg(long)]
    pub list: bool,
}

/// Runs all models.
///
/// # Errors
/// If a model finds something.
pub fn run(options: &Options) -> Result<()> {
    if options.list {
        print!("{}", list::table()?);
        return Ok(());
    }
    let mut command = tests();
    let only = format!("models::{}", options.only.as_deref().unwrap_or_default());
    command.args(["--", "--nocapture", "--test-threads", THREADS, &only]);
    if options.long {
        command.env("XSCHED_LOOM_LONG", "1");
    }
    let closing = run_and_keep(&mut command, "test result:")?;
    let passed = tests_passed(&closing).context("cargo test did not say how many tests passed")?;
    ensure!(passed > 0, "NO MODEL RAN; see `cargo xtask loom --help` for how to choose some");
    println!("loom: {passed} models passed");
    Ok(())
}

/// A command of cargo for the models.
pub(crate) fn tests() -> Command {
    let mut command = cargo("test --lib --locked --profile");
    command.arg(PROFILE).args(packages()).arg("--target-dir").arg(target());
    command.env("RUSTFLAGS", RUSTFLAGS).env_remove("XSCHED_MUTANT");
    command
}

/// The arguments that name the packages.
fn packages() -> impl Iterator<Item = &'static str> {
    PACKAGES.into_iter().flat_map(|package| ["--package", package])
}

/// Runs clippy on the models.
pub(crate) fn clippy() -> Result<()> {
    let mut command = cargo("clippy --lib --tests --locked --profile");
    command
        .arg(PROFILE)
        .args(packages())
        .arg("--target-dir")
        .arg(target())
        .args(["--", "-D", "warnings"]);
    run_command(command.env("RUSTFLAGS", RUSTFLAGS))
}

/// Where models are built.
pub(crate) fn target() -> PathBuf {
    target_dir().join("loom")
}

/// How many tests passed, from the closing lines of the test runner.
fn tests_passed(closing: &[String]) -> Option<u32> {
    let numbers = closing.iter().map(|line| {
        let (before, _) = line.split_once(" passed")?;
        before.rsplit(' ').next()?.parse::<u32>().ok()
    });
    (!closing.is_empty()).then(|| numbers.sum::<Option<u32>>()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_understood() {
        let lines = |lines: &[&str]| lines.iter().map(|&l| l.to_owned()).collect::<Vec<_>>();
        let two = lines(&["test result: ok. 41 passed; 0 failed", "test result: ok. 1 passed; 0"]);
        assert_eq!(tests_passed(&two), Some(42));
        assert_eq!(tests_passed(&lines(&["test result: FAILED."])), None);
        assert_eq!(tests_passed(&[]), None);
    }

    #[test]
    fn every_package_with_models_is_run() {
        for package in ["runtime", "capi", "hal-host", "hal-process", "hal-stream", "node"] {
            let models = crate::root().join(package).join("src/models/mod.rs");
            assert!(models.is_file(), "{package} has no models");
        }
        assert_eq!(PACKAGES.len(), 6);
    }
}
