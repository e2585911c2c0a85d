//! Running the built-in scenarios.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_sim::outcome::{Outcome, TaskOutcome};
use xsched_sim::run::{RunError, RunOptions, run};
use xsched_sim::scenario::{DeviceFile, Dist, OriginKind, Scenario, ScenarioError};
use xsched_sim::stats::{Band, Summary};

use super::{Basis, PaperError, Result, files};

/// Divisor of requests and of the duration in the small form.
const SMALL: u64 = 20;

/// Under what a scenario is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct How<'a> {
    kind: Kind,
    name: &'a str,
    level: u8,
}

/// Scheduler of the tasks: a policy of XSched, or a system without it.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Policy,
    System,
}

/// Highest priority first.
pub(super) const HPF: &str = "hpf";
/// Device without a scheduler.
pub(super) const NATIVE: How<'_> = How::policy("fcfs", 1);

impl<'a> How<'a> {
    pub(super) const fn policy(name: &'a str, level: u8) -> Self {
        Self { kind: Kind::Policy, name, level }
    }

    /// A system that XSched is compared with.
    pub(super) const fn system(name: &'a str) -> Self {
        Self { kind: Kind::System, name, level: 1 }
    }

    /// The name of the policy or system.
    pub(super) const fn name(self) -> &'a str {
        self.name
    }

    fn missing(self) -> String {
        match self.kind {
            Kind::Policy => format!("policy {}", self.name),
            Kind::System => format!("system {}", self.name),
        }
    }
}

/// Outcome of a run, or what is missing for it.
pub(super) type Trial = std::result::Result<Outcome, String>;

/// Runs scenarios and counts what the checkers see.
#[derive(Debug)]
pub(super) struct Lab {
    small: bool,
    /// By what costs that are assumed are multiplied.
    cost: u64,
    observed: AtomicU64,
    violations: AtomicU64,
}

impl Lab {
    pub(super) fn new(small: bool) -> Self {
        Self { small, cost: 1, observed: AtomicU64::new(0), violations: AtomicU64::new(0) }
    }

    /// A laboratory in which all costs that were never measured are doubled.
    pub(super) fn with_double_costs(small: bool) -> Self {
        Self { cost: 2, ..Self::new(small) }
    }

    fn charge(&self, scenario: &mut Scenario) {
        if self.cost == 1 {
            return;
        }
        for spec in &mut scenario.devices {
            // A device that no file describes has no origins.
            let Ok(device) = self.device(&spec.name) else { continue };
            for (key, ns) in [
                ("launch_latency", &mut spec.launch_latency_ns),
                ("host_launch", &mut spec.host_launch_ns),
                ("host_sync", &mut spec.host_sync_ns),
                ("detect", &mut spec.detect_ns),
                ("fence", &mut spec.fence_ns),
                ("gate", &mut spec.gate_ns),
                ("gate_close", &mut spec.gate_close_ns),
                ("save_fixed", &mut spec.save_fixed_ns),
                ("restore_fixed", &mut spec.restore_fixed_ns),
                ("save_context", &mut spec.save_context_ns),
            ] {
                let origin = device.origins.get(key);
                if origin.is_some_and(|origin| origin.kind == OriginKind::Assumed) {
                    *ns *= self.cost;
                }
            }
        }
    }

    pub(super) fn observed(&self) -> u64 {
        self.observed.load(Ordering::Relaxed)
    }

    pub(super) fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// A number of seeds or points, fewer in the small form.
    pub(super) fn count(&self, full: u64) -> u64 {
        if self.small { full.min(2) } else { full }
    }

    /// A built-in scenario.
    pub(super) fn scenario(&self, name: &str) -> Result<Scenario> {
        Ok(parse(&read(name)?, name)?)
    }

    /// A built-in device.
    pub(super) fn device(&self, name: &str) -> Result<DeviceFile> {
        let path = format!("devices/{name}.toml");
        Ok(DeviceFile::parse(read(&path)?.as_bytes(), Path::new(&path))?)
    }

    /// Where these parameters of a device come from.
    pub(super) fn of_device(&self, name: &str, keys: &[&str]) -> Result<Vec<Basis>> {
        let device = self.device(name)?;
        let basis = |key: &&str| {
            device.origins.get(*key).map(|origin| Basis {
                parameter: format!("{name}.{key}"),
                kind: origin.kind,
                note: origin.note.clone(),
            })
        };
        Ok(keys.iter().filter_map(basis).collect())
    }

    /// The parameters that a scenario says were fitted.
    pub(super) fn fitted(&self, name: &str) -> Result<Vec<Basis>> {
        let scenario = self.scenario(name)?;
        let basis = |entry: &String| {
            let (key, note) = entry.split_once(':')?;
            Some(given(key.trim(), OriginKind::Fitted, note.trim()))
        };
        Ok(scenario.fitted.iter().filter_map(basis).collect())
    }

    /// Runs a built-in scenario after `change`.
    pub(super) fn run(
        &self,
        name: &str,
        how: How<'_>,
        change: impl FnOnce(&mut Scenario),
    ) -> Result<Trial> {
        self.run_seed(name, how, None, change)
    }

    /// The median of a figure over `seeds` seeds, or what is missing.
    pub(super) fn median(
        &self,
        name: &str,
        how: How<'_>,
        seeds: u64,
        figure: impl Fn(&Outcome) -> Option<f64>,
    ) -> Result<Measure> {
        let mut values = Vec::new();
        for seed in 1..=self.count(seeds) {
            match self.run_seed(name, how, Some(seed), |_| {})? {
                Ok(outcome) => values.extend(figure(&outcome)),
                Err(missing) => return Ok(Err(missing)),
            }
        }
        Ok(Ok(Band::of(values).map_or(f64::NAN, |band| band.median)))
    }

    pub(super) fn run_seed(
        &self,
        name: &str,
        how: How<'_>,
        seed: Option<u64>,
        change: impl FnOnce(&mut Scenario),
    ) -> Result<Trial> {
        let mut scenario = self.scenario(name)?;
        change(&mut scenario);
        self.charge(&mut scenario);
        if self.small {
            shrink(&mut scenario);
        }
        let (policy, level) = (Some(how.name.to_owned()), Some(how.level));
        let options = RunOptions { policy, level, seed, checks: true, ..RunOptions::default() };
        match run(&scenario, &options, &mut |_| {}) {
            Ok(outcome) => {
                self.count_checks(&outcome);
                Ok(Ok(outcome))
            }
            Err(RunError::UnknownPolicy { .. } | RunError::UnknownName { .. }) => {
                Ok(Err(how.missing()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn count_checks(&self, outcome: &Outcome) {
        for check in outcome.checks.values() {
            self.observed.fetch_add(check.observed, Ordering::Relaxed);
            self.violations.fetch_add(check.violations, Ordering::Relaxed);
        }
    }
}

/// A value, or what is missing for it.
pub(super) type Measure = std::result::Result<f64, String>;

/// A parameter of a scenario.
pub(super) fn given(parameter: &str, kind: OriginKind, note: &str) -> Basis {
    Basis { parameter: parameter.to_owned(), kind, note: note.to_owned() }
}

fn path_of(name: &str) -> String {
    match name {
        _ if name.starts_with("devices/") => name.to_owned(),
        _ if files::read(Path::new(&format!("scenarios/{name}.toml"))).is_ok() => {
            format!("scenarios/{name}.toml")
        }
        _ => format!("scenarios/paper/{name}.toml"),
    }
}

fn read(name: &str) -> Result<String> {
    let path = path_of(name);
    let text = files::read(Path::new(&path)).map_err(|error| {
        let message = format!("is not part of the program: {error}");
        PaperError::Scenario(ScenarioError::new(Path::new(&path), 1, "file", &message))
    })?;
    Ok(text.to_owned())
}

fn parse(text: &str, name: &str) -> std::result::Result<Scenario, ScenarioError> {
    let mut open = |path: &Path| files::read(path).map(|text| text.as_bytes().to_vec());
    Scenario::parse_with(text, Path::new(&path_of(name)), &mut open)
}

/// The small form of a scenario.
fn shrink(scenario: &mut Scenario) {
    for task in &mut scenario.tasks {
        task.requests = task.requests.map(|requests| (requests / SMALL).max(5).min(requests));
    }
    let least = scenario.warmup_ns * 3;
    scenario.duration_ns = scenario.duration_ns.map(|ns| (ns / SMALL).max(least));
}

/// Makes every command, pause and period of a scenario longer by this factor.
pub(super) fn stretch(scenario: &mut Scenario, factor: f64) {
    use xsched_sim::scenario::Arrival;
    let longer = |ns: u64| (ns as f64 * factor).round() as u64;
    for task in &mut scenario.tasks {
        task.command = stretched(&task.command, factor);
        match &mut task.arrival {
            Arrival::Closed { think, jitter_ns } => {
                *think = stretched(think, factor);
                *jitter_ns = longer(*jitter_ns);
            }
            Arrival::Periodic { period_ns, jitter_ns } => {
                *period_ns = longer(*period_ns);
                *jitter_ns = longer(*jitter_ns);
            }
            Arrival::Renewal { gap } => *gap = stretched(gap, factor),
            Arrival::Trace { .. } | Arrival::Recorded { .. } => {}
        }
    }
}

fn stretched(dist: &Dist, factor: f64) -> Dist {
    let longer = |ns: u64| (ns as f64 * factor).round() as u64;
    match dist {
        Dist::Constant(ns) => Dist::Constant(longer(*ns)),
        Dist::Exponential { mean_ns } => Dist::Exponential { mean_ns: mean_ns * factor },
        Dist::LogNormal { mean_ns, sigma } => {
            Dist::LogNormal { mean_ns: mean_ns * factor, sigma: *sigma }
        }
        Dist::Empirical { values_ns, weights } => Dist::Empirical {
            values_ns: values_ns.iter().map(|ns| longer(*ns)).collect(),
            weights: weights.clone(),
        },
        Dist::Sequence { values_ns } => {
            Dist::Sequence { values_ns: values_ns.iter().map(|ns| longer(*ns)).collect() }
        }
        Dist::Uniform { min_ns, max_ns } => {
            Dist::Uniform { min_ns: longer(*min_ns), max_ns: longer(*max_ns) }
        }
    }
}

/// Leaves only the task of this name.
pub(super) fn only(scenario: &mut Scenario, name: &str) {
    scenario.tasks.retain(|task| task.name == name);
}

/// Gives every task a window that never closes, as a plain stream has.
pub(super) fn unbounded(scenario: &mut Scenario) {
    for task in &mut scenario.tasks {
        (task.threshold, task.batch) = (1024, 1024);
        task.capacity = task.capacity.max(1024);
    }
}

/// The task of this name.
pub(super) fn task<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a TaskOutcome> {
    outcome.tasks.iter().find(|task| task.name == name)
}

/// A percentile of a task's latency, in milliseconds.
pub(super) fn percentile(outcome: &Outcome, name: &str, percent: u32) -> Option<f64> {
    let latencies = task(outcome, name)?.latencies_ns.clone();
    Summary::new(latencies).percentile(percent).map(ms)
}

/// Requests per second of a task.
pub(super) fn rate(outcome: &Outcome, name: &str) -> Option<f64> {
    let task = task(outcome, name)?;
    let completed = task.completed_in_window() as f64;
    (task.measured_ns > 0).then(|| completed * 1e9 / task.measured_ns as f64)
}

/// Nanoseconds as milliseconds.
pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// A figure of a trial, or what is missing for it. Without samples it is not a number, which fails.
pub(super) fn figure(trial: &Trial, get: impl FnOnce(&Outcome) -> Option<f64>) -> Measure {
    match trial {
        Ok(outcome) => Ok(get(outcome).unwrap_or(f64::NAN)),
        Err(missing) => Err(missing.clone()),
    }
}

/// One value over another.
pub(super) fn over(value: &Measure, base: &Measure) -> Measure {
    match (value, base) {
        (Ok(value), Ok(base)) => Ok(value / base),
        (Err(missing), _) | (_, Err(missing)) => Err(missing.clone()),
    }
}
