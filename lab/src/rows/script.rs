//! Programs of their own, which `run.py` runs plain and scheduled and sets side by side.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::counts::Counts;
use super::document::{Progress, Samples};
use super::plan::CellPlan;
use super::program::{Grouped, ProgramError, beside, quoted};
use super::program_files;
use super::quantities::SAME;
use super::session::Starter;

/// The program that runs the others.
const RUNNER: &str = "run.py";
/// For how long one of them may run.
const LIMIT: Duration = Duration::from_secs(240);
/// Short programs have more rounds within this time: processes of the same program differ by up to
/// 10 %.
const MORE: Duration = Duration::from_secs(40);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the cell's program `rounds` times each way.
pub(crate) fn run(
    starter: &Starter<'_>,
    cell: &CellPlan,
    raw: &Path,
    limit: Option<Duration>,
) -> Result<(Progress, Option<Counts>), ProgramError> {
    let script = cell.roles().next().map(|role| role.spec.work.clone()).unwrap_or_default();
    if program_files::find(&script).is_none() {
        return Err(ProgramError::Missing(format!("lab/programs/{script} is not there")));
    }
    let runner = program_files::find(RUNNER)
        .ok_or_else(|| ProgramError::Missing(format!("lab/programs/{RUNNER} is not there")))?;
    let xsched = program_files::program("xsched").map_err(ProgramError::Missing)?;
    let rounds = cell.samples.max(1);
    let each = limit.unwrap_or(LIMIT).min(LIMIT);
    let out = beside(raw, "programs.json");
    // The programs run in a folder of their own.
    let out = std::path::absolute(&out).unwrap_or(out);
    // What an earlier run left must not be taken for what this one writes.
    let _ = fs::remove_file(&out);
    let mut command = Command::new(&starter.python);
    command.envs(starter.gpu.iter().map(|gpu| (gpu.variable, &gpu.name)));
    command.arg(runner).arg("--xsched").arg(xsched).arg("--out").arg(&out);
    command.args(["--turns", "--rounds", &rounds.to_string()]);
    if rounds > 1 {
        let more = limit.map_or(MORE, |left| MORE.min(left / 4));
        command.args(["--seconds", &more.as_secs().to_string()]);
    }
    command.args(["--limit", &each.as_secs().max(1).to_string(), &script]);
    wait(starter, command, raw, each * rounds * 2 + LIMIT)?;
    let text = fs::read_to_string(&out)
        .map_err(|error| ProgramError::Failed(format!("{RUNNER} wrote no figures ({error})")))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| ProgramError::Nonsense {
        what: "programs",
        why: error.to_string(),
        line: quoted(&text),
    })?;
    understand(&document)
}

/// Runs it to its end, whatever its code: a program with other results is a finding.
fn wait(
    starter: &Starter<'_>,
    mut command: Command,
    raw: &Path,
    within: Duration,
) -> Result<(), ProgramError> {
    let file = |ending: &str| {
        let place = beside(raw, ending);
        File::create(&place).map_err(|source| ProgramError::File { place, source })
    };
    command.stdin(Stdio::null()).stdout(file("out.txt")?).stderr(file("err.txt")?);
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.process_group(0).spawn();
    let mut child = Grouped(child.map_err(|source| ProgramError::Start { program, source })?);
    let start = Instant::now();
    while matches!(child.0.try_wait(), Ok(None)) {
        if starter.stop.load(Ordering::Relaxed) {
            return Err(ProgramError::Interrupted);
        }
        if start.elapsed() > within {
            return Err(ProgramError::Late { what: "end", seconds: within.as_secs_f64() });
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Reads what `run.py` wrote of one program: the P50 of each round, and its launches by outcome.
fn understand(document: &Value) -> Result<(Progress, Option<Counts>), ProgramError> {
    let row = document.pointer("/programs/0");
    let row = row.ok_or_else(|| ProgramError::Failed(format!("{RUNNER} wrote of no program")))?;
    let failed = |way: &str| {
        let runs = row.get(way).and_then(Value::as_array).into_iter().flatten();
        runs.filter_map(|run| Some((run.get("failed")?.as_str()?.to_owned(), run))).next()
    };
    let words = |(why, run): (String, &Value)| {
        let said = run.get("said").and_then(Value::as_str).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("{why}: {}", quoted(last))
    };
    if let Some(plain) = failed("plain") {
        let what = words(plain);
        return Err(ProgramError::Missing(format!("it does not run without XSched: {what}")));
    }
    if let Some(scheduled) = failed("scheduled") {
        return Err(ProgramError::Failed(format!("under `xsched run`: {}", words(scheduled))));
    }
    let same = row.get("same").and_then(Value::as_bool).unwrap_or(false);
    let of = |way: &str| -> Vec<f64> {
        let runs = row.get(way).and_then(Value::as_array).into_iter().flatten();
        runs.map(|run| run.get("p50_ms").and_then(Value::as_f64).unwrap_or_default()).collect()
    };
    let digest = row.pointer("/scheduled/0/digest").and_then(Value::as_str).map(str::to_owned);
    let mut samples = Samples {
        times_us: of("scheduled").into_iter().map(|ms| (ms * 1e3) as u64).collect(),
        more: BTreeMap::from([(SAME.to_owned(), f64::from(u8::from(same)))]),
        digest,
        ..Samples::default()
    };
    let rounds = of("plain").into_iter().zip(of("scheduled"));
    rounds.for_each(|(plain, here)| samples.push_turn(plain, here));
    Ok((Progress::from(samples), row.get("counts").map(Counts::of_interposer)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_runs_neither_way_is_missing_and_what_fails_scheduled_has_failed() {
        let row = |plain: Value, scheduled: Value| {
            let row = json!({
                "plain": [plain], "scheduled": [scheduled], "same": true,
                "counts": { "launches": { "kernel": 5 }, "scheduled": { "kernel": 4 } },
            });
            understand(&json!({ "programs": [row] }))
        };
        let good = json!({ "digest": "abc", "samples": 20, "p50_ms": 2.0, "mean_ms": 2.5 });
        let bad = json!({ "failed": "exit 1", "said": "Traceback\nno module torch\n" });
        let plain = json!({ "digest": "abc", "samples": 20, "p50_ms": 1.6, "wall_ms": 9.0 });
        let (progress, counts) = row(plain, good.clone()).unwrap();
        assert_eq!((progress.latency.samples, progress.latency.p50_us), (1, 2_000.0));
        let samples = progress.samples;
        assert_eq!((samples.more["same"], samples.turns), (1.0, vec![(1.6, 2.0)]));
        assert_eq!(samples.digest.as_deref(), Some("abc"));
        assert_eq!(counts.map(|counts| (counts.scheduled, counts.past)), Some((4, 1)));
        let missing = row(bad.clone(), json!({})).unwrap_err();
        assert!(matches!(&missing, ProgramError::Missing(why) if why.ends_with("no module torch")));
        let failed = row(good, bad).unwrap_err().to_string();
        assert!(failed.contains("under `xsched run`: exit 1"), "{failed}");
        assert!(understand(&json!({ "programs": [] })).is_err());
    }
}
