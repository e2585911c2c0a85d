//! The documents of a folder: predictions, rows, and the plan's own form.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, json};

use super::document::{Prediction, Row, Status};
use super::judge::pass;
use super::quantities::find;
use super::table::Definition;
use crate::error::CommandError;
use crate::record::experiment::{Record, Status as Ended};
use xsched_console::output::Output;

/// The folders below that of the report.
pub(crate) const FOLDERS: [&str; 4] = ["predictions", "rows", "test_results", "raw"];
/// How the reason of a row or a cell begins that there was no time for.
pub(crate) const NO_TIME: &str = "there was no time left";
/// Why a cell is not run that was not asked for, at the begin of the text.
pub(crate) const LEFT_OUT: &str = "it was left out";

/// A folder with documents.
#[derive(Clone, Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// The folder, which is made with those below it.
    pub(crate) fn make(place: &Path) -> Result<Self, CommandError> {
        for below in FOLDERS {
            let below = place.join(below);
            fs::create_dir_all(&below).map_err(|source| CommandError::Write {
                place: below.display().to_string(),
                source,
            })?;
        }
        Ok(Self(place.to_owned()))
    }

    /// Where what programs of a row said goes.
    pub(crate) fn raw(&self, id: &str, cell: &str) -> PathBuf {
        self.0.join("raw").join(format!("{id}-{}", slug(cell)))
    }

    pub(crate) fn write_prediction(&self, prediction: &Prediction) -> Result<(), CommandError> {
        write(&self.of("predictions", &prediction.id), prediction)
    }

    /// Writes what was measured, also in the plan's form.
    pub(crate) fn write_row(&self, row: &Row, of: &Definition) -> Result<(), CommandError> {
        write(&self.of("rows", &row.id), row)?;
        let name = format!("{}_{}", row.id, of.file);
        write(&self.of("test_results", &name), &in_the_plans_form(row, of))
    }

    /// Reads what an earlier call predicted of a row.
    pub(crate) fn prediction(&self, id: &str) -> Option<Prediction> {
        read(&self.of("predictions", id))
    }

    /// Reads what an earlier call measured of a row.
    pub(crate) fn row(&self, id: &str) -> Option<Row> {
        read(&self.of("rows", id))
    }

    fn of(&self, folder: &str, name: &str) -> PathBuf {
        self.0.join(folder).join(format!("{name}.json"))
    }
}

fn write(place: &Path, document: &impl Serialize) -> Result<(), CommandError> {
    Ok(Output::prepare(place)?.write(|out| xsched_sim::report::write_json(out, document))?)
}

fn read<T: DeserializeOwned>(place: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(place).ok()?).ok()
}

/// A name for files.
fn slug(name: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || c == '+' { c } else { '-' };
    let long: String = name.chars().map(fine).collect();
    let parts: Vec<&str> = long.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// Returns whether a row that was measured still counts: on this device, and with as many samples.
pub(crate) fn counts(row: &Row, hal: &str, quick: bool) -> bool {
    row.hal == hal && (!row.quick || quick)
}

/// Returns whether a row need not be measured again.
pub(crate) fn is_done(row: &Row, hal: &str, quick: bool) -> bool {
    let cells = row.cells.iter().all(|cell| is_whole(&cell.status));
    counts(row, hal, quick) && is_whole(&row.status) && cells
}

/// Returns whether it came to its end, or could not be run for a reason that stays.
pub(crate) fn is_whole(status: &Status) -> bool {
    match status {
        Status::Measured => true,
        Status::NotRun(why) => !why.starts_with(NO_TIME) && !why.starts_with(LEFT_OUT),
        Status::Failed(_) => false,
    }
}

/// Returns whether something went wrong or missed its goal.
pub(crate) fn is_finding(row: &Row) -> bool {
    let failed = |status: &Status| matches!(status, Status::Failed(_));
    let cells = row.cells.iter().any(|cell| failed(&cell.status));
    failed(&row.status) || cells || pass(&row.verdicts) == Some(false)
}

/// How a row ended, in a word, or why not.
pub(crate) fn words(row: &Row) -> String {
    match &row.status {
        Status::Measured => match pass(&row.verdicts) {
            Some(true) => "measured, PASS".to_owned(),
            Some(false) => "measured, FAIL".to_owned(),
            None => "measured, no verdict".to_owned(),
        },
        Status::NotRun(why) => format!("not run: {why}"),
        Status::Failed(why) => format!("failed: {why}"),
    }
}

/// The row as the test plan's appendix has it.
fn in_the_plans_form(row: &Row, of: &Definition) -> Record {
    let mut results = Map::new();
    for result in &of.results {
        let value = find(&row.figures, &result.cell, result.role, result.quantity);
        results.insert(result.key.to_owned(), json!(value));
    }
    results.insert("figures".to_owned(), json!(row.figures));
    results.insert("build".to_owned(), json!(row.identity.build));
    let version = |name: &str| row.software.get(name).cloned();
    let goals: Vec<&str> = row.verdicts.iter().map(|verdict| verdict.goal.as_str()).collect();
    Record {
        test_id: row.id.clone(),
        test_name: row.title(),
        date: row.date.clone(),
        hardware: row.hardware.clone(),
        rocm_version: version("rocm").or_else(|| version("driver")).unwrap_or_default(),
        xsched_version: version("xsched").unwrap_or_default(),
        results,
        pass: pass(&row.verdicts),
        notes: [vec![words(row)], row.notes.clone()].concat().join("; "),
        status: match row.status {
            Status::Measured => Ended::Measured,
            Status::NotRun(_) => Ended::NotRun,
            Status::Failed(_) => Ended::Failed,
        },
        goal: goals.join("; "),
        hal: row.hal.clone(),
        quick: row.quick,
        command: row.command.clone(),
        seconds: row.seconds,
        raw: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::identity::Identity;
    use super::super::plan::Hal;
    use super::super::table::{self, Setting};
    use super::*;

    fn row(status: Status) -> Row {
        Row {
            version: super::super::document::VERSION,
            id: "7.2.1".to_owned(),
            name: "Fixed Priority Policy".to_owned(),
            date: "2026-01-02T03:04:05Z".to_owned(),
            hal: "cuda".to_owned(),
            hardware: "a card".to_owned(),
            identity: Identity::default(),
            software: [("xsched", env!("CARGO_PKG_VERSION")), ("driver", "5.0")]
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into(),
            quick: true,
            status,
            command: "xsched-lab run 7.2.1".to_owned(),
            cells: Vec::new(),
            figures: Vec::new(),
            verdicts: Vec::new(),
            notes: vec!["a note".to_owned()],
            seconds: 1.0,
        }
    }

    fn definition() -> Definition {
        let rows = table::all(Setting { hal: Hal::Cuda, quick: true });
        rows.into_iter().find(|row| row.plan.id == "7.2.1").unwrap()
    }

    #[test]
    fn documents_are_read_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::make(folder.path()).unwrap();
        let row = row(Status::NotRun("needs a GPU".to_owned()));
        folder.write_row(&row, &definition()).unwrap();
        assert_eq!(folder.row("7.2.1"), Some(row));
        let plan: Value = read(&folder.of("test_results", "7.2.1_fixed_priority")).unwrap();
        assert_eq!(plan["rocm_version"], "5.0");
        assert_eq!(plan["pass"], Value::Null);
        assert_eq!(plan["notes"], "not run: needs a GPU; a note");
        assert!(plan["results"]["foreground_p99_latency_xsched"].is_null());
    }

    #[test]
    fn only_whole_rows_are_not_measured_again() {
        let done = |row: &Row| is_done(row, "cuda", true);
        assert!(done(&row(Status::Measured)));
        assert!(done(&row(Status::NotRun("needs a GPU".to_owned()))));
        assert!(!done(&row(Status::NotRun(format!("{NO_TIME}: 25 min")))));
        assert!(!done(&row(Status::Failed("it hung".to_owned()))));
        assert!(!is_done(&row(Status::Measured), "cuda", false), "few samples are not enough");
        assert!(!is_done(&row(Status::Measured), "hip", true));
    }

    #[test]
    fn names_of_cells_are_names_of_files() {
        assert_eq!(slug("six, graph, threads, mps+xsched"), "six-graph-threads-mps+xsched");
        assert_eq!(slug("level 2, spacing 300 µs"), "level-2-spacing-300-s");
    }
}
