//! Running scenarios.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use xsched_sim::outcome::Outcome;
use xsched_sim::report::{Combination, CompareRow, Comparison, RunFigures, Series, run_series};
use xsched_sim::run::{self as sim, RunError, RunOptions, run_with};
use xsched_sim::scenario::Scenario;

use crate::outcome::RawOutcome;
use crate::policy::PythonPolicy;
use crate::scenario::RawScenario;

fn wrong(error: RunError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The names of the policies.
#[pyfunction]
pub(crate) fn policy_names() -> Vec<&'static str> {
    sim::policy_names().to_vec()
}

/// Runs a scenario once. `policy` is a name, an object, or None for the scenario's own.
#[pyfunction]
#[pyo3(signature = (scenario, policy, *, level, seed, checks, timeline_spans, by_cost))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Bound<'_, RawScenario>,
    policy: Option<&Bound<'_, PyAny>>,
    level: Option<u8>,
    seed: Option<u64>,
    checks: bool,
    timeline_spans: usize,
    by_cost: bool,
) -> PyResult<RawOutcome> {
    let mut options =
        RunOptions { policy: None, level, seed, checks, timeline_spans, record: false, by_cost };
    let scenario = scenario.get().inner.clone();
    let outcome = match policy {
        Some(object) if !object.is_instance_of::<PyString>() => {
            run_object(&scenario, object, &options)?
        }
        name => {
            options.policy = name.map(PyAnyMethods::extract).transpose()?;
            py.detach(|| sim::run(&scenario, &options, &mut |_| {})).map_err(wrong)?
        }
    };
    Ok(RawOutcome { scenario, outcome })
}

/// Runs a scenario under a policy that is written in Python.
fn run_object(
    scenario: &Scenario,
    object: &Bound<'_, PyAny>,
    options: &RunOptions,
) -> PyResult<Outcome> {
    let mut policy = PythonPolicy::new(object)?;
    let ran = object.py().detach(|| run_with(scenario, &mut policy, options, &mut |_| {}));
    let mut outcome = ran.map_err(wrong)?;
    outcome.policy = policy.title().to_owned();
    match policy.into_failure() {
        Some(failure) => Err(failure),
        None => Ok(outcome),
    }
}

/// Runs a scenario under each of several policies at each of several levels, and says how they
/// compare: the rows, and the whole as JSON. Policies are names, or functions that make an object.
#[pyfunction]
#[pyo3(signature = (scenario, policies, *, levels, seed, seeds, threads))]
pub(crate) fn compare<'py>(
    py: Python<'py>,
    scenario: &Bound<'py, RawScenario>,
    policies: Vec<Bound<'py, PyAny>>,
    levels: Vec<u8>,
    seed: Option<u64>,
    seeds: u32,
    threads: Option<NonZeroUsize>,
) -> PyResult<(Vec<Bound<'py, PyDict>>, String, u64)> {
    let scenario = scenario.get().inner.clone();
    let seed = seed.unwrap_or(scenario.seed);
    let threads = threads.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let mut comparison = Comparison {
        scenario: scenario.name.clone(),
        seed,
        runs: Vec::new(),
        combinations: Vec::new(),
    };
    let batch = Batch { scenario: &scenario, seed, seeds: u64::from(seeds.max(1)), threads };
    for policy in &policies {
        for &level in &levels {
            let (combination, series) = batch.run(py, policy, level)?;
            if !comparison.combinations.contains(&combination) {
                comparison.combinations.push(combination);
                comparison.runs.push(series);
            }
        }
    }
    let rows = comparison.rows();
    let rows = rows.iter().map(|row| row_of(py, row)).collect::<PyResult<_>>()?;
    let json = serde_json::to_string(&comparison);
    let json = json.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((rows, json, comparison.violations()))
}

/// Common parts of the runs of a comparison.
struct Batch<'a> {
    scenario: &'a Scenario,
    seed: u64,
    seeds: u64,
    threads: usize,
}

impl Batch<'_> {
    fn run(
        &self,
        py: Python<'_>,
        policy: &Bound<'_, PyAny>,
        level: u8,
    ) -> PyResult<(Combination, Series)> {
        if !policy.is_instance_of::<PyString>() {
            return self.run_objects(policy, level);
        }
        let policy: String = policy.extract()?;
        let level = (!sim::never_holds(&policy)).then_some(level);
        let options = self.options(Some(policy.clone()), level, self.seed);
        let ran =
            py.detach(|| run_series(self.scenario, &options, self.seeds, self.threads, &|_| {}));
        Ok((Combination { policy, level }, ran.map_err(wrong)?.0))
    }

    /// One run after the other, since there is one interpreter, each with an object of its own.
    fn run_objects(&self, make: &Bound<'_, PyAny>, level: u8) -> PyResult<(Combination, Series)> {
        let mut figures = Vec::new();
        for offset in 0..self.seeds {
            let options = self.options(None, Some(level), self.seed.wrapping_add(offset));
            let outcome = run_object(self.scenario, &make.call0()?, &options)?;
            figures.push(RunFigures::of(&outcome));
        }
        let policy = figures.first().map_or_else(String::new, |first| first.policy.clone());
        let series = Series::new(&figures, &self.scenario.references);
        Ok((Combination { policy, level: Some(level) }, series))
    }

    fn options(&self, policy: Option<String>, level: Option<u8>, seed: u64) -> RunOptions {
        RunOptions { policy, level, seed: Some(seed), checks: true, ..RunOptions::default() }
    }
}

fn row_of<'py>(py: Python<'py>, row: &CompareRow) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("policy", &row.combination.policy)?;
    dict.set_item("level", row.combination.level)?;
    dict.set_item("task", &row.task)?;
    dict.set_item("mean_ms", row.mean)?;
    dict.set_item("p50_ms", row.p50)?;
    dict.set_item("p99_ms", row.p99)?;
    dict.set_item("max_ms", row.max)?;
    dict.set_item("throughput_rps", row.throughput_rps)?;
    dict.set_item("completed", row.completed)?;
    dict.set_item("deadline_misses", row.deadline_misses)?;
    dict.set_item("p99_ratio", row.p99_ratio)?;
    dict.set_item("throughput_ratio", row.throughput_ratio)?;
    dict.set_item("total_ratio", row.total_ratio)?;
    Ok(dict)
}
