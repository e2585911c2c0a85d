//! The experiments of the XSched paper (OSDI'25, sections 7 and 8) and of the BERT test plan, in
//! the simulator: each runs its scenarios, sets what came out beside the published figures and
//! judges it.
//!
//! Nothing published enters a simulated value except through a parameter that says it was fitted,
//! and a [`Row`] that depends on such a parameter is called fitted. `docs/src/results/simulated.md`
//! describes the experiments and the files.

mod bert;
mod files;
mod harvest;
mod html;
mod lab;
pub mod lv3;
mod overhead;
mod preempt;
mod priority;
mod rates;
mod record;
mod row;
mod serve;
mod summary;
mod video;

use std::sync::atomic::{AtomicUsize, Ordering};

use lab::Lab;
use thiserror::Error;
use xsched_sim::report::{Chart, SvgError, in_order};
use xsched_sim::run::RunError;
use xsched_sim::scenario::ScenarioError;
use xsched_sim::stats::Goal;

pub use html::page;
pub use record::Record;
pub use row::{Basis, Distance, Label, Otherwise, Row, Verdict};
pub use summary::Summary;

/// Why the experiments cannot be run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaperError {
    /// No such experiment.
    #[error("there is no experiment `{id}`; known are {}", ids().join(", "))]
    UnknownExperiment {
        /// Name that was asked for.
        id: String,
    },
    /// A built-in scenario or device file is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A built-in scenario cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Svg(#[from] SvgError),
}

/// Experiments to run, and how.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// Ids of the experiments; all of them if empty.
    pub only: Vec<String>,
    /// A twentieth of the requests, to see that everything works. Its verdicts mean little.
    pub small: bool,
    /// Threads to use, at least 1.
    pub threads: usize,
    /// The date for the records, such as `2026-11-21`.
    pub date: String,
}

/// An experiment that has been run.
#[derive(Clone, Debug)]
pub struct Study {
    /// Number of the experiment in the test plan.
    pub id: &'static str,
    /// Subject of the experiment.
    pub name: &'static str,
    /// The simulated devices.
    pub hardware: &'static str,
    /// Results, line by line.
    pub rows: Vec<Row>,
    /// Notes for reading the rows.
    pub notes: Vec<String>,
    /// Figures: a file name without folder, and the picture as SVG.
    pub figures: Vec<(String, String)>,
    /// Observations of the invariant checkers.
    pub observed: u64,
    /// Violations that they found.
    pub violations: u64,
    /// Date of the run.
    pub date: String,
}

impl Study {
    /// Returns whether something missed its goal or an invariant was violated.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.violations > 0 || self.rows.iter().any(|row| row.verdict() == Verdict::Fail)
    }
}

/// Results that an experiment hands back.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    rows: Vec<Row>,
    charts: Vec<Chart>,
    notes: Vec<String>,
}

type Result<T> = std::result::Result<T, PaperError>;

/// One experiment.
#[derive(Clone, Copy, Debug)]
struct Experiment {
    id: &'static str,
    name: &'static str,
    hardware: &'static str,
    run: fn(&Lab) -> Result<Findings>,
}

const fn experiment(
    id: &'static str,
    name: &'static str,
    hardware: &'static str,
    run: fn(&Lab) -> Result<Findings>,
) -> Experiment {
    Experiment { id, name, hardware, run }
}

const EXPERIMENTS: [Experiment; 16] = [
    experiment("7.2.1", "Fixed priority", "GV100, K40m, MI50, NPU3720, H200", priority::fixed),
    experiment("7.2.2", "Bandwidth partition", "GV100", priority::partition),
    experiment("7.2.3", "Heterogeneous devices", "NPU3720 and GPU", priority::hetero),
    experiment("7.3.1", "Preemption latency of each level", "GV100, MI308X", preempt::levels),
    experiment("7.3.2", "Preemption latency and command length", "GV100", preempt::lengths),
    experiment("7.3.3", "Overhead and threshold", "GV100", overhead::threshold),
    experiment("7.4.1", "Overhead at run time", "GV100, K40m, MI50, NPU3720", overhead::levels),
    experiment("8.1.1", "Harvesting, training", "GV100", harvest::training),
    experiment("8.1.2", "Harvesting, mixed", "GV100", harvest::mixed),
    experiment("8.2.1", "Video conference", "NPU3720", video::conference),
    experiment("8.3.1", "Inference server", "GV100, H200", serve::server),
    experiment("8.3.2", "Against Paella", "GV100", rates::paella),
    experiment("5.1", "BERT, one task", "MI308X", bert::alone),
    experiment("5.2", "BERT, three tasks without priority", "MI308X, H200", bert::three),
    experiment("5.3", "BERT, one after the other", "MI308X", bert::sequence),
    experiment("5.4", "BERT under priority", "MI308X", bert::priorities),
];

/// The ids of all experiments, in order.
#[must_use]
pub fn ids() -> Vec<&'static str> {
    EXPERIMENTS.iter().map(|experiment| experiment.id).collect()
}

/// Runs the experiments, which come back in the order of [`ids`]. `progress` gets the share that is
/// done, 0 to 1, now and then and from any thread.
///
/// # Errors
/// If an id is unknown. Anything else would be a mistake in this module's own files.
pub fn run_paper(options: &PaperOptions, progress: &(dyn Fn(f64) + Sync)) -> Result<Vec<Study>> {
    for id in &options.only {
        if !EXPERIMENTS.iter().any(|experiment| experiment.id == id) {
            return Err(PaperError::UnknownExperiment { id: id.clone() });
        }
    }
    let mut chosen = EXPERIMENTS.to_vec();
    chosen.retain(|e| options.only.is_empty() || options.only.iter().any(|id| id == e.id));
    let done = AtomicUsize::new(0);
    in_order(&chosen, options.threads.max(1), &|_, experiment: &Experiment| {
        let study = study(experiment, options);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(done as f64 / chosen.len() as f64);
        study
    })
}

/// Runs the experiment again with all assumed costs doubled, to see which values depend on them.
fn sway(experiment: &Experiment, options: &PaperOptions, rows: &mut [Row]) -> Result<()> {
    let again = (experiment.run)(&Lab::with_double_costs(options.small))?;
    for (row, other) in rows.iter_mut().zip(again.rows) {
        if let (Some(value), Some(other)) = (row.simulated, other.simulated) {
            row.sway = Some(if value == other { 0.0 } else { other / value - 1.0 });
        }
    }
    Ok(())
}

fn study(experiment: &Experiment, options: &PaperOptions) -> Result<Study> {
    let lab = Lab::new(options.small);
    let mut findings = (experiment.run)(&lab)?;
    if findings.rows.iter().any(Row::may_be_steady) {
        sway(experiment, options, &mut findings.rows)?;
    }
    let figures = findings.charts.iter().map(|chart| {
        let file = format!("{}-{}.svg", experiment.id, chart.name);
        chart.svg().map(|svg| (file, svg)).map_err(PaperError::from)
    });
    Ok(Study {
        id: experiment.id,
        name: experiment.name,
        hardware: experiment.hardware,
        figures: figures.collect::<Result<_>>()?,
        rows: findings.rows,
        notes: findings.notes,
        observed: lab.observed(),
        violations: lab.violations(),
        date: options.date.clone(),
    })
}
