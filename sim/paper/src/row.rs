//! A line of an experiment: a simulated value beside the published ones, and what it is worth.

use std::fmt;

use serde::Serialize;
use xsched_sim::scenario::OriginKind;
use xsched_sim::stats::Goal;

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The value meets the goal.
    Pass,
    /// The value misses the goal, or there is none because nothing was completed.
    Fail,
    /// The value misses the goal, and so does preemption that costs nothing: no scheduler could.
    OutOfReach,
    /// Unknown parameters decide whether the value meets the goal.
    Undecided,
    /// No goal is set, and the value is not near the published one.
    Deviates,
    /// No goal is set, and there is no published value or a near one.
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
            Self::Undecided => "undecided",
            Self::Deviates => "DEVIATES",
            Self::NoGoal => "-",
            Self::NotAvailable => "not available yet",
        })
    }
}

/// Worth of a row as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The row follows from what was measured or documented independently, and is compared with the
    /// paper or its artifact.
    Sourced,
    /// The row depends on a parameter that was chosen to meet a published value.
    Fitted,
    /// The row depends on a parameter that was never measured on this device.
    Assumed,
    /// The row follows from sourced parameters, and what it is compared with is a goal of the test
    /// plan or a measurement of this project.
    OwnPlan,
}

impl Label {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Sourced, Self::Fitted, Self::Assumed, Self::OwnPlan];
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sourced => "sourced",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
            Self::OwnPlan => "own plan",
        })
    }
}

/// How published figures of the test plan and of this project end.
const OWN: [&str; 2] = ["(plan)", "(measured)"];

/// The value under another assumption.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Otherwise {
    /// Assumption in words.
    pub when: String,
    /// The value then.
    pub value: f64,
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

/// Parameters of a device that are times and nothing else.
const COSTS: [&str; 10] = [
    "launch_latency",
    "host_launch",
    "host_sync",
    "detect",
    "fence",
    "gate",
    "gate_close",
    "save_fixed",
    "restore_fixed",
    "save_context",
];

/// A value within this of a published one is near it.
const NEAR: f64 = 0.15;
/// Largest change, on doubling the assumed costs, of a value that does not depend on them.
const SWAY: f64 = 0.05;

impl Basis {
    /// Returns whether it is a cost of a device that was never measured.
    #[must_use]
    pub fn is_assumed_cost(&self) -> bool {
        let key = self.parameter.rsplit('.').next().unwrap_or_default();
        self.kind == OriginKind::Assumed && COSTS.contains(&key)
    }
}

/// How far a value is from the published ones, as a part of them and 0 within a range; `None` where
/// nothing is published as a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// From the paper's or the plan's.
    pub paper: Option<f64>,
    /// From the artifact's or a measured one.
    pub artifact: Option<f64>,
}

impl Distance {
    /// Returns whether it is within 15 % of one of them.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.paper.iter().chain(&self.artifact).any(|off| off.abs() <= NEAR)
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (what, off) in [("paper", self.paper), ("artifact", self.artifact)] {
            if let Some(off) = off {
                // The sum makes a rounded -0 a 0.
                write!(f, "{between}{what} {:+.0} %", (100.0 * off).round() + 0.0)?;
                between = ", ";
            }
        }
        Ok(())
    }
}

/// The number or range that a published figure begins with; none where it only bounds it.
fn published_range(text: &str) -> Option<(f64, f64)> {
    let text = text.strip_prefix("about ").unwrap_or(text);
    let mut words = text.split_whitespace();
    let low: f64 = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let high = match rest.as_slice() {
        ["–", high, ..] => high.parse().ok()?,
        _ => low,
    };
    Some((low, high))
}

/// How far outside the range the value is.
fn distance(value: f64, text: &str) -> Option<f64> {
    let (low, high) = published_range(text)?;
    let end = value.clamp(low, high);
    (end != 0.0).then(|| value / end - 1.0)
}

/// A line of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Quantity that the value is of.
    pub what: String,
    /// Unit of the value; empty for ratios.
    pub unit: &'static str,
    /// Value in the paper or the test plan, in words; may be empty.
    pub paper: &'static str,
    /// Value in the paper's artifact or another measurement, where it differs; may be empty.
    pub artifact: &'static str,
    /// The simulated value, if there is one.
    pub simulated: Option<f64>,
    /// Bound that the value has to keep.
    pub goal: Option<Goal>,
    /// The simulated value with preemption that costs nothing, where that was simulated.
    pub ideal: Option<f64>,
    /// The value under other assumptions that are as likely.
    pub otherwise: Vec<Otherwise>,
    /// The parameters that matter most for the value.
    pub basis: Vec<Basis>,
    /// True if a parameter was chosen to meet this row's published value.
    pub is_target: bool,
    /// By which part the value changes when all costs that are assumed double, where that was
    /// simulated.
    pub sway: Option<f64>,
    /// Why the value is not near the published one, where that is known.
    pub reason: &'static str,
    /// Missing part, if the value could not be simulated.
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
            otherwise: Vec::new(),
            basis: Vec::new(),
            is_target: false,
            sway: None,
            reason: "",
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

    /// A parameter was chosen to meet the published value.
    pub(super) fn target(self) -> Self {
        Self { is_target: true, ..self }
    }

    pub(super) fn reason(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    pub(super) fn ideal(self, ideal: f64) -> Self {
        Self { ideal: Some(ideal), ..self }
    }

    /// The value, if there is one, with something else assumed.
    pub(super) fn otherwise(mut self, when: &str, value: &Result<f64, String>) -> Self {
        let value = value.as_ref().ok();
        self.otherwise
            .extend(value.map(|value| Otherwise { when: when.to_owned(), value: *value }));
        self
    }

    pub(super) fn basis(self, basis: &[&[Basis]]) -> Self {
        Self { basis: basis.concat(), ..self }
    }

    /// How it ended.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.simulated, self.goal) {
            (None, _) => Verdict::NotAvailable,
            (Some(value), None) if value.is_finite() => self.without_goal(),
            (Some(value), Some(goal)) if self.depends(goal, value) => Verdict::Undecided,
            (Some(value), Some(goal)) if goal.is_met(value) => Verdict::Pass,
            (Some(_), Some(goal)) if self.ideal.is_some_and(|ideal| !goal.is_met(ideal)) => {
                Verdict::OutOfReach
            }
            _ => Verdict::Fail,
        }
    }

    /// Returns whether the goal is met under one assumption and missed under another.
    fn depends(&self, goal: Goal, value: f64) -> bool {
        let met = goal.is_met(value);
        self.otherwise.iter().any(|other| goal.is_met(other.value) != met)
    }

    fn without_goal(&self) -> Verdict {
        let far = self.distance().is_some_and(|distance| !distance.is_near());
        if far { Verdict::Deviates } else { Verdict::NoGoal }
    }

    /// Returns the worth of the row as evidence.
    #[must_use]
    pub fn label(&self) -> Label {
        match self.parameters() {
            _ if self.is_target => Label::Fitted,
            OriginKind::Fitted => Label::Fitted,
            OriginKind::Assumed => Label::Assumed,
            OriginKind::Sourced if self.basis.is_empty() => Label::Assumed,
            OriginKind::Sourced if self.is_own() => Label::OwnPlan,
            OriginKind::Sourced => Label::Sourced,
        }
    }

    /// Returns whether nothing that others published is compared with it.
    fn is_own(&self) -> bool {
        let own = |text: &str| text.is_empty() || OWN.iter().any(|end| text.ends_with(end));
        own(self.paper) && own(self.artifact)
    }

    /// The least certain kind of parameter that the value depends on. It does not depend on assumed
    /// costs if doubling all of them changes it by less than 5 %.
    #[must_use]
    pub fn parameters(&self) -> OriginKind {
        let steady = self.sway.is_some_and(|sway| sway.abs() < SWAY);
        let counts = |basis: &&Basis| !(steady && basis.is_assumed_cost());
        let kinds = self.basis.iter().filter(counts).map(|basis| basis.kind);
        kinds.max().unwrap_or(OriginKind::Sourced)
    }

    /// Returns whether doubling the assumed costs could show that only sourced parameters matter.
    pub(super) fn may_be_steady(&self) -> bool {
        let known = |b: &Basis| b.kind == OriginKind::Sourced || b.is_assumed_cost();
        self.simulated.is_some() && self.basis.iter().all(known)
    }

    /// How far the value is from the published ones, if there are any as numbers.
    #[must_use]
    pub fn distance(&self) -> Option<Distance> {
        let value = self.simulated.filter(|value| value.is_finite())?;
        let found = Distance {
            paper: distance(value, self.paper),
            artifact: distance(value, self.artifact),
        };
        (found.paper.is_some() || found.artifact.is_some()).then_some(found)
    }

    /// The verdict in words, with what else it depends on.
    #[must_use]
    pub fn judgement(&self) -> String {
        let verdict = self.verdict();
        let mut text = verdict.to_string();
        match verdict {
            Verdict::NotAvailable => {
                text.extend(self.missing.iter().map(|what| format!(": {what}")));
            }
            Verdict::OutOfReach => {
                text.extend(self.ideal.map(|ideal| format!(" (free preemption: {ideal:.3})")));
            }
            Verdict::Deviates => text = format!("{text}: {}", self.known()),
            _ => {}
        }
        for Otherwise { when, value } in &self.otherwise {
            text += &format!("; {} {when}", shown(*value, self.unit));
        }
        text
    }

    /// Returns what is known about why the value is not near the published one.
    #[must_use]
    pub const fn known(&self) -> &'static str {
        if self.reason.is_empty() { "not explained" } else { self.reason }
    }

    /// The simulated value in words.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.simulated {
            None => "-".to_owned(),
            Some(value) => shown(value, self.unit),
        }
    }
}

/// A value with its unit.
fn shown(value: f64, unit: &str) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let space = if unit.is_empty() { "" } else { " " };
    format!("{value:.decimals$}{space}{unit}")
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
    fn a_goal_that_another_assumption_turns_is_undecided() {
        let row = |other| {
            let row = Row::new("r", "µs").value(Ok(62.0)).goal(Goal::AtMost(100.0));
            row.otherwise("with a call of 10 µs", &Ok(20.0)).otherwise("with 5 ms", &Ok(other))
        };
        assert_eq!(row(90.0).verdict(), Verdict::Pass);
        assert_eq!(row(5_001.0).verdict(), Verdict::Undecided);
        let words = row(5_001.0).judgement();
        assert_eq!(words, "undecided; 20.00 µs with a call of 10 µs; 5001 µs with 5 ms");
    }

    #[test]
    fn without_a_goal_a_value_that_is_far_from_the_published_one_deviates() {
        let row = |value| Row::new("r", "").published("0.30", "0.296").value(Ok(value));
        assert_eq!(row(0.33).verdict(), Verdict::NoGoal);
        assert_eq!(row(0.965).verdict(), Verdict::Deviates);
        assert_eq!(row(0.965).judgement(), "DEVIATES: not explained");
        assert_eq!(row(0.965).reason("a cause").judgement(), "DEVIATES: a cause");
        assert_eq!(Row::new("r", "").value(Ok(0.9)).verdict(), Verdict::NoGoal);
        assert_eq!(row(0.965).goal(Goal::AtLeast(0.9)).verdict(), Verdict::Pass);
    }

    #[test]
    fn distances_are_from_numbers_and_ranges_only() {
        let off = |value, paper, artifact| {
            let row = Row::new("r", "").published(paper, artifact).value(Ok(value));
            row.distance()
        };
        let (near, far) = (off(1.0, "0.9 – 1.2", ""), off(2.0, "about 1 (0.5 – 0.8 ms)", "1.6"));
        assert_eq!(near, Some(Distance { paper: Some(0.0), artifact: None }));
        assert_eq!(far.unwrap().to_string(), "paper +100 %, artifact +25 %");
        assert!(near.unwrap().is_near() && !far.unwrap().is_near());
        assert_eq!(off(0.8, "0.9 – 1.2", "2").unwrap().paper.map(|v| v < 0.0), Some(true));
        for words in ["", "below 1", "up to 2.11", "falls"] {
            assert_eq!(off(1.0, words, ""), None, "{words}");
        }
        assert!(off(1.0, "20.2 (measured)", "").is_some());
    }

    #[test]
    fn assumed_costs_count_unless_they_hardly_matter() {
        let cost = Basis { parameter: "gv100.detect".to_owned(), ..basis(OriginKind::Assumed) };
        let row = Row::new("r", "").basis(&[&[cost, basis(OriginKind::Sourced)]]).value(Ok(1.0));
        assert!(row.may_be_steady());
        let with = |sway| Row { sway, ..row.clone() }.parameters();
        assert_eq!(with(None), OriginKind::Assumed);
        assert_eq!(with(Some(-0.2)), OriginKind::Assumed);
        assert_eq!(with(Some(-0.02)), OriginKind::Sourced);
        let other = Row { sway: Some(0.0), ..row }.basis(&[&[basis(OriginKind::Assumed)]]);
        assert_eq!(other.parameters(), OriginKind::Assumed, "no cost");
        assert!(!other.may_be_steady());
    }

    #[test]
    fn the_label_says_what_a_row_depends_on_and_what_it_is_compared_with() {
        let row = |kind| Row::new("r", "").basis(&[&[basis(OriginKind::Sourced), basis(kind)]]);
        assert_eq!(row(OriginKind::Assumed).label(), Label::Assumed);
        assert_eq!(row(OriginKind::Fitted).label(), Label::Fitted);
        assert_eq!(row(OriginKind::Sourced).target().label(), Label::Fitted);
        let against = |paper, artifact| row(OriginKind::Sourced).published(paper, artifact).label();
        assert_eq!(against("1.5", ""), Label::Sourced);
        assert_eq!(against("", "1.09"), Label::Sourced);
        assert_eq!(against("40 (plan)", "1.2"), Label::Sourced);
        for (paper, artifact) in [("", ""), ("40 (plan)", ""), ("", "1.98 (measured)")] {
            assert_eq!(against(paper, artifact), Label::OwnPlan, "{paper} {artifact}");
        }
        assert_eq!(Row::new("r", "").published("1.5", "").label(), Label::Assumed, "no basis");
    }
}
