//! Documents of a row: the prediction, before the run, and what was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::identity::Identity;
use super::plan::Hal;
use crate::stats::{Quantiles, drawn};
use xsched_sim::sample::Rng;

/// The version of both documents. Those of another version are not read.
pub(crate) const VERSION: u32 = 2;

/// Cell, role and quantity of a figure. Equal keys in a prediction and a measurement are compared.
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
    /// Cell, role and quantity of the value.
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

/// Prediction of the simulator for a row, made before it was run.
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
    /// The cell was run to its end.
    Measured,
    /// The cell cannot be run here, and why.
    NotRun(String),
    /// The cell failed, and how.
    Failed(String),
}

/// Latencies and progress of a role in one phase. What is read is computed from its samples anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Samples")]
pub(crate) struct Progress {
    /// Latencies of requests, from the arrival to the end.
    pub(crate) latency: Quantiles,
    /// Requests that ended each second of the phase.
    pub(crate) rate_per_s: f64,
    /// Samples that both come from.
    #[serde(flatten)]
    pub(crate) samples: Samples,
}

/// Samples of a role in one phase, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Samples {
    /// The latency of each request.
    pub(crate) times_us: Vec<u64>,
    /// Requests that ended each second, in equal parts of the phase.
    pub(crate) rates_per_s: Vec<f64>,
    /// The parts of this role in consecutive windows, in percent, where shares are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) windows_percent: Vec<f64>,
    /// A language model's times to the first token of a request, and between two others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) first_token_us: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) per_token_us: Vec<u64>,
    /// Times of the same work without XSched and with it, in one unit, turn by turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<(f64, f64)>,
    /// Processors in use by all programs of the cell, in each part of the phase, on the first role.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cores: Vec<f64>,
    /// Processors in use in the reference, where both were measured in turns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) native_cores: Vec<f64>,
    /// Further quantities with their unit last, as `tokens_per_s`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) more: BTreeMap<String, f64>,
    /// The SHA-256 of what was computed, shortened, where results are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
}

impl From<Samples> for Progress {
    fn from(samples: Samples) -> Self {
        let ns: Vec<u64> = samples.times_us.iter().map(|us| us.saturating_mul(1_000)).collect();
        let parts = samples.rates_per_s.len().max(1) as f64;
        let rate_per_s = samples.rates_per_s.iter().sum::<f64>() / parts;
        Self { latency: Quantiles::of(&ns), rate_per_s, samples }
    }
}

impl Samples {
    /// As much, drawn anew from the same for a bootstrap.
    pub(crate) fn drawn(&self, random: &mut Rng) -> Self {
        Self {
            times_us: drawn(&self.times_us, random),
            rates_per_s: drawn(&self.rates_per_s, random),
            windows_percent: drawn(&self.windows_percent, random),
            first_token_us: drawn(&self.first_token_us, random),
            per_token_us: drawn(&self.per_token_us, random),
            turns: drawn(&self.turns, random),
            cores: drawn(&self.cores, random),
            native_cores: drawn(&self.native_cores, random),
            more: self.more.clone(),
            digest: self.digest.clone(),
        }
    }

    /// Adds the times of a turn without XSched and with it, in one unit. Times of 0 are no turn.
    pub(crate) fn push_turn(&mut self, native: f64, here: f64) {
        if native > 0.0 && here > 0.0 {
            self.turns.push((native, here));
        }
    }
}

/// A role in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Name of the role, as `high` or `background`.
    pub(crate) name: String,
    /// The model or job, as `bert-base`.
    pub(crate) work: String,
    /// Load of the role, for people.
    pub(crate) load: String,
    /// With nothing beside it.
    pub(crate) alone: Option<Progress>,
    /// With the others of the cell.
    pub(crate) beside: Option<Progress>,
}

/// One combination of a row: programs, loads, and how they share the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Name of the cell, one of its kind in the row, as `graph, processes, xsched`.
    pub(crate) name: String,
    /// How the device is shared: `native`, `priorities`, `mps`, `xsched` …
    pub(crate) way: String,
    /// How it ended.
    #[serde(flatten)]
    pub(crate) status: Status,
    /// Launches by what became of them, once its programs have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Counts>,
    /// Roles of the cell, the urgent one first.
    pub(crate) roles: Vec<Role>,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
}

/// Verdict on a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Goal in words, as `P99 of high ≤ 1.30 × alone`.
    pub(crate) goal: String,
    /// Origin of the goal: `plan` or `ours`.
    pub(crate) whose: String,
    /// The value that was measured, for people; empty without one.
    pub(crate) measured: String,
    /// The 95 % interval of the value, by a bootstrap of what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<(f64, f64)>,
    /// Set if the goal is met; `None` where that is open.
    pub(crate) met: Option<bool>,
    /// Why it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<String>,
}

impl Verdict {
    /// The value with its interval, for people.
    pub(crate) fn value(&self) -> String {
        let of = |(least, most)| format!(" ({} to {})", shown(least), shown(most));
        format!("{}{}", self.measured, self.interval.map(of).unwrap_or_default())
    }
}

/// A value with as many digits as count.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        v if v >= 1_000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Measurements of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The row, as in the test plan: `7.2.1`, or a word: `llm`.
    pub(crate) id: String,
    /// Subject of the row.
    pub(crate) name: String,
    /// When it began, in UTC, as in RFC 3339.
    pub(crate) date: String,
    /// `cuda`, `hip` or `host`.
    pub(crate) hal: String,
    /// The device's name.
    pub(crate) hardware: String,
    /// The build and the machine.
    pub(crate) identity: Identity,
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
    /// Figures to compare with the prediction.
    pub(crate) figures: Vec<Figure>,
    /// Goals and what they came to.
    pub(crate) verdicts: Vec<Verdict>,
    /// Sentences for people.
    pub(crate) notes: Vec<String>,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
}

impl Row {
    /// Returns whether its programs are rows of spins on the processor, each in the place of a real
    /// one.
    pub(crate) fn has_stand_ins(&self) -> bool {
        self.hal == Hal::Host.name()
    }

    /// Returns the subject of the row; of stand-ins it says so.
    pub(crate) fn title(&self) -> String {
        self.named(&self.name)
    }

    /// A name of what was run; a stand-in for it is called one.
    pub(crate) fn named(&self, work: &str) -> String {
        let is_real = !self.has_stand_ins();
        if is_real { work.to_owned() } else { format!("{work} (stand-in)") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_computed_from_its_samples() {
        let samples = Samples {
            times_us: vec![2_000, 4_000, 9_000],
            rates_per_s: vec![100.0, 300.0],
            turns: vec![(1.0, 1.5)],
            ..Samples::default()
        };
        let progress = Progress::from(samples);
        assert_eq!((progress.rate_per_s, progress.latency.mean_us), (200.0, 5_000.0));
        let mut text = serde_json::to_value(&progress).unwrap();
        text["latency"]["mean_us"] = 1.0.into();
        text["rate_per_s"] = 1.0.into();
        assert_eq!(serde_json::from_value::<Progress>(text).unwrap(), progress);
    }
}
