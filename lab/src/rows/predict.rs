//! What the simulator says of a row before it is measured.

use std::collections::BTreeMap;

use xsched_sim::scenario::DeviceSpec;

use super::document::{Prediction, VERSION};
use super::plan::{Hal, RowPlan};
use super::protocol::Ready;

/// What is predicted for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// How it is reached.
    pub(crate) hal: Hal,
    /// Its name.
    pub(crate) hardware: String,
    /// Its description, where one was given.
    pub(crate) device: Option<DeviceSpec>,
    /// When this is, in UTC, as in RFC 3339.
    pub(crate) date: String,
}

/// Predicts the cells of the row whose group's programs have said what they need, by the names of
/// the groups; the others are left out until it is asked again.
pub(crate) fn predict(
    row: &RowPlan,
    ready: &BTreeMap<String, Ready>,
    target: &Target,
) -> Prediction {
    let left_out = row.cells.iter().filter(|cell| ready.contains_key(&cell.group));
    Prediction {
        version: VERSION,
        id: row.id.to_owned(),
        date: target.date.clone(),
        device: target.hardware.clone(),
        figures: Vec::new(),
        left_out: left_out.map(|cell| (cell.name.clone(), "no model yet".to_owned())).collect(),
    }
}
