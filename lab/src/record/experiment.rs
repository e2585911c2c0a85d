//! The form of the test plan for what an experiment came to, of benches and of real programs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::CommandError;
use xsched_console::output::Output;

/// How an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// The experiment came to its end, whatever it found.
    Measured,
    /// The experiment ended with an error, or took too long.
    Failed,
    /// The program that ran it ended before it did.
    Interrupted,
    /// The experiment cannot be run on this device or by this program.
    NotRun,
}

impl Status {
    /// For people.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::NotRun => "not run",
        }
    }
}

/// Outcome of an experiment. The first fields up to `notes` are those that the test plan asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The experiment, as in the test plan, and the name of the file.
    pub(crate) test_id: String,
    /// Subject of the experiment.
    pub(crate) test_name: String,
    /// When it began, in UTC, as in RFC 3339.
    pub(crate) date: String,
    /// The device and where it is.
    pub(crate) hardware: String,
    /// ROCm's version, or that of whatever driver the device has.
    pub(crate) rocm_version: String,
    /// Version of this program.
    pub(crate) xsched_version: String,
    /// The figures.
    pub(crate) results: Map<String, Value>,
    /// Set if the goal was reached; `None` where there is none or too few samples to say.
    pub(crate) pass: Option<bool>,
    /// Notes on the outcome.
    pub(crate) notes: String,
    /// How it ended.
    pub(crate) status: Status,
    /// Goal of the experiment.
    pub(crate) goal: String,
    /// The backend.
    pub(crate) hal: String,
    /// With few samples, as `--quick` has it.
    pub(crate) quick: bool,
    /// The command that measured it.
    pub(crate) command: String,
    /// How long that took.
    pub(crate) seconds: f64,
    /// Files with all that was measured, from the folder of the report.
    pub(crate) raw: Vec<String>,
}

impl Record {
    /// Returns the path of a record in a folder.
    pub(crate) fn path(folder: &Path, id: &str) -> PathBuf {
        folder.join(format!("{id}.json"))
    }

    /// The record of an experiment, if there is one that can be read.
    pub(crate) fn read(folder: &Path, id: &str) -> Option<Self> {
        let text = fs::read_to_string(Self::path(folder, id)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes it to its file.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), CommandError> {
        let output = Output::prepare(&Self::path(folder, &self.test_id))?;
        Ok(output.write(|out| xsched_sim::report::write_json(out, self))?)
    }

    /// Returns whether it need not be measured again: it is by this version, on this backend, and
    /// with as many samples.
    pub(crate) fn is_done(&self, hal: &str, quick: bool) -> bool {
        let same = self.hal == hal && (!self.quick || quick);
        let ended = matches!(self.status, Status::Measured | Status::NotRun);
        same && ended && self.xsched_version == env!("CARGO_PKG_VERSION")
    }

    /// Returns whether it went wrong, or missed its goal.
    pub(crate) fn is_finding(&self) -> bool {
        self.pass == Some(false) || matches!(self.status, Status::Failed | Status::Interrupted)
    }

    /// For people.
    pub(crate) const fn verdict(&self) -> &'static str {
        match (self.status, self.pass) {
            (Status::Measured, Some(true)) => "PASS",
            (Status::Measured, Some(false)) => "FAIL",
            (Status::Measured, None) => "no verdict",
            (status, _) => status.word(),
        }
    }
}

#[cfg(test)]
pub(crate) use tests::record as sample;

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn record(status: Status, pass: Option<bool>) -> Record {
        Record {
            test_id: "7.3.1".into(),
            test_name: "preemption latency <per> level".into(),
            date: "2026-01-02T03:04:05Z".into(),
            hardware: "a device".into(),
            rocm_version: "a driver".into(),
            xsched_version: env!("CARGO_PKG_VERSION").into(),
            results: Map::from_iter([("lv3".into(), Value::from(12.5))]),
            pass,
            notes: String::new(),
            status,
            goal: "below 100 µs".into(),
            hal: "host".into(),
            quick: true,
            command: "xsched-lab bench preempt".into(),
            seconds: 1.0,
            raw: vec!["raw/preempt.json".into()],
        }
    }

    #[test]
    fn what_was_measured_by_this_version_is_done() {
        let done = record(Status::Measured, None);
        assert!(done.is_done("host", true));
        assert!(!done.is_done("host", false), "few samples are not enough");
        assert!(!done.is_done("cuda", true));
        assert!(!Record { xsched_version: "0".into(), ..done }.is_done("host", true));
        assert!(!record(Status::Interrupted, None).is_done("host", true));
        assert!(!record(Status::Failed, None).is_done("host", true));
        assert!(record(Status::NotRun, None).is_done("host", true));
    }

    #[test]
    fn failures_and_missed_goals_are_findings() {
        assert!(record(Status::Measured, Some(false)).is_finding());
        assert!(record(Status::Interrupted, None).is_finding());
        assert!(!record(Status::Measured, None).is_finding());
        assert!(!record(Status::NotRun, None).is_finding());
        assert_eq!(record(Status::Measured, Some(true)).verdict(), "PASS");
        assert_eq!(record(Status::NotRun, None).verdict(), "not run");
    }
}
