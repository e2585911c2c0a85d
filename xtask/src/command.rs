//! Running other programs.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A cargo command line, split at spaces, to be run in the repository's root.
pub(crate) fn cargo(args: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(args.split_whitespace()).current_dir(crate::root());
    command
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
    let line = show(command);
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start `{line}`"))?;
    let mut kept = Vec::new();
    if let Some(out) = child.stdout.take() {
        for text in BufReader::new(out).lines() {
            let text = text.with_context(|| format!("cannot read what `{line}` prints"))?;
            println!("{text}");
            if text.starts_with(prefix) {
                kept.push(text);
            }
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(kept)
}

/// Whether a command can be started and succeeds. What it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Prints the command line and returns it.
fn show(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    println!("$ {line}");
    line
}
