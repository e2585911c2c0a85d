//! A line of an experiment: a simulated value beside the published ones, and what it is worth.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::scenario::OriginKind;

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Between these, ends included.
    Between(f64, f64),
}

impl Goal {
    /// Whether the value meets the goal. What is not a number never does.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => least <= value && value <= most,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::Between(least, most) => write!(f, "{least} – {most}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The value meets the goal.
    Pass,
    /// It does not, or there is no value because nothing was completed.
    Fail,
    /// It does not, and neither does preemption that costs nothing: no scheduler could.
    OutOfReach,
    /// There is no goal.
    NoGoal,
    /// The policy or the system is not there yet.
    NotAvailable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::OutOfReach => "out of reach",
            Self::NoGoal => "-",
            Self::NotAvailable => "not available yet",
        })
    }
}

/// A parameter that a value depends on, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The parameter.
    pub parameter: String,
    /// How it was found.
    pub kind: OriginKind,
    /// In words.
    pub note: String,
}

/// A line of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the value is.
    pub what: String,
    /// Its unit; empty for ratios.
    pub unit: &'static str,
    /// What the paper or the test plan says, in words; may be empty.
    pub paper: &'static str,
    /// What the paper's artifact or another measurement says, where it differs; may be empty.
    pub artifact: &'static str,
    /// The simulated value, if there is one.
    pub simulated: Option<f64>,
    /// What it has to be.
    pub goal: Option<Goal>,
    /// The same with preemption that costs nothing, where that was simulated.
    pub ideal: Option<f64>,
    /// The parameters that matter most for the value.
    pub basis: Vec<Basis>,
    /// What is not there yet, if the value could not be simulated.
    pub missing: Option<String>,
}

impl Row {
    pub(super) fn new(what: impl Into<String>, unit: &'static str) -> Self {
        Self {
            what: what.into(),
            unit,
            paper: "",
            artifact: "",
            simulated: None,
            goal: None,
            ideal: None,
            basis: Vec::new(),
            missing: None,
        }
    }

    pub(super) fn published(self, paper: &'static str, artifact: &'static str) -> Self {
        Self { paper, artifact, ..self }
    }

    /// A value, or what is missing for it.
    pub(super) fn value(self, value: Result<f64, String>) -> Self {
        match value {
            Ok(value) => Self { simulated: Some(value), ..self },
            Err(missing) => Self { missing: Some(missing), ..self },
        }
    }

    pub(super) fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    pub(super) fn ideal(self, ideal: f64) -> Self {
        Self { ideal: Some(ideal), ..self }
    }

    pub(super) fn basis(self, basis: &[&[Basis]]) -> Self {
        Self { basis: basis.concat(), ..self }
    }

    /// How it ended.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.simulated, self.goal) {
            (None, _) => Verdict::NotAvailable,
            (Some(value), None) if value.is_finite() => Verdict::NoGoal,
            (Some(value), Some(goal)) if goal.is_met(value) => Verdict::Pass,
            (Some(_), Some(goal)) if self.ideal.is_some_and(|ideal| !goal.is_met(ideal)) => {
                Verdict::OutOfReach
            }
            _ => Verdict::Fail,
        }
    }

    /// The least certain kind of parameter that the value depends on.
    #[must_use]
    pub fn parameters(&self) -> OriginKind {
        self.basis.iter().map(|basis| basis.kind).max().unwrap_or(OriginKind::Sourced)
    }

    /// `fitted` if the value depends on a fitted parameter, `predicted` otherwise.
    #[must_use]
    pub fn standing(&self) -> &'static str {
        if self.parameters() == OriginKind::Fitted { "fitted" } else { "predicted" }
    }

    /// The simulated value in words.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.simulated {
            None => "-".to_owned(),
            Some(value) => {
                let decimals = match value.abs() {
                    v if v >= 1000.0 => 0,
                    v if v >= 100.0 => 1,
                    v if v >= 10.0 => 2,
                    _ => 3,
                };
                let space = if self.unit.is_empty() { "" } else { " " };
                format!("{value:.decimals$}{space}{}", self.unit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(kind: OriginKind) -> Basis {
        Basis { parameter: "p".to_owned(), kind, note: "n".to_owned() }
    }

    #[test]
    fn verdicts() {
        let row = |value| Row::new("r", "ms").value(value);
        assert_eq!(row(Ok(1.0)).verdict(), Verdict::NoGoal);
        assert_eq!(row(Ok(1.0)).goal(Goal::AtMost(1.0)).verdict(), Verdict::Pass);
        assert_eq!(row(Ok(1.1)).goal(Goal::AtMost(1.0)).verdict(), Verdict::Fail);
        assert_eq!(row(Ok(f64::NAN)).goal(Goal::AtLeast(0.0)).verdict(), Verdict::Fail);
        assert_eq!(row(Ok(f64::NAN)).verdict(), Verdict::Fail);
        assert_eq!(row(Ok(2.0)).goal(Goal::Between(1.0, 2.0)).verdict(), Verdict::Pass);
        let missing = row(Err("policy x".to_owned())).goal(Goal::AtMost(1.0));
        assert_eq!(missing.verdict(), Verdict::NotAvailable);
        let row = row(Ok(1.1)).goal(Goal::AtMost(1.0));
        assert_eq!(row.clone().ideal(1.05).verdict(), Verdict::OutOfReach);
        assert_eq!(row.ideal(0.9).verdict(), Verdict::Fail);
    }

    #[test]
    fn one_fitted_parameter_makes_a_row_fitted() {
        let sourced = [basis(OriginKind::Sourced), basis(OriginKind::Assumed)];
        let row = Row::new("r", "").basis(&[&sourced]);
        assert_eq!((row.parameters(), row.standing()), (OriginKind::Assumed, "predicted"));
        let row = row.basis(&[&sourced, &[basis(OriginKind::Fitted)]]);
        assert_eq!(row.standing(), "fitted");
    }
}
