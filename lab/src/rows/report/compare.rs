//! Predictions beside what was measured.

use super::super::document::{Key, Prediction, Row};
use crate::stats;

/// Prefix of the quantities of lone programs. A prediction of these is near to what the
/// programs said when they were ready, so that it proves little.
const ALONE: &str = "alone_";

/// A predicted value and the measured one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    /// The row.
    pub(super) id: String,
    /// Cell, role and quantity of both values.
    pub(super) key: Key,
    /// By the simulator.
    pub(super) predicted: f64,
    /// On the device.
    pub(super) measured: f64,
}

impl Pair {
    /// How far apart they are, over the measured one; 1 if that is 0 and the other is not.
    pub(super) fn error(&self) -> f64 {
        if self.measured == 0.0 {
            return if self.predicted == 0.0 { 0.0 } else { 1.0 };
        }
        (self.predicted - self.measured).abs() / self.measured.abs()
    }

    /// Returns whether it counts as a prediction.
    pub(super) fn counts(&self) -> bool {
        !self.key.quantity.starts_with(ALONE)
    }

    /// The name for people.
    pub(super) fn name(&self) -> String {
        format!("{}: {}, {}", self.key.cell, self.key.role, self.key.quantity)
    }
}

/// Returns what is both predicted and measured, in the order of the measurement.
pub(super) fn pairs(prediction: &Prediction, row: &Row) -> Vec<Pair> {
    let pair = |measured: &super::super::document::Figure| {
        let predicted = prediction.figures.iter().find(|figure| figure.key == measured.key)?;
        Some(Pair {
            id: row.id.clone(),
            key: measured.key.clone(),
            predicted: predicted.value,
            measured: measured.value,
        })
    };
    let pairs = row.figures.iter().filter_map(pair);
    pairs.filter(|pair| pair.predicted.is_finite() && pair.measured.is_finite()).collect()
}

/// The middle error.
pub(super) fn median<'a>(pairs: impl IntoIterator<Item = &'a Pair>) -> Option<f64> {
    stats::median(pairs.into_iter().map(Pair::error).collect())
}

/// The pairs that are furthest apart, the furthest first, at most `most`.
pub(super) fn worst<'a>(pairs: impl IntoIterator<Item = &'a Pair>, most: usize) -> Vec<&'a Pair> {
    let mut pairs: Vec<&Pair> = pairs.into_iter().collect();
    pairs.sort_by(|a, b| b.error().total_cmp(&a.error()));
    pairs.truncate(most);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(quantity: &str, predicted: f64, measured: f64) -> Pair {
        let key = Key { cell: "c".into(), role: "r".into(), quantity: quantity.into() };
        Pair { id: "1".into(), key, predicted, measured }
    }

    #[test]
    fn errors_are_over_what_was_measured() {
        assert!((pair("kept", 0.9, 1.0).error() - 0.1).abs() < 1e-12);
        assert_eq!(pair("kept", 0.0, 0.0).error(), 0.0);
        assert_eq!(pair("kept", 0.1, 0.0).error(), 1.0);
    }

    #[test]
    fn the_median_and_the_worst_are_of_what_is_given() {
        let pairs = [1.5, 1.1, 1.2].map(|predicted| pair("kept", predicted, 1.0));
        assert!((median(&pairs).unwrap() - 0.2).abs() < 1e-9);
        assert!((median(&pairs[..2]).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(median(&pairs[..0]), None);
        let worst: Vec<f64> = worst(&pairs, 2).iter().map(|pair| pair.predicted).collect();
        assert_eq!(worst, [1.5, 1.2]);
    }

    #[test]
    fn what_is_alone_does_not_count() {
        assert!(!pair("alone_p99_ms", 1.0, 1.0).counts());
        assert!(pair("p99_over_alone", 1.0, 1.0).counts());
    }
}
