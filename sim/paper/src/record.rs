//! The record of an experiment, in the form of the test plan.

use serde::Serialize;

use super::row::Otherwise;
use super::{Distance, Label, Row, Study, Summary, Verdict};

/// The record of an experiment; `docs/src/results/simulated.md` describes its JSON form.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    test_id: &'static str,
    test_name: &'static str,
    date: String,
    hardware: String,
    rocm_version: &'static str,
    xsched_version: &'static str,
    results: Results,
    /// `None` if nothing could be judged.
    pass: Option<bool>,
    notes: String,
}

#[derive(Clone, Debug, Serialize)]
struct Results {
    rows: Vec<Line>,
    summary: Summary,
    observations: u64,
    violations: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    what: String,
    unit: &'static str,
    paper: &'static str,
    artifact: &'static str,
    simulated: Option<f64>,
    goal: Option<String>,
    ideal: Option<f64>,
    verdict: Verdict,
    distance: Option<Distance>,
    label: Label,
    otherwise: Vec<Otherwise>,
    sway: Option<f64>,
    parameters: Vec<String>,
    reason: &'static str,
    missing: Option<String>,
}

impl Record {
    /// The record of an experiment.
    #[must_use]
    pub fn of(study: &Study) -> Self {
        let judged = |row: &Row| matches!(row.verdict(), Verdict::Pass | Verdict::Fail);
        let any = study.violations > 0 || study.rows.iter().any(judged);
        Self {
            test_id: study.id,
            test_name: study.name,
            date: study.date.clone(),
            hardware: format!("simulated: {}", study.hardware),
            rocm_version: "simulated",
            xsched_version: env!("CARGO_PKG_VERSION"),
            results: Results {
                rows: study.rows.iter().map(line).collect(),
                summary: Summary::of(std::slice::from_ref(study)),
                observations: study.observed,
                violations: study.violations,
            },
            pass: any.then(|| !study.failed()),
            notes: study.notes.join(" "),
        }
    }
}

fn line(row: &Row) -> Line {
    let parameters = row.basis.iter();
    Line {
        what: row.what.clone(),
        unit: row.unit,
        paper: row.paper,
        artifact: row.artifact,
        simulated: row.simulated,
        goal: row.goal.map(|goal| goal.to_string()),
        ideal: row.ideal,
        verdict: row.verdict(),
        distance: row.distance(),
        label: row.label(),
        otherwise: row.otherwise.clone(),
        sway: row.sway,
        parameters: parameters
            .map(|b| format!("{}: {}: {}", b.parameter, b.kind, b.note))
            .collect(),
        reason: row.reason,
        missing: row.missing.clone(),
    }
}
