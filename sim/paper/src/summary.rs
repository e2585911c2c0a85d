//! Summary of all rows.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{Label, Row, Study, Verdict};

/// How many rows there are of each label, and which miss a goal, are undecided, or deviate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows with a simulated value.
    pub values: usize,
    /// Rows that were judged by a goal.
    pub judged: usize,
    /// Of these, those that meet it.
    pub met: usize,
    /// Rows that cannot be simulated yet.
    pub not_available: usize,
    /// Counts of the rows apart, by their worth as evidence.
    pub labels: BTreeMap<Label, Count>,
    /// The rows that miss their goal.
    pub missed: Vec<String>,
    /// The rows for which it depends on an assumption whether they meet their goal.
    pub undecided: Vec<String>,
    /// Values without a goal that are more than 15 % off what is published, each with its distance
    /// and what is known about why.
    pub deviations: Vec<String>,
}

/// The rows of a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Rows with a simulated value.
    pub values: usize,
    /// Rows that were judged by a goal.
    pub judged: usize,
    /// Of these, those that meet it.
    pub met: usize,
    /// Rows beside a published or measured number.
    pub numbers: usize,
    /// Of these, those within 15 % of it.
    pub near: usize,
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

    /// The rows of this label.
    #[must_use]
    pub fn count(&self, label: Label) -> Count {
        self.labels.get(&label).copied().unwrap_or_default()
    }

    fn add(&mut self, id: &str, row: &Row) {
        let verdict = row.verdict();
        if verdict == Verdict::NotAvailable {
            self.not_available += 1;
            return;
        }
        let judged = usize::from(matches!(verdict, Verdict::Pass | Verdict::Fail));
        let met = usize::from(verdict == Verdict::Pass);
        self.values += 1;
        self.judged += judged;
        self.met += met;
        let count = self.labels.entry(row.label()).or_default();
        count.values += 1;
        count.judged += judged;
        count.met += met;
        let distance = row.distance();
        count.numbers += usize::from(distance.is_some());
        count.near += usize::from(distance.is_some_and(|distance| distance.is_near()));
        self.list(id, row);
    }

    /// Adds a row that did not pass to the list of its verdict.
    fn list(&mut self, id: &str, row: &Row) {
        let line = |words: &str| format!("{id} {}: {words}", row.what);
        let goal = row.goal.map(|goal| goal.to_string()).unwrap_or_default();
        match row.verdict() {
            Verdict::Fail => self.missed.push(line(&format!("{}, not {goal}", row.shown()))),
            Verdict::Undecided => {
                let words = format!("{}, {goal} wanted: {}", row.shown(), row.judgement());
                self.undecided.push(line(&words));
            }
            Verdict::Deviates => {
                let distance = row.distance().map(|distance| distance.to_string());
                let distance = distance.unwrap_or_default();
                self.deviations.push(line(&format!("{distance}: {}", row.known())));
            }
            _ => {}
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} values; of {} judged {} meet their goal",
            self.values, self.judged, self.met
        )?;
        for label in Label::ALL {
            let Count { values, judged, met, numbers, near } = self.count(label);
            write!(
                f,
                "\n  {label:8} {values:3} values, {met} of {judged} meet their goal, {near} of \
                 {numbers} numbers within 15 %"
            )?;
        }
        let lists = [
            ("missed", &self.missed),
            ("undecided", &self.undecided),
            ("deviates", &self.deviations),
        ];
        for (word, list) in lists {
            list.iter().try_for_each(|line| write!(f, "\n  {word}: {line}"))?;
        }
        Ok(())
    }
}
