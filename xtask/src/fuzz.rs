//! Runs the fuzz targets.
//!
//! Each target starts from the corpus that is checked in and writes what it finds on the way below
//! the target folder, so the repository stays as it is. Only a finding leaves something behind: the
//! input, in `fuzz/artifacts/`.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::command::{cargo, run as run_command, succeeds};
use crate::{root, target_dir};

/// The targets, each with a file in `fuzz/targets` and a folder in `fuzz/corpus`.
pub const TARGETS: [&str; 9] = [
    "scenario",
    "queue_machine",
    "scheduler_machine",
    "record",
    "kfd",
    "gfx942",
    "capi",
    "daemon_socket",
    "daemon_pages",
];

/// The version that is installed if the machine has none.
const CARGO_FUZZ_VERSION: &str = "0.13.2";
/// Optimised, with debug assertions and overflow checks. The targets have assertions of their own,
/// so no sanitizer slows them down.
const BUILD: &str = "+nightly fuzz build --sanitizer none";
/// Where the binaries are, below the build's target folder, in a folder of their profile's.
const BINARIES: &str = "x86_64-unknown-linux-gnu";
/// Targets that run at a time; each keeps one processor busy.
const AT_A_TIME: usize = 2;
/// Limits of time and memory for an input.
const LIMITS: [&str; 2] = ["-timeout=20", "-rss_limit_mb=2048"];
/// The allocator gives blocks of this many bytes and more back at once. Otherwise millions of
/// inputs, some with tables of tens of megabytes, add up to the limit without any of them near it.
const GIVEN_BACK: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");
/// An installation is tried this often: a registry may be out of reach for a moment.
const INSTALL_TRIES: u32 = 3;

/// How to fuzz.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long to run each target.
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
    /// Without optimisation, which takes half as long to build.
    #[arg(long)]
    pub debug: bool,
    /// Run only this target.
    #[arg(long, value_name = "NAME", value_parser = TARGETS)]
    pub target: Option<String>,
    /// Run the target once, on this file.
    #[arg(long, value_name = "FILE", requires = "target")]
    pub replay: Option<PathBuf>,
}

/// Builds the targets and runs them, or replays a finding.
///
/// # Errors
/// If there is no nightly toolchain, something cannot be built, or a target finds something.
pub fn run(options: &Options) -> Result<()> {
    build(options.debug)?;
    let target = target();
    if let (Some(name), Some(file)) = (&options.target, &options.replay) {
        return replay(&binary(options.debug, name), name, file);
    }
    let wanted = |name: &&str| options.target.as_deref().is_none_or(|wanted| wanted == *name);
    let names: Vec<_> = TARGETS.into_iter().filter(wanted).collect();
    names.chunks(AT_A_TIME).try_for_each(|names| run_together(&target, names, options))
}

/// Builds the targets.
pub(crate) fn build(debug: bool) -> Result<()> {
    need_nightly()?;
    let path = path_with_cargo_fuzz()?;
    let mut build = cargo(BUILD);
    build.env("PATH", path).arg("--fuzz-dir").arg(root().join("fuzz"));
    build.args(debug.then_some("--dev"));
    run_command(build.arg("--target-dir").arg(target()))
}

/// A target's program.
fn binary(debug: bool, name: &str) -> PathBuf {
    target().join(BINARIES).join(if debug { "debug" } else { "release" }).join(name)
}

/// Where targets are built, and where they put what they find on the way.
fn target() -> PathBuf {
    target_dir().join("fuzz")
}

/// Runs some targets at the same time.
fn run_together(target: &Path, names: &[&str], options: &Options) -> Result<()> {
    thread::scope(|scope| {
        let start = |name| scope.spawn(move || run_target(target, name, options));
        let threads: Vec<_> = names.iter().map(|name| start(*name)).collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let results: Vec<_> = joined
            .map(|result| result.unwrap_or_else(|_| bail!("a target's thread panicked")))
            .collect();
        results.into_iter().collect()
    })
}

pub(crate) fn need_nightly() -> Result<()> {
    ensure!(
        succeeds(&mut cargo("+nightly --version")),
        "NO NIGHTLY TOOLCHAIN: fuzzing and sanitizers need one, so nothing was run; \
         install it with `rustup toolchain install nightly --profile minimal`"
    );
    Ok(())
}

/// The search path for programs with cargo-fuzz on it, which is installed below the target folder
/// if the machine has none.
fn path_with_cargo_fuzz() -> Result<std::ffi::OsString> {
    let tools = target_dir().join("tools");
    let old = env::var_os("PATH").unwrap_or_default();
    let folders = [tools.join("bin")].into_iter().chain(env::split_paths(&old));
    let path = env::join_paths(folders).context("the target folder's name cannot be used")?;
    if !succeeds(cargo("fuzz --version").env("PATH", &path)) {
        println!("cargo-fuzz is missing; installing it in {}", tools.display());
        let mut install = cargo("install cargo-fuzz --locked --version");
        install.arg(format!("={CARGO_FUZZ_VERSION}")).arg("--root").arg(&tools);
        // Building it takes longer than it runs.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        let mut tries = (1..INSTALL_TRIES).map(|_| run_command(&mut install));
        if !tries.any(|result| result.is_ok()) {
            run_command(&mut install)?;
        }
    }
    Ok(path)
}

fn run_target(target: &Path, name: &str, options: &Options) -> Result<()> {
    let seconds = options.seconds;
    let fuzz = root().join("fuzz");
    // New inputs go into the first of the folders only.
    let (grown, corpus) = (target.join("corpus").join(name), fuzz.join("corpus").join(name));
    if grown.exists() {
        fs::remove_dir_all(&grown).with_context(|| format!("cannot clear {}", grown.display()))?;
    }
    let artifacts = fuzz.join("artifacts").join(name);
    for folder in [&grown, &corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let log = target.join(format!("{name}.log"));
    println!("{name}: fuzzing for {seconds} s, log in {}", log.display());
    let mut command = Command::new(binary(options.debug, name));
    command.env(GIVEN_BACK.0, GIVEN_BACK.1);
    command.arg(&grown).arg(&corpus).args(LIMITS).arg("-print_final_stats=1");
    command.arg(format!("-max_total_time={seconds}"));
    // Names of findings are put right behind this.
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let dictionary = fuzz.join("dictionaries").join(name);
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let to = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = command.stdout(Stdio::null()).stderr(to).status();
    let status = status.with_context(|| format!("cannot start the target {name}"))?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if status.success() {
        println!("{name}: {}", summary(&text));
        return Ok(());
    }
    println!("{}", cause(&text));
    for file in findings(&text) {
        let file = Path::new(file);
        let file = file.strip_prefix(root()).unwrap_or(file).display();
        println!("{name}: finding in {file}");
        println!("{name}: replay with: cargo xtask fuzz --target {name} --replay {file}");
    }
    bail!("the target {name} ended with {status}");
}

/// Files in which libFuzzer says it has kept an input.
fn findings(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter_map(|line| line.split_once("Test unit written to ").map(|(_, file)| file))
}

/// The part of a failed run's log that says why: the message of the panic, or else the end.
fn cause(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let panic = lines.iter().rposition(|line| line.contains("panicked at"));
    let rest = &lines[panic.unwrap_or(lines.len().saturating_sub(20))..];
    let end = rest.iter().position(|line| line.starts_with("stack backtrace:"));
    rest[..end.unwrap_or(rest.len()).min(20)].join("\n")
}

/// How much was done, from libFuzzer's closing lines.
fn summary(log: &str) -> String {
    let figure = |name: &str| {
        let line = log.lines().rev().find_map(|line| line.strip_prefix(name));
        line.map_or("?", str::trim)
    };
    let runs = figure("stat::number_of_executed_units:");
    let new = figure("stat::new_units_added:");
    format!("nothing found in {runs} runs, {new} inputs added to the corpus")
}

fn replay(program: &Path, name: &str, file: &Path) -> Result<()> {
    // Relative to where the user is, or else to the root.
    let file = if file.exists() { file.to_path_buf() } else { root().join(file) };
    ensure!(file.is_file(), "there is no file {}", file.display());
    let mut command = Command::new(program);
    run_command(command.arg(&file).args(LIMITS))?;
    println!("{name}: {} does no harm any more", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    #[test]
    fn every_target_has_a_body_and_a_corpus() {
        let fuzz = root().join("fuzz");
        for name in TARGETS {
            assert!(fuzz.join(format!("targets/{name}.rs")).is_file(), "{name} has no body");
            let corpus = files(&fuzz.join("corpus").join(name));
            assert!(!corpus.is_empty(), "{name} has an empty corpus");
        }
        assert_eq!(files(&fuzz.join("targets")).len(), TARGETS.len());
    }

    #[test]
    fn the_closing_lines_are_understood() {
        let log =
            "#12 DONE\nstat::number_of_executed_units: 12\nstat::new_units_added:          3\n";
        assert_eq!(summary(log), "nothing found in 12 runs, 3 inputs added to the corpus");
        assert!(summary("").contains('?'));
        let log = "#1 NEW\n\nthread 'x' panicked at a.rs:1:2:\nwhy\nstack backtrace:\n 0: f\n";
        assert_eq!(cause(log), "thread 'x' panicked at a.rs:1:2:\nwhy");
        assert_eq!(cause("==1== ERROR: timeout"), "==1== ERROR: timeout");
        let log = "a\nartifact_prefix='/x/'; Test unit written to /x/crash-1\nBase64: YQ==\n";
        assert_eq!(findings(log).collect::<Vec<_>>(), ["/x/crash-1"]);
    }
}
