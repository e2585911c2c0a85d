//! PyTorch on ROCm, where there is one: the programs of `lab/programs`, plain and under
//! `xsched run`, which their own `run.py` sets side by side.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::device::LabError;
use crate::judge::Judged;
use crate::rows::program_files;

/// The program that runs the others.
const RUNNER: &str = "run.py";
/// Programs to run: all operators forward and backward, then BERT, alone and from three threads.
const PROGRAMS: [&str; 3] =
    ["operators.py", "bert_eager.py", "bert_threads.py --threads 3 --mode eager --seconds 4"];
/// The command, as a record has it.
pub(super) const COMMAND: &str = "python3 lab/programs/run.py --xsched xsched";
/// Ends with 0 if this PyTorch is one for ROCm and sees a GPU.
const HAS_ROCM: &str =
    "import sys, torch; sys.exit(0 if torch.version.hip and torch.cuda.is_available() else 1)";
/// Why the records of this are empty on most machines.
const NONE: &str =
    "not run: no PyTorch for ROCm (`python3 -c \"import torch; torch.version.hip\"`)";

/// The command that runs them and writes what came out to a file, or why they cannot be run.
pub(super) fn command(quick: bool, seconds: u64, out: &Path) -> Result<Command, String> {
    let runner =
        program_files::find(RUNNER).ok_or("not run: lab/programs is not beside this program")?;
    let mut asked = Command::new("python3");
    asked.args(["-c", HAS_ROCM]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !asked.status().is_ok_and(|status| status.success()) {
        return Err(NONE.to_owned());
    }
    let xsched = program_files::program("xsched").map_err(|why| format!("not run: {why}"))?;
    let (rounds, runs) = if quick { (1, 2) } else { (3, 6) };
    let limit = (seconds / (runs * PROGRAMS.len() as u64)).max(1);
    let mut command = Command::new("python3");
    command.arg(runner).arg("--xsched").arg(xsched).arg("--out").arg(absolute(out));
    command.args(["--rounds", &rounds.to_string(), "--limit", &limit.to_string()]);
    command.args(PROGRAMS);
    Ok(command)
}

/// The programs run in a folder of their own.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns whether every program had the same results both ways, and what it cost.
pub(super) fn judge(record: &Value) -> Result<Judged, LabError> {
    let rows = record.get("programs").and_then(Value::as_array);
    let rows = rows.ok_or_else(|| LabError::new("`programs` is not as expected"))?;
    let figure = |row: &Value| {
        let first = |way: &str, key: &str| row.pointer(&format!("/{way}/0/{key}")).cloned();
        let words =
            |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        let failed =
            words(first("plain", "failed")).or_else(|| words(first("scheduled", "failed")));
        json!({
            "program": row.get("program"), "same_results": row.get("same"),
            "plain_p50_ms": first("plain", "p50_ms"),
            "scheduled_p50_ms": first("scheduled", "p50_ms"),
            "scheduled_over_plain": row.get("ratio"), "failed": failed,
        })
    };
    let same = |row: &Value| row.get("same").and_then(Value::as_bool).unwrap_or(false);
    let pass = (!rows.is_empty()).then(|| rows.iter().all(same));
    Ok(Judged::new(json!({ "programs": rows.iter().map(figure).collect::<Vec<_>>() }), pass))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_other_results_or_none_misses_the_goal() {
        let row = |same: bool| {
            json!({
                "program": "operators.py", "same": same, "ratio": 1.01,
                "plain": [{ "p50_ms": 2.0 }], "scheduled": [{ "p50_ms": 2.02 }],
            })
        };
        let judged = |rows: Value| judge(&json!({ "programs": rows })).unwrap();
        let good = judged(json!([row(true)]));
        assert_eq!(good.pass, Some(true));
        assert_eq!(good.results["programs"][0]["scheduled_over_plain"], 1.01);
        assert_eq!(judged(json!([row(true), row(false)])).pass, Some(false));
        let failed = json!([{ "program": "a", "same": false, "plain": [{ "failed": "exit 1" }] }]);
        assert_eq!(judged(failed).results["programs"][0]["failed"], "exit 1");
        assert_eq!(judged(json!([])).pass, None);
        assert!(judge(&json!({})).is_err());
    }

    #[test]
    fn the_programs_are_there() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        for program in PROGRAMS {
            let file = program.split(' ').next().unwrap_or_default();
            assert!(here.join(file).is_file(), "{program}");
        }
    }
}
