//! What all rows together say.

use std::fmt;

use serde::Serialize;
use xsched_sim::scenario::OriginKind;

use super::{Row, Study, Verdict};

/// How many rows there are of each kind, and how many values from sourced parameters are within
/// 15 % of the published ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows with a simulated value.
    pub values: usize,
    /// Of these, those that no parameter was chosen to meet.
    pub predicted: usize,
    /// Of the predicted, those that depend on a parameter which was chosen to meet another value.
    pub calibrated: usize,
    /// Values that a parameter was chosen to meet.
    pub fitted: usize,
    /// Rows that were judged by a goal.
    pub judged: usize,
    /// Of these, those that meet it.
    pub met: usize,
    /// Rows that cannot be simulated yet.
    pub not_available: usize,
    /// Values from sourced parameters alone for which a number is published.
    pub sourced: usize,
    /// Of these, those within 15 % of the paper's number or, where that is another, the artifact's.
    pub near: usize,
    /// The others, each with its distance and the reason.
    pub far: Vec<String>,
}

impl Summary {
    /// Of all rows of these experiments.
    #[must_use]
    pub fn of(studies: &[Study]) -> Self {
        let mut summary = Self::default();
        for study in studies {
            study.rows.iter().for_each(|row| summary.add(study.id, row));
        }
        summary
    }

    fn add(&mut self, id: &str, row: &Row) {
        let verdict = row.verdict();
        self.judged += usize::from(matches!(verdict, Verdict::Pass | Verdict::Fail));
        self.met += usize::from(verdict == Verdict::Pass);
        if verdict == Verdict::NotAvailable {
            self.not_available += 1;
            return;
        }
        self.values += 1;
        self.fitted += usize::from(row.is_target);
        self.predicted += usize::from(!row.is_target);
        let calibrated = !row.is_target && row.parameters() == OriginKind::Fitted;
        self.calibrated += usize::from(calibrated);
        let Some(distance) = row.distance().filter(|_| row.is_sourced()) else { return };
        self.sourced += 1;
        if distance.is_near() {
            self.near += 1;
        } else {
            let reason = if row.reason.is_empty() { "not explained" } else { row.reason };
            self.far.push(format!("{id} {}: {distance}: {reason}", row.what));
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { values, predicted, calibrated, fitted, judged, met, sourced, near, .. } = self;
        writeln!(f, "{judged} rows judged, {met} meet their goal")?;
        writeln!(
            f,
            "{values} values, {fitted} fitted and {predicted} predicted, {calibrated} of these with \
             a parameter fitted to another value"
        )?;
        write!(f, "{sourced} published numbers with sourced parameters, {near} met within 15 %")?;
        self.far.iter().try_for_each(|far| write!(f, "\n  not: {far}"))
    }
}
