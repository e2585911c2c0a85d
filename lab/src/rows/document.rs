//! What `xsched-lab` writes of a row: the prediction, before the run, and what was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::Hal;
use super::quantities::{CORES, NATIVE_CORES, OF_TURNS};
use crate::stats::{Quantiles, median};

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub(crate) fn set_beside(&mut self, native: &Self, turns: &Turns) {
        self.more.extend(turns.more());
        let cores = native.more.get(CORES).map(|cores| (NATIVE_CORES.to_owned(), *cores));
        self.more.extend(cores);
    }
}

/// Times of the same work without XSched and with it, by turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turns(Vec<(f64, f64)>);

impl Turns {
    /// A turn took so long without XSched and with it, in one unit. Times of 0 are no turn.
    pub(crate) fn push(&mut self, native: f64, here: f64) {
        if native > 0.0 && here > 0.0 {
            self.0.push((native, here));
        }
    }

    /// The median of the ratios with the smallest and the largest one, and the longest time without
    /// XSched over the shortest: so much varies by itself. Nothing without a turn.
    pub(crate) fn more(&self) -> Vec<(String, f64)> {
        let ratios = || self.0.iter().map(|(native, here)| here / native);
        let native = || self.0.iter().map(|(native, _)| *native);
        let Some(median) = median(ratios().collect()) else { return Vec::new() };
        let least = |all: &mut dyn Iterator<Item = f64>| all.fold(f64::INFINITY, f64::min);
        let most = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::max);
        let spread = most(&mut native()) / least(&mut native());
        let all = [median, least(&mut ratios()), most(&mut ratios()), spread];
        OF_TURNS.iter().map(|name| (*name).to_owned()).zip(all).collect()
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
    /// The value that was measured, for people; empty without one.
    pub(crate) measured: String,
    /// Whether it is met; `None` where that is open.
    pub(crate) met: Option<bool>,
    /// Why it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<String>,
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

impl Row {
    /// Whether its programs are rows of spins on the processor, each in the place of a real one.
    pub(crate) fn has_stand_ins(&self) -> bool {
        self.hal == Hal::Host.name()
    }

    /// What it is about; of stand-ins it says so.
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
    fn turns_come_to_the_median_ratio_its_range_and_what_varies_by_itself() {
        let mut turns = Turns::default();
        assert_eq!(turns.more(), []);
        for (native, here) in [(10.0, 11.0), (20.0, 21.0), (10.0, 13.0), (0.0, 5.0), (10.0, 10.0)] {
            turns.push(native, here);
        }
        let all = turns.more();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, OF_TURNS);
        let wanted = [1.075, 1.0, 1.3, 2.0];
        assert!(
            all.iter().zip(wanted).all(|((_, is), wanted)| (is - wanted).abs() < 1e-9),
            "{all:?}"
        );
    }
}
