//! What `xsched lab` writes of a row: the prediction, before the run, and what was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::quantities::{CORES, NATIVE_CORES, OVER_NATIVE};
use crate::stats::Quantiles;

/// The version of both documents.
pub(crate) const VERSION: u32 = 1;

/// What a figure is of. Equal keys in a prediction and in a measurement are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The cell, as [`Cell::name`].
    pub(crate) cell: String,
    /// The role, as [`Role::name`], or `all`.
    pub(crate) role: String,
    /// The quantity with its unit last: `p50_ms`, `p99_over_alone`, `kept`, `share_percent` …
    pub(crate) quantity: String,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What it is of.
    #[serde(flatten)]
    pub(crate) key: Key,
    /// In the quantity's unit.
    pub(crate) value: f64,
}

impl Figure {
    /// The figure of this cell, role and quantity; `None` without a finite value.
    pub(crate) fn of(
        cell: &str,
        role: &str,
        quantity: &str,
        value: impl Into<Option<f64>>,
    ) -> Option<Self> {
        let value = value.into().filter(|value| value.is_finite())?;
        let [cell, role, quantity] = [cell, role, quantity].map(str::to_owned);
        Some(Self { key: Key { cell, role, quantity }, value })
    }
}

/// What the simulator said of a row before it was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prediction {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The row.
    pub(crate) id: String,
    /// When it was written, in UTC, as in RFC 3339.
    pub(crate) date: String,
    /// The description of the device that was simulated.
    pub(crate) device: String,
    /// The predicted values.
    pub(crate) figures: Vec<Figure>,
    /// Cells without a prediction, and why.
    pub(crate) left_out: BTreeMap<String, String>,
}

/// How a cell or a row ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status", content = "reason")]
pub(crate) enum Status {
    /// It was run to its end.
    Measured,
    /// It cannot be run here, and why.
    NotRun(String),
    /// It failed, and how.
    Failed(String),
}

/// Latencies and progress of a role in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Latencies of requests, from the arrival to the end.
    pub(crate) latency: Quantiles,
    /// Requests that ended each second of the phase.
    pub(crate) rate_per_s: f64,
    /// The distribution: at most 200 latencies in µs, at equal distances of rank, smallest first.
    pub(crate) cdf_us: Vec<f64>,
    /// The parts of this role in consecutive windows, in percent, where shares are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) windows_percent: Vec<f64>,
    /// Further quantities with their unit last, as `first_token_p99_ms` or `processor_cores`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) more: BTreeMap<String, f64>,
    /// The SHA-256 of what was computed, shortened, where results are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
}

impl Progress {
    /// Keeps how this is over what the same role did alone in the reference, in turns with this.
    pub(crate) fn set_beside(&mut self, native: &Self) {
        let over =
            (native.latency.p50_us > 0.0).then(|| self.latency.p50_us / native.latency.p50_us);
        self.more.extend(over.map(|over| (OVER_NATIVE.to_owned(), over)));
        let cores = native.more.get(CORES).map(|cores| (NATIVE_CORES.to_owned(), *cores));
        self.more.extend(cores);
    }
}

/// A role in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Its name, as `high` or `background`.
    pub(crate) name: String,
    /// The model or job, as `bert-base`.
    pub(crate) work: String,
    /// Its load, for people.
    pub(crate) load: String,
    /// With nothing beside it.
    pub(crate) alone: Option<Progress>,
    /// With the others of the cell.
    pub(crate) beside: Option<Progress>,
}

/// One combination of a row: programs, loads, and how they share the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Its name, one of its kind in the row, as `graph, processes, xsched`.
    pub(crate) name: String,
    /// How the device is shared: `native`, `priorities`, `mps`, `xsched` …
    pub(crate) way: String,
    /// How it ended.
    #[serde(flatten)]
    pub(crate) status: Status,
    /// Its roles, the urgent one first.
    pub(crate) roles: Vec<Role>,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
}

/// What a goal came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// What is asked for, as `P99 of high ≤ 1.30 × alone`.
    pub(crate) goal: String,
    /// Whose goal it is: `paper`, `plan` or `issue`.
    pub(crate) whose: String,
    /// What was measured, for people.
    pub(crate) measured: String,
    /// Whether it is met; `None` without enough samples.
    pub(crate) met: Option<bool>,
    /// What bounds it, where it is missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<String>,
}

/// What was measured of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The row, as in the test plan: `7.2.1`, or a word: `llm`.
    pub(crate) id: String,
    /// What it is about.
    pub(crate) name: String,
    /// When it began, in UTC, as in RFC 3339.
    pub(crate) date: String,
    /// `cuda`, `hip` or `host`.
    pub(crate) hal: String,
    /// The device's name.
    pub(crate) hardware: String,
    /// Versions by name: the driver, PyTorch, this program …
    pub(crate) software: BTreeMap<String, String>,
    /// With few samples, as `--quick` has it.
    pub(crate) quick: bool,
    /// How it ended.
    #[serde(flatten)]
    pub(crate) status: Status,
    /// The command that measures it.
    pub(crate) command: String,
    /// All combinations.
    pub(crate) cells: Vec<Cell>,
    /// What is compared with the prediction.
    pub(crate) figures: Vec<Figure>,
    /// Goals and what they came to.
    pub(crate) verdicts: Vec<Verdict>,
    /// Sentences for people.
    pub(crate) notes: Vec<String>,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
}
