//! Running other programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A cargo command line, split at spaces, to be run in the repository's root.
pub(crate) fn cargo(args: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(args.split_whitespace()).current_dir(crate::root());
    command
}

/// How CI changes builds for users: for cargo's `--config`, with spaces in between.
const RELEASE_CONFIG: &str = "XSCHED_RELEASE_CONFIG";

/// As [`cargo`], for a command that builds what users get.
pub(crate) fn release(args: &str) -> Command {
    let (verb, rest) = args.split_once(' ').unwrap_or((args, ""));
    let mut command = cargo(verb);
    let config = std::env::var(RELEASE_CONFIG).unwrap_or_default();
    command.args(config.split_whitespace().flat_map(|line| ["--config", line]));
    command.args(rest.split_whitespace());
    command
}

/// A program of a package of crates.io in this version, built into `target/tools` if it is not
/// there.
pub(crate) fn tool(name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    let tools = crate::target_dir().join("tools");
    let program = tools.join("bin").join(name);
    let stamp = tools.join(format!("{name}-version"));
    if program.exists() && fs::read_to_string(&stamp).is_ok_and(|built| built == version) {
        return Ok(program);
    }
    let mut install = cargo(&format!("install {name} --locked --force --version {version}"));
    install.args(options).arg("--root").arg(&tools);
    // Building one takes longer than it runs.
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    run(install.env("CARGO_TARGET_DIR", tools.join("target")))?;
    fs::write(&stamp, version).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(program)
}

/// Says what is run, runs it, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// As [`run`], and returns the lines of standard output that start with `prefix`.
pub(crate) fn run_and_keep(command: &mut Command, prefix: &str) -> Result<Vec<String>> {
    let (status, mut lines) = run_and_keep_all(command)?;
    ensure!(status.success(), "`{}` ended with {status}", line(command));
    lines.retain(|line| line.starts_with(prefix));
    Ok(lines)
}

/// Runs it, and returns how it ended and the lines of standard output, which are printed too.
fn run_and_keep_all(command: &mut Command) -> Result<(ExitStatus, Vec<String>)> {
    let line = show(command);
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start `{line}`"))?;
    let mut lines = Vec::new();
    for text in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let text = text.with_context(|| format!("cannot read what `{line}` prints"))?;
        println!("{text}");
        lines.push(text);
    }
    Ok((child.wait()?, lines))
}

/// True if a command can be started and succeeds. What it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Prints the command line and returns it.
fn show(command: &Command) -> String {
    let line = line(command);
    println!("$ {line}");
    line
}

fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
