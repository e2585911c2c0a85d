//! The bench of the C API: it compiles, and its rows that need no GPU take what they did, in
//! proportion to what the machine takes for something simple at the same moment.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::check::WARNINGS;
use crate::command::run as run_command;
use crate::{root, target_dir};

/// Bound of a row.
struct Bound {
    row: &'static str,
    /// The most that it may take, in units of the reference: 64 bytes into a ring under a mutex
    /// that is free, 6 ns on the machine where these were set.
    ratio: f64,
    /// Time that it took there, in the same units, in 20 runs while that machine had four times as
    /// much to do as it has processors.
    took: &'static str,
}

/// The bounds. Each is at least twice the longest that the row took and 2.5 times its median, so
/// that no noise breaks it. Rows in which other threads take part vary more, and have 3.5 times. On
/// the host of an H200 a submit has to be within 180 ns, a command made within 25 ns, an empty
/// callback after a hold within 0.36 µs.
const BOUNDS: [Bound; 8] = [
    Bound { row: "create a command", ratio: 13.0, took: "4.6 to 5.9" },
    Bound { row: "submit to a held queue", ratio: 32.0, took: "12.3 to 13.6" },
    Bound { row: "empty callbacks after a hold, 1 queue", ratio: 450.0, took: "92 to 151" },
    Bound { row: "empty callbacks after a hold, 4 queues", ratio: 450.0, took: "125 to 207" },
    Bound { row: "empty callbacks after a hold, 16 queues", ratio: 600.0, took: "126 to 240" },
    Bound { row: "create and submit to held queues, 4 threads", ratio: 50.0, took: "17 to 22" },
    Bound { row: "empty callbacks as they come", ratio: 350.0, took: "80 to 130" },
    Bound { row: "suspend and resume", ratio: 150.0, took: "62 to 69" },
];

/// Record that the bench prints.
#[derive(Debug, Deserialize)]
struct Record {
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    row: String,
    ns: f64,
    ratio: f64,
}

/// Compiles the bench and runs it on the emulated HIP runtime, which must have been built.
///
/// # Errors
/// If it cannot be compiled or fails, or a row takes more than its bound.
pub(super) fn run(prefix: &Path, made: &Path) -> Result<()> {
    let (bench, lib) = (made.join("bench"), prefix.join("lib"));
    let mut compile = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    compile.args(["-std=c++17", "-O2"]).args(WARNINGS).arg("-I").arg(prefix.join("include"));
    compile.arg(root().join("capi/bench/main.cpp")).arg("-o").arg(&bench).arg("-L").arg(&lib);
    compile.args(["-lpreempt", "-lhalcuda", "-lhalhip", "-lhalhost", "-ldl", "-pthread"]);
    run_command(&mut compile)?;
    let mut measure = Command::new(bench);
    measure.arg("--host").env("LD_LIBRARY_PATH", lib).env("XLOG_LEVEL", "ERRO");
    measure.env("XSCHED_HIP_LIB", target_dir().join("release/libxsched_hip_emulated.so"));
    let output = measure.stderr(Stdio::inherit()).output().context("cannot start the bench")?;
    ensure!(output.status.success(), "the bench ended with {}", output.status);
    let record: Record = serde_json::from_slice(&output.stdout).context("the bench's record")?;
    judge(&record.rows)
}

/// Compares each row with its bound.
fn judge(rows: &[Row]) -> Result<()> {
    let mut over = Vec::new();
    for Bound { row: name, ratio: most, took } in BOUNDS {
        let row = rows.iter().find(|row| row.row == name);
        let Row { ns, ratio, .. } = row.with_context(|| format!("no row `{name}`"))?;
        println!("capi: {name}: {ns:.0} ns, {ratio:.1} times the reference, at most {most}");
        if ratio > &most {
            over.push(format!("{name}: {ratio:.1} times the reference, and not {took}"));
        }
    }
    ensure!(over.is_empty(), "the C API is slower than it was: {}", over.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let within = |bound: &Bound| Row { row: bound.row.into(), ns: 1.0, ratio: bound.ratio };
        BOUNDS.iter().map(within).collect()
    }

    #[test]
    fn a_row_that_is_slower_or_missing_is_found() {
        judge(&rows()).expect("within the bounds");
        let mut slow = rows();
        slow[1].ratio += 0.1;
        let error = judge(&slow).expect_err("over a bound").to_string();
        assert!(error.ends_with(
            "was: submit to a held queue: 32.1 times the reference, and not 12.3 to 13.6"
        ));
        assert!(judge(&rows()[1..]).is_err());
    }
}
