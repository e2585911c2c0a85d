//! Predictions of the simulator for a bench on a device, beside what was measured.
//!
//! The device is described by a file whose figures come from measurements with one queue alone
//! (`xsched-lab bench calibrate`), so that nothing is fitted to what is predicted.

mod cells;
pub(crate) mod measured;
mod preempt;
mod scenario;

use std::path::Path;

use serde::Serialize;
use xsched_sim::scenario::{DeviceFile, DeviceSpec};

use crate::error::CommandError;
use crate::stats::median;
use xsched_console::table::{number, percent, table};

pub(crate) use cells::{fixed_priority, partition};
pub(crate) use preempt::preempt;

/// Devices whose description is part of the program: what their names contain, the file's name and
/// what it says.
const KNOWN: [(&str, &str, &str); 1] = [(
    "H200",
    "sim/devices/h200-streams.toml",
    include_str!("../../../sim/devices/h200-streams.toml"),
)];

/// A measured figure and the predicted one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Pair {
    /// On the device.
    pub(crate) measured: f64,
    /// In the simulator.
    pub(crate) predicted: f64,
    /// How far apart they are, over the measured one.
    pub(crate) error: f64,
}

/// One combination of a bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// Parts of the name.
    pub(crate) name: Vec<String>,
    /// Figures, in the order of [`Prediction::figures`].
    pub(crate) pairs: Vec<Option<Pair>>,
    /// Set if the cell is predicted, and not what the description of the device comes from.
    pub(crate) counts: bool,
}

/// All combinations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Prediction {
    /// The simulated device.
    pub(crate) device: String,
    /// Heads of the parts of the cells' names.
    pub(crate) header: Vec<&'static str>,
    /// Names of the figures that are compared.
    pub(crate) figures: Vec<&'static str>,
    /// Set for the figures that the median error is of.
    counted: Vec<bool>,
    /// Each combination.
    pub(crate) cells: Vec<Cell>,
    /// The median over all cells and the figures that count; `None` if there are none.
    pub(crate) median_error: Option<f64>,
    /// The largest.
    pub(crate) largest_error: Option<f64>,
}

impl Pair {
    fn of(measured: f64, predicted: f64) -> Self {
        let error = (predicted - measured).abs() / measured.abs().max(f64::MIN_POSITIVE);
        Self { measured, predicted, error }
    }
}

impl Cell {
    fn row(&self) -> Vec<String> {
        let value = |value: Option<f64>| {
            let decimals = if value.is_some_and(|value| value < 1_000.0) { 2 } else { 0 };
            number(value, decimals)
        };
        let mut row = self.name.clone();
        for pair in &self.pairs {
            row.push(value(pair.map(|pair| pair.measured)));
            row.push(value(pair.map(|pair| pair.predicted)));
            row.push(percent(pair.map(|pair| pair.error)));
        }
        row
    }
}

impl Prediction {
    fn new(
        device: &DeviceSpec,
        header: &[&'static str],
        figures: &[(&'static str, bool)],
        cells: Vec<Cell>,
    ) -> Self {
        let counted: Vec<bool> = figures.iter().map(|(_, counts)| *counts).collect();
        let cells_that_count = cells.iter().filter(|cell| cell.counts);
        let pairs = cells_that_count.flat_map(|cell| cell.pairs.iter().zip(&counted));
        let errors = pairs.filter(|(_, counts)| **counts).filter_map(|(pair, _)| *pair);
        let errors: Vec<f64> = errors.map(|pair| pair.error).collect();
        let largest_error = errors.iter().copied().reduce(f64::max);
        Self {
            device: device.name.clone(),
            header: header.to_vec(),
            figures: figures.iter().map(|(name, _)| *name).collect(),
            counted,
            cells,
            median_error: median(errors),
            largest_error,
        }
    }

    /// As a table, with the median error below.
    pub(crate) fn report(&self) -> String {
        let mut header: Vec<String> = self.header.iter().map(ToString::to_string).collect();
        for figure in &self.figures {
            header.extend([format!("{figure} measured"), "predicted".into(), "error".into()]);
        }
        let rows = self.cells.iter().map(Cell::row);
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let title = format!("predicted by the simulator, for the device {}", self.device);
        let mut text = table(&title, &header, rows);
        let pairs = self.figures.iter().zip(&self.counted);
        let names: Vec<_> = pairs.filter(|(_, counts)| **counts).map(|(name, _)| *name).collect();
        if self.median_error.is_some() {
            text += &format!(
                "prediction of {}: the median error is {}, the largest {}\n",
                names.join(" and "),
                percent(self.median_error),
                percent(self.largest_error)
            );
        } else {
            text += "prediction: nothing to compare; a P99 needs 1000 runs\n";
        }
        text
    }
}

/// The device file that was asked for, read before anything is run.
pub(crate) fn file_of(path: Option<&Path>) -> Result<Option<DeviceSpec>, CommandError> {
    let load = |path: &Path| DeviceFile::load(path).map(|file| file.spec);
    Ok(path.map(load).transpose()?)
}

/// The description of a device: the given one, or the one that is part of the program.
pub(crate) fn device_for(
    given: Option<DeviceSpec>,
    name: &str,
) -> Result<DeviceSpec, CommandError> {
    if let Some(spec) = given {
        return Ok(spec);
    }
    let known = KNOWN.iter().find(|(part, ..)| name.contains(part));
    let (_, file, text) =
        known.ok_or_else(|| CommandError::NoDeviceFile { name: name.to_owned() })?;
    Ok(DeviceFile::parse(text.as_bytes(), Path::new(file))?.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptions_that_are_part_of_the_program_are_sound() {
        for (part, file, _) in KNOWN {
            let spec = device_for(None, part).unwrap();
            assert!(!spec.wake_ns.is_empty(), "{file}");
        }
        let error = device_for(None, "toaster").unwrap_err();
        assert!(error.to_string().contains("--device-file"), "{error}");
    }
}
