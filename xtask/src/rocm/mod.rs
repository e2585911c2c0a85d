//! AMD's own HIP and ROCr over the emulated driver and an emulated gfx942, or over a real GPU.
//!
//! 1. A runtime is found: one that is named, an installed ROCm, a pinned wheel, Debian 13's
//!    packages. With `--all`, all of them, one after the other.
//! 2. The project's checks run on it, each with a time limit, so that what hangs has a name: the
//!    conformance suite at each level and by each mechanism, `xsched devices`, small benches, the
//!    examples, programs with the interposer in front, one like those of `PyTorch` under
//!    `xsched run` and `xschedd`, a thousand streams that are destroyed.
//! 3. A table says how many checks passed, and how long they took.
//!
//! `docs/src/guides/amd.md` says what that shows and what it cannot.

mod build;
mod checks;
mod debian;
mod runtime;
mod stage;
mod wheel;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{apt, target_dir};
use build::Built;
use runtime::Runtime;
use stage::{Mechanism, Outcome, Stage};

/// Names a runtime, as `--runtime` does.
const VARIABLE: &str = "XSCHED_ROCM";

/// On which runtimes, and on what device.
#[derive(Args, Debug, Default)]
pub struct Options {
    /// A runtime: an installed ROCm's root, or the folder with its libraries. The variable
    /// `XSCHED_ROCM` names one too.
    #[arg(long, value_name = "PATH")]
    pub runtime: Option<PathBuf>,
    /// All runtimes that can be had, not only the first.
    #[arg(long)]
    pub all: bool,
    /// Program that runs others on another device than the project's emulated one, with its
    /// arguments: an emulator of AMD's, or `env` for a real GPU.
    #[arg(long, value_name = "COMMAND")]
    pub emulator: Option<String>,
    /// Only checks whose names have this in them.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

/// Does it.
///
/// # Errors
/// If a check fails, or a runtime that can be had does not work.
pub fn run(options: &Options) -> Result<()> {
    let home = target_dir().join("rocm");
    fs::create_dir_all(&home)?;
    let named = options.runtime.clone().or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let found = runtime::find(named.as_deref(), &home, options.all)?;
    if found.runtimes.is_empty() {
        apt::left_out("AMD's own runtime on the emulated GPU", &found.left_out.join(" or "));
        return Ok(());
    }
    for runtime in &found.left_out {
        apt::left_out("a runtime on the emulated GPU", runtime);
    }
    let built = Built::new(&home)?;
    let emulator = match &options.emulator {
        Some(line) => line.split_whitespace().map(OsString::from).collect(),
        None => vec![OsString::from(&built.emulate), "--gpu".into()],
    };
    let mut failed = 0;
    for runtime in &found.runtimes {
        failed += on(runtime, &built, &emulator, &home, options)?;
    }
    ensure!(failed == 0, "{failed} checks failed");
    Ok(())
}

/// Runs the checks on a runtime, and answers how many failed.
fn on(
    runtime: &Runtime,
    built: &Built,
    emulator: &[OsString],
    home: &Path,
    options: &Options,
) -> Result<usize> {
    let start = Instant::now();
    let logs = home.join("logs").join(runtime.links.file_name().context("a folder")?);
    fs::create_dir_all(&logs)?;
    println!("rocm: {runtime}, logs in {}", logs.display());
    let is_emulated = options.emulator.is_none();
    let stage = Stage { runtime, built, emulator, is_emulated, logs, start };
    let mut checks = checks::all(&stage)?;
    let only = options.only.as_deref();
    checks.retain(|check| only.is_none_or(|only| check.name.contains(only)));
    ensure!(!checks.is_empty(), "no check has this name");
    let outcomes = stage.run(checks);
    print_table(runtime, &stage, &outcomes, start.elapsed());
    Ok(outcomes.iter().filter(|outcome| outcome.passed.is_err()).count())
}

fn print_table(runtime: &Runtime, stage: &Stage<'_>, outcomes: &[Outcome], total: Duration) {
    let version = stage.output("xsched devices", Mechanism::ALL[0]);
    let version = version.and_then(|said| checks::version(&said));
    let version = version.unwrap_or_else(|| "a version that is not known".to_owned());
    println!("=== {version}, from {runtime}");
    println!("{:<22} {:<9} {:<13} {:>7} {:>8}", "check", "level", "mechanism", "passed", "s");
    for outcome in outcomes {
        let mechanism = outcome.mechanism.map_or("", Mechanism::name);
        let passed = outcome.passed.as_ref().map_or("FAILED".to_owned(), usize::to_string);
        let (name, level, s) = (outcome.name, outcome.level, outcome.took.as_secs_f64());
        println!("{name:<22} {level:<9} {mechanism:<13} {passed:>7} {s:>8.1}");
    }
    println!("{:<22} {:<9} {:<13} {:>7} {:>8.1}", "all", "", "", "", total.as_secs_f64());
}
