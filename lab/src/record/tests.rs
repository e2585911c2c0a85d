//! Each file that is kept below `benches/results` is read by all code that reads files of its kind.
//! A file that cannot be read, or is of a kind that is not known here, fails the test.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

use super::{Head, read};
use crate::device::LabError;
use crate::device::mode::Mode;
use crate::judge::{self, Judged};
use crate::predict::measured::Measured;
use crate::rows::document::{Cell, Figure, Prediction, Row, Status, VERSION, Verdict};
use crate::rows::table;
use crate::{draw, predict};

type Judge = fn(&Value) -> Result<Judged, LabError>;

/// The benches, and what judges their records.
const JUDGES: [(&str, &[Judge]); 9] = [
    ("preempt", &[judge::per_level, judge::per_length, judge::interrupt]),
    ("fixed-priority", &[judge::fixed_priority]),
    ("partition", &[judge::parts]),
    ("threshold", &[judge::thresholds]),
    ("overhead", &[judge::in_time, judge::in_processor]),
    ("graphs", &[judge::graphs]),
    ("requests", &[judge::requests]),
    ("placement", &[judge::rings, judge::firsts, judge::words]),
    ("calibrate", &[judge::calibration]),
];

/// All files below the folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The kind of a kept file, once it has been read.
fn kind(path: &Path) -> Result<&'static str, String> {
    let place = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| format!("{place}: {error}"))?;
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let (text, ending) = match ending {
        "gz" => (unpacked(&bytes), Path::new(path.file_stem().unwrap_or_default()).extension()),
        _ => (String::from_utf8(bytes).map_err(std::io::Error::other), path.extension()),
    };
    let text = text.map_err(|error| format!("{place}: {error}"))?;
    let ending = ending.and_then(|ending| ending.to_str()).unwrap_or_default();
    if matches!(ending, "txt" | "md") {
        return if text.trim().is_empty() { Err(format!("{place} is empty")) } else { Ok("text") };
    }
    if ending != "json" {
        return Err(format!("{place}: files of this kind are not known"));
    }
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{place}: {error}"))?;
    let has = |key: &str| value.get(key).is_some();
    let checked = if has("commit") {
        typed::<Summary>(&value).and_then(Summary::check).map(|()| "summary")
    } else if has("through") {
        typed::<ThroughC>(&value).and_then(ThroughC::check).map(|()| "C")
    } else if has("record") {
        typed::<Predicted>(&value).and_then(Predicted::check).map(|()| "prediction")
    } else if has("runs") {
        typed::<Comparison>(&value).and_then(Comparison::check).map(|()| "comparison")
    } else if has("checks") {
        typed::<Run>(&value).and_then(Run::check).map(|()| "run")
    } else if has("judged") {
        typed::<Paper>(&value).and_then(Paper::check).map(|()| "paper")
    } else if has("bench") {
        bench(&value, &text, &place).map(|()| "bench")
    } else if has("criteria") {
        typed::<Demo>(&value).and_then(Demo::check).map(|()| "demo")
    } else if has("devices") {
        typed::<Devices>(&value).and_then(Devices::check).map(|()| "devices")
    } else if has("cases") {
        typed::<Faults>(&value).and_then(Faults::check).map(|()| "faults")
    } else if has("programs") {
        typed::<Programs>(&value).and_then(Programs::check).map(|()| "programs")
    } else if has("left_out") {
        typed::<Prediction>(&value)
            .and_then(|said| lab_figures(&said.figures, None))
            .map(|()| "lab")
    } else if has("seed") && has("cells") {
        let has_bands = bands(&value).and_then(|count| ensure(count > 0, "no figure"));
        has_bands.map(|()| "simulated cluster")
    } else if has("cells") {
        match value.get("version") {
            Some(version) if *version == VERSION => typed::<Row>(&value).and_then(lab_row),
            _ => typed::<EarlierRow>(&value).and_then(EarlierRow::check),
        }
        .map(|()| "lab")
    } else if has("command_us") {
        typed::<Early>(&value).and_then(Early::check).map(|()| "early")
    } else {
        Err("records of this kind are not known".to_owned())
    };
    checked.map_err(|why| format!("{place}: {why}"))
}

/// The number of bands in a record of simulated clusters or gangs.
fn bands(value: &Value) -> Result<usize, String> {
    let parts: Vec<&Value> = match value {
        Value::Array(parts) => parts.iter().collect(),
        Value::Object(parts) => parts.values().collect(),
        _ => return Ok(0),
    };
    let is_band = value.get("median").is_some();
    if is_band {
        let number = |name: &str| value.get(name).and_then(Value::as_f64).ok_or(name.to_owned());
        let (low, median, high) = (number("p5")?, number("median")?, number("p95")?);
        ensure(low <= median && median <= high, "a median outside its band")?;
    }
    parts.into_iter().try_fold(usize::from(is_band), |count, part| Ok(count + bands(part)?))
}

/// The text of a compressed file.
fn unpacked(bytes: &[u8]) -> std::io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).map(|_| text)
}

/// The summary of a run. Tidy checks when, where and of which commit the run was.
#[derive(Deserialize)]
struct Summary {
    #[serde(default)]
    rows: BTreeMap<String, SummaryRow>,
}

#[derive(Deserialize)]
struct SummaryRow {
    goals: Vec<SummaryGoal>,
    cells: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

#[derive(Deserialize)]
struct SummaryGoal {
    goal: String,
    met: Option<bool>,
    measured: Option<String>,
}

impl Summary {
    fn check(self) -> Result<(), String> {
        self.rows.iter().try_for_each(|(id, row)| {
            let id = id.rsplit('/').next().unwrap_or_default();
            ensure(table::ids().contains(&id), "a row that is not in the table")?;
            let judged = |goal: &SummaryGoal| goal.met.is_none() || goal.measured.is_some();
            let named = |goal: &SummaryGoal| !goal.goal.is_empty() && judged(goal);
            ensure(row.goals.iter().all(named), "a goal that is met by nothing")?;
            let mut figures = row.cells.values().flat_map(BTreeMap::values);
            ensure(figures.all(|of| of.values().all(|value| value.is_finite())), "a figure")
        })
    }
}

fn typed<T: for<'a> Deserialize<'a>>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// Checks what `xsched-lab` measured of a row: figures are of cells that were measured.
fn lab_row(row: Row) -> Result<(), String> {
    ensure(table::ids().contains(&row.id.as_str()), "a row that is not in the table")?;
    let is_measured = |cell: &&Cell| cell.status == Status::Measured;
    let measured: Vec<&Cell> = row.cells.iter().filter(is_measured).collect();
    ensure((row.status == Status::Measured) != measured.is_empty(), "its status")?;
    ensure(measured.iter().all(|cell| !cell.roles.is_empty()), "a cell without roles")?;
    lab_figures(&row.figures, Some(&measured))
}

/// Part of a row without request times that is looked at, as version 1 of the documents has it.
#[derive(Deserialize)]
struct EarlierRow {
    id: String,
    figures: Vec<Figure>,
    verdicts: Vec<Verdict>,
}

impl EarlierRow {
    fn check(self) -> Result<(), String> {
        ensure(table::ids().contains(&self.id.as_str()), "a row that is not in the table")?;
        let has_value = |verdict: &Verdict| verdict.met.is_none() || !verdict.measured.is_empty();
        ensure(self.verdicts.iter().all(has_value), "a verdict on no value")?;
        lab_figures(&self.figures, None)
    }
}

fn lab_figures(figures: &[Figure], cells: Option<&[&Cell]>) -> Result<(), String> {
    let is_of = |figure: &Figure| {
        let has = |cells: &[&Cell]| cells.iter().any(|cell| cell.name == figure.key.cell);
        figure.value.is_finite() && cells.is_none_or(has)
    };
    ensure(figures.iter().all(is_of), "a figure of no cell, or without a value")
}

/// A record of `xsched-lab bench` is judged, drawn if its bench has a picture, and can be predicted
/// if its bench is one that is.
fn bench(value: &Value, text: &str, place: &str) -> Result<(), String> {
    let head: Head = read(text, place).map_err(|error| error.to_string())?;
    let judges = JUDGES.iter().find(|(name, _)| *name == head.bench);
    let (_, judges) = judges.ok_or_else(|| format!("bench {} is not known", head.bench))?;
    for judge in *judges {
        let judged = judge(value).map_err(|error| error.to_string())?;
        ensure(judged.not_run.is_some() || !judged.results.is_empty(), "it shows nothing")?;
    }
    if draw::check(true, &head.bench).is_ok() {
        let svg = draw::picture(text, place).map_err(|error| error.to_string())?;
        ensure(svg.starts_with("<svg") && svg.contains(&head.device.device), "no picture")?;
    }
    if matches!(head.bench.as_str(), "fixed-priority" | "partition" | "preempt") {
        Measured::read(&head.bench, text, place).map_err(|error| error.to_string())?;
        predict::device_for(None, &head.device.device).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Benches of `capi/bench` that `xsched-lab bench` has not.
const ROWS_THROUGH_C: [&str; 7] =
    ["many", "drain", "submit", "control", "threshold", "first-use", "after-hold"];

/// Modes of `capi/bench` that `xsched-lab bench` has not.
const MODES_THROUGH_C: [&str; 3] = ["plain_threads", "lv1_launcher", "gate_launcher"];

/// A record of the C API's bench.
#[derive(Deserialize)]
struct ThroughC {
    bench: String,
    rows: Vec<RowThroughC>,
}

#[derive(Deserialize)]
struct RowThroughC {
    mode: String,
}

impl RowThroughC {
    fn mode(&self) -> Option<Mode> {
        serde_json::from_value(Value::from(self.mode.as_str())).ok()
    }

    fn is_known(&self) -> bool {
        self.mode().is_some() || MODES_THROUGH_C.contains(&&*self.mode)
    }
}

impl ThroughC {
    fn check(self) -> Result<(), String> {
        let known = JUDGES.iter().any(|(name, _)| *name == self.bench);
        ensure(known || ROWS_THROUGH_C.contains(&&*self.bench), "an unknown bench")?;
        ensure(self.rows.iter().all(RowThroughC::is_known), "an unknown mode")?;
        ensure(self.rows.iter().any(|row| row.mode() == Some(Mode::Lv1)), "Lv1 is missing")
    }
}

/// A record of `xsched-lab demo`.
#[derive(Deserialize)]
struct Demo {
    criteria: Vec<Criterion>,
}

#[derive(Deserialize)]
struct Criterion {
    value: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    reached: bool,
}

impl Demo {
    /// Each verdict has to follow from the figure and its bounds.
    fn check(self) -> Result<(), String> {
        let follows = |criterion: &Criterion| {
            let reached = criterion.value.is_some_and(|value| {
                criterion.at_least.is_none_or(|least| value >= least)
                    && criterion.at_most.is_none_or(|most| value <= most)
            });
            reached == criterion.reached
        };
        ensure(!self.criteria.is_empty(), "no criteria")?;
        ensure(self.criteria.iter().all(follows), "a verdict does not follow from its figure")
    }
}

/// Document that `xsched devices --json` wrote.
#[derive(Deserialize)]
struct Devices {
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    backend: String,
    device: Option<String>,
    level: Option<u8>,
    why: Option<String>,
}

impl Devices {
    fn check(self) -> Result<(), String> {
        let is_known = |device: &Device| {
            let known = ["host", "cuda", "hip", "kfd"].contains(&device.backend.as_str());
            let level = device.level.is_none_or(|level| (1..=3).contains(&level));
            known && level && (device.device.is_some() || device.why.is_some())
        };
        ensure(self.devices.iter().any(|device| device.backend == "host"), "no host device")?;
        ensure(self.devices.iter().all(is_known), "a device of an unknown kind")
    }
}

/// The record of the tests with injected faults.
#[derive(Deserialize)]
struct Faults {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    verdict: String,
    failures: Vec<Value>,
}

impl Faults {
    fn check(self) -> Result<(), String> {
        let agrees = |case: &Case| case.verdict != "pass" || case.failures.is_empty();
        ensure(!self.cases.is_empty(), "no cases")?;
        ensure(self.cases.iter().all(agrees), "a case passed with failures")
    }
}

/// The first form of a record of `bench preempt`.
#[derive(Deserialize)]
struct Early {
    rows: Vec<EarlyRow>,
}

#[derive(Deserialize)]
struct EarlyRow {
    level: u8,
    quiet_us: EarlyQuantiles,
}

#[derive(Deserialize)]
struct EarlyQuantiles {
    min: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Early {
    fn check(self) -> Result<(), String> {
        let levels: Vec<u8> = self.rows.iter().map(|row| row.level).collect();
        ensure(levels == [1, 2, 3], "the levels are not 1, 2 and 3")?;
        let sorted = |row: &EarlyRow| {
            let EarlyQuantiles { min, p50, p99, max } = row.quiet_us;
            min <= p50 && p50 <= p99 && p99 <= max
        };
        ensure(self.rows.iter().all(sorted), "quantiles out of order")
    }
}

/// Document that `xsched-lab bench predict --json` wrote.
#[derive(Deserialize)]
struct Predicted {
    figures: Vec<String>,
    cells: Vec<PredictedCell>,
    median_error: f64,
    largest_error: f64,
}

#[derive(Deserialize)]
struct PredictedCell {
    pairs: Vec<Option<PredictedPair>>,
}

#[derive(Deserialize)]
struct PredictedPair {
    measured: f64,
    predicted: f64,
    error: f64,
}

impl Predicted {
    fn check(self) -> Result<(), String> {
        ensure(!self.cells.is_empty() && self.median_error <= self.largest_error, "no errors")?;
        let whole = self.cells.iter().all(|cell| cell.pairs.len() == self.figures.len());
        ensure(whole, "a figure is missing")?;
        let follows = |pair: &PredictedPair| {
            let error = (pair.predicted - pair.measured).abs() / pair.measured.abs();
            (error - pair.error).abs() <= 1e-9 * error.max(1.0)
        };
        let mut pairs = self.cells.iter().flat_map(|cell| cell.pairs.iter().flatten());
        ensure(pairs.all(follows), "an error does not follow from its figures")
    }
}

/// Document that `xsched sim run --json` wrote.
#[derive(Deserialize)]
struct Run {
    tasks: Vec<Value>,
    checks: BTreeMap<String, Check>,
}

#[derive(Deserialize)]
struct Check {
    observed: u64,
    violations: u64,
}

impl Run {
    fn check(self) -> Result<(), String> {
        ensure(!self.tasks.is_empty(), "no tasks")?;
        ensure(self.checks.values().any(|check| check.observed > 0), "nothing was checked")?;
        ensure(self.checks.values().all(|check| check.violations == 0), "a violation")
    }
}

/// Document that `xsched sim compare --json` wrote.
#[derive(Deserialize)]
struct Comparison {
    runs: Vec<Run>,
}

impl Comparison {
    fn check(self) -> Result<(), String> {
        ensure(self.runs.len() > 1, "nothing to compare")?;
        self.runs.into_iter().try_for_each(Run::check)
    }
}

/// The summary that `xsched sim paper` wrote.
#[derive(Deserialize)]
struct Paper {
    values: u64,
    judged: u64,
    met: u64,
    labels: BTreeMap<String, PaperCount>,
    missed: Vec<String>,
}

#[derive(Deserialize)]
struct PaperCount {
    values: u64,
    judged: u64,
    met: u64,
    numbers: u64,
    near: u64,
}

impl Paper {
    fn check(self) -> Result<(), String> {
        let sum = |of: fn(&PaperCount) -> u64| self.labels.values().map(of).sum::<u64>();
        let sums = (sum(|c| c.values), sum(|c| c.judged), sum(|c| c.met));
        ensure(sums == (self.values, self.judged, self.met), "the labels do not add up")?;
        ensure(self.labels.values().all(|c| c.near <= c.numbers), "more near than numbers")?;
        let missed = self.missed.len() as u64;
        ensure(self.met + missed == self.judged, "a missed goal is not named")
    }
}

/// Document that `lab/programs/run.py` wrote.
#[derive(Deserialize)]
struct Programs {
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    program: String,
    plain: Vec<Ran>,
    scheduled: Vec<Ran>,
    same: bool,
}

/// A run of a program: what it printed, or why it did not.
#[derive(Deserialize)]
struct Ran {
    digest: Option<String>,
    failed: Option<String>,
}

impl Programs {
    fn check(self) -> Result<(), String> {
        ensure(!self.programs.is_empty(), "no programs")?;
        self.programs.iter().try_for_each(|row| {
            let runs = || row.plain.iter().chain(&row.scheduled);
            let named = row.program.ends_with(".py") && !row.plain.is_empty();
            ensure(
                named && runs().all(|run| run.digest.is_some() != run.failed.is_some()),
                "a run",
            )?;
            let first = row.plain.first().and_then(|run| run.digest.as_ref());
            let same = first.is_some() && runs().all(|run| run.digest.as_ref() == first);
            ensure(same == row.same, "the digests say otherwise")
        })
    }
}

#[test]
fn each_kept_file_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/results");
    let mut found = Vec::new();
    files(&folder, &mut found);
    let mut kinds = Vec::new();
    let mut failures = Vec::new();
    for path in &found {
        match kind(path) {
            Ok(kind) => kinds.push(kind),
            Err(why) => failures.push(why),
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    let kinds_kept = [
        "bench",
        "C",
        "demo",
        "devices",
        "early",
        "faults",
        "lab",
        "prediction",
        "programs",
        "run",
        "simulated cluster",
        "summary",
        "text",
    ];
    for kind in kinds_kept {
        assert!(kinds.contains(&kind), "no file of the kind {kind}: is this still the folder?");
    }
}

#[test]
fn files_that_are_not_known_or_broken_fail() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        kind(&path).unwrap_err()
    };
    assert!(refused("a.csv", "1,2").contains("not known"));
    assert!(refused("a.txt", "\n").contains("empty"));
    assert!(refused("b.json", "{").contains("EOF"));
    assert!(refused("c.json", "{}").contains("not known"));
    let unknown = refused("d.json", r#"{"bench": "toast", "device": {"device": "a"}}"#);
    assert!(unknown.contains("bench toast is not known"), "{unknown}");
    let wrong = r#"{"bench": "preempt", "device": {"device": "a"}, "rows": [{"mode": "lv9"}]}"#;
    assert!(refused("e.json", wrong).contains("rows"));
    let met = r#"{"commit": "a", "rows": {"5.4": {"goals": [{"goal": "P99", "met": true}], "cells": {}}}}"#;
    assert!(refused("g.json", met).contains("met by nothing"));
    assert!(refused("h.json.gz", "{}").contains("h.json.gz"));
    let band = r#"{"seed": 1, "cells": [{"kept": {"p5": 2.0, "median": 1.0, "p95": 3.0}}]}"#;
    assert!(refused("i.json", band).contains("outside its band"));
    assert!(refused("j.json", r#"{"seed": 1, "cells": []}"#).contains("no figure"));
    let verdict = r#"{"criteria": [{"value": 1.0, "at_least": 2.0, "reached": true}]}"#;
    assert!(refused("f.json", verdict).contains("does not follow"));
}
