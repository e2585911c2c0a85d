//! `cargo xtask mutants`: deliberate defects that loom models, or other unit tests, have to notice.
//!
//! `testkit/mutants/<crate folder>.toml` lists them; production code knows nothing of them:
//!
//! ```toml
//! folder = "testkit/gfx942"                    # of the crate, if it is not the file's name
//! module = "models"                            # where the tests are; this, if not said
//!
//! [[mutant]]
//! name = "stay in front"                       # unique within the file
//! file = "runtime/src/alarm.rs"
//! tests = ["waiting::one_of_two_leaves"]       # below the module; each of them must fail
//! says = "deadlock"                            # optional: part of the test's complaint
//! find = '''exact text that occurs once in the file'''
//! with = '''its replacement, in which mutant("stay in front") is true while the defect is on'''
//! ```
//!
//! The chore copies the workspace below the target folder, makes all replacements there, adds the
//! function `mutant` to each crate's root, and builds the unit tests of all these crates once. Each
//! test named then runs in a process of its own with one defect on. A mutant is noticed if the test
//! fails by an assertion in its module or by a finding of loom, after it reached the defect. Any
//! other end is an error: a test that passes, a crash, or a run that takes too long.

mod copy;
mod list;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::command::run as run_command;
use crate::{loom, root, target_dir};
use list::Crate;
use trial::Trial;

/// How long one test may run with one mutant.
const LIMIT: Duration = Duration::from_secs(300);
/// Trials that run at a time; each keeps one processor busy.
const AT_A_TIME: usize = 2;

/// Mutants to try.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// Try only mutants and tests whose names contain this.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

/// Tries all mutants of the repository.
///
/// # Errors
/// If a test does not notice a mutant, a replacement does not fit its file, or the copy cannot be
/// built.
pub fn run(options: &Options) -> Result<()> {
    let summary = run_on(&root(), &target_dir().join("mutants"), options)?;
    println!("mutants: {summary}");
    Ok(())
}

/// Tries the mutants of the workspace at `root`, with the copy and its build below `work`.
fn run_on(root: &Path, work: &Path, options: &Options) -> Result<String> {
    let (crates, programs) = built(root, work)?;
    let trials = trials(&crates, &programs, options)?;
    ensure!(!trials.is_empty(), "no mutant or test has such a name");
    let start = Instant::now();
    let outcomes = trial::run_all(&trials, AT_A_TIME, LIMIT);
    let width = trials.iter().map(|trial| trial.mutant.name.len()).max().unwrap_or(0);
    let test_width = trials.iter().map(|trial| trial.test.len()).max().unwrap_or(0);
    let mut failures = 0;
    for (trial, (verdict, time)) in trials.iter().zip(&outcomes) {
        let (said, text) = match verdict {
            Ok(text) => ("noticed", text),
            Err(text) => ("FAILED ", text),
        };
        failures += usize::from(verdict.is_err());
        let (name, test, time) = (&trial.mutant.name, &trial.test, time.as_secs_f64());
        println!("{said} {name:width$}  {test:test_width$} {time:>6.1} s  {text}");
    }
    ensure!(failures == 0, "{failures} of {} trials failed; see the table above", trials.len());
    let mutants: BTreeSet<_> = trials.iter().map(|trial| &trial.mutant.name).collect();
    let seconds = start.elapsed().as_secs_f64();
    Ok(format!("{} mutants noticed in {} trials, {seconds:.1} s", mutants.len(), trials.len()))
}

/// Builds what [`run`] runs.
pub(crate) fn build() -> Result<()> {
    built(&root(), &target_dir().join("mutants")).map(drop)
}

/// The crates with mutants, and the test programs of the copy by their packages.
fn built(root: &Path, work: &Path) -> Result<(Vec<Crate>, BTreeMap<String, PathBuf>)> {
    let crates = list::read(root)?;
    let (tree, target) = (work.join("tree"), work.join("build"));
    share_dependencies(&tree, &target)?;
    copy::mirror(root, &tree, &list::replaced(root, &crates)?)?;
    let programs = build_copy(&tree, &target, &crates)?;
    Ok((crates, programs))
}

/// One trial for each mutant and each of its tests. Fails if a test does not exist.
fn trials<'a>(
    crates: &'a [Crate],
    programs: &'a BTreeMap<String, PathBuf>,
    options: &Options,
) -> Result<Vec<Trial<'a>>> {
    let mut trials = Vec::new();
    for krate in crates {
        let program = programs.get(&krate.package);
        let program = program.with_context(|| format!("{} has no unit tests", krate.package))?;
        let tests = trial::tests(program)?;
        let module = &krate.module;
        for mutant in &krate.mutants {
            for test in &mutant.tests {
                let exists = tests.contains(&format!("{module}::{test}"));
                ensure!(exists, "{}: there is no test `{module}::{test}`", mutant.place());
                let wanted = |only: &String| mutant.name.contains(only) || test.contains(only);
                if options.only.as_ref().is_none_or(wanted) {
                    trials.push(Trial { program, mutant, module, test });
                }
            }
        }
    }
    Ok(trials)
}

/// Starts the first build of the copy from what the plain models were built with, if they were.
///
/// Cargo takes a crate of the copy for the same crate of the repository, and one that was built
/// after its files' time for up to date. So the copy is made anew, later than what it starts from.
fn share_dependencies(tree: &Path, target: &Path) -> Result<()> {
    let built = loom::target().join(loom::PROFILE);
    if target.exists() || !built.exists() {
        return Ok(());
    }
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    fs::create_dir_all(target)?;
    run_command(Command::new("cp").arg("--archive").arg(built).arg(target))
}

/// Builds the unit tests of the copy, and answers the test program of each package.
fn build_copy(tree: &Path, target: &Path, crates: &[Crate]) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = Command::new("cargo");
    command.current_dir(tree).args(["test", "--profile", loom::PROFILE, "--lib", "--no-run"]);
    command.args(["--locked", "--message-format", "json-render-diagnostics"]);
    command.args(crates.iter().flat_map(|krate| ["--package", &krate.package]));
    command.arg("--target-dir").arg(target);
    command.env("RUSTFLAGS", loom::RUSTFLAGS).env_remove("XSCHED_MUTANT");
    println!("mutants: building the tests in {}", tree.display());
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut programs = BTreeMap::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.context("cannot read what cargo prints")?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some((package, program)) = test_program(&message) {
            programs.insert(package, program);
        }
    }
    if !child.wait()?.success() {
        bail!("the tests with all mutants cannot be built; do the replacements fit together?");
    }
    Ok(programs)
}

/// The package and the path of a test program, if that is what a message of cargo's is about.
fn test_program(message: &Value) -> Option<(String, PathBuf)> {
    let program = message.get("executable")?.as_str()?;
    // path+file:///x/runtime#xsched@0.1.0, path+file:///x/core#0.1.0
    let (path, id) = message.get("package_id")?.as_str()?.split_once('#')?;
    let package = match id.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    Some((package.to_owned(), PathBuf::from(program)))
}

#[cfg(test)]
mod tests;
