//! From the raw layer to a [`Scenario`]: every value in its range, every name resolved.

use toml::Spanned;
use xsched_core::hint::PolicyHint;

use super::arrival::{ReadFile, Traces};
use super::model::{DeviceSpec, LockOrder, ProcessSpec, Scenario, TaskSpec};
use super::names::Names;
use super::raw::{RawProcess, RawScenario};
use super::source::{Result, Source, span_of};
use super::task::Known;
use super::{MAX_DEVICES, MAX_TASKS};

/// The default of a time, in nanoseconds from microseconds.
const fn us(us: u64) -> u64 {
    us * 1_000
}

/// Checks the whole file.
pub(super) fn scenario(
    source: &Source<'_>,
    raw: &RawScenario,
    read: ReadFile<'_>,
) -> Result<Scenario> {
    let name = source.name(&raw.name)?;
    let name = name.ok_or_else(|| source.error_at_top("name", "missing"))?;
    let seeds = source.integer(&raw.seeds, 1..=100_000)?.unwrap_or(1);
    let duration_ns = source.positive_time(&raw.duration)?;
    let devices = source.devices(raw, read)?;
    let processes = source.processes(raw)?;
    if raw.task.0.is_empty() {
        return Err(source.error_at_top("task", "missing; there must be at least one [[task]]"));
    }
    let known = Known {
        devices: Names::new("device", devices.iter().map(|device| device.name.as_str())),
        processes: Names::new("process", processes.iter().map(|process| process.name.as_str())),
    };
    let tasks = source.tasks(&raw.task.0, &known, &mut Traces::new(read))?;
    source.ends(duration_ns, &tasks)?;
    let daemon = source.daemon(raw, &tasks)?;
    let scenario = Scenario {
        name,
        description: raw.description.as_ref().map_or_else(String::new, |d| d.get_ref().clone()),
        seed: source.integer(&raw.seed, 0..=i128::from(u64::MAX - u64::from(seeds)))?.unwrap_or(1),
        seeds,
        duration_ns,
        warmup_ns: source.warmup(raw, duration_ns)?,
        policy: source.name(&raw.policy)?.unwrap_or_else(|| "fcfs".to_owned()),
        k: source.integer(&raw.k, 1..=65_536)?,
        timeslice_ns: source.hint(&raw.timeslice, PolicyHint::timeslice)?,
        ageing_ns: source.hint(&raw.ageing, |age| PolicyHint::ageing(Some(age)))?,
        floor_permille: (source.number(&raw.floor, 0.0..=0.5)?.unwrap_or(0.0) * 1_000.0).round()
            as u16,
        comparators: source.comparators(raw)?,
        level: source.level(&raw.level, daemon.is_some())?,
        scheduler_latency_ns: source.time(&raw.scheduler_latency)?.unwrap_or(us(2)),
        daemon,
        devices,
        processes,
        tasks,
        references: Vec::new(),
        fitted: source.fitted(raw)?,
    };
    let references = source.references(&raw.reference.0, &scenario)?;
    Ok(Scenario { references, ..scenario })
}

impl Source<'_> {
    fn warmup(&self, raw: &RawScenario, duration_ns: Option<u64>) -> Result<u64> {
        let warmup = self.time(&raw.warmup)?.unwrap_or(0);
        if let (Some(span), Some(duration)) = (span_of(&raw.warmup), duration_ns)
            && warmup >= duration
        {
            let message = format!("must be below the duration of {duration} ns, is {warmup} ns");
            return Err(self.error(span, message));
        }
        Ok(warmup)
    }

    /// A run has to come to an end.
    fn ends(&self, duration_ns: Option<u64>, tasks: &[TaskSpec]) -> Result<()> {
        if duration_ns.is_some() || tasks.iter().any(|task| task.requests.is_some()) {
            return Ok(());
        }
        let message = "missing, and no task has `requests`: the run would not end";
        Err(self.error_at_top("duration_ms", message))
    }

    fn fitted(&self, raw: &RawScenario) -> Result<Vec<String>> {
        let mut fitted = Vec::with_capacity(raw.fitted.len());
        for entry in &raw.fitted {
            let parts = entry.get_ref().split_once(':');
            if !parts.is_some_and(|(key, why)| !key.trim().is_empty() && !why.trim().is_empty()) {
                return Err(self.error(entry.span(), "must read \"key: how and why\""));
            }
            fitted.push(entry.get_ref().clone());
        }
        Ok(fitted)
    }

    fn devices(&self, raw: &RawScenario, read: ReadFile<'_>) -> Result<Vec<DeviceSpec>> {
        if raw.device.0.is_empty() {
            let message = "missing; there must be at least one [[device]]";
            return Err(self.error_at_top("device", message));
        }
        if let Some(extra) = raw.device.0.get(MAX_DEVICES) {
            let message = format!("too many devices; at most {MAX_DEVICES} are possible");
            return Err(self.error(extra.span(), message));
        }
        self.unique_names(raw.device.0.iter().map(|device| &device.get_ref().name))?;
        self.device_specs(&raw.device.0, read)
    }

    fn processes(&self, raw: &RawScenario) -> Result<Vec<ProcessSpec>> {
        if let Some(extra) = raw.process.0.get(MAX_TASKS) {
            let message = format!("too many processes; at most {MAX_TASKS} are possible");
            return Err(self.error(extra.span(), message));
        }
        self.unique_names(raw.process.0.iter().map(|process| &process.get_ref().name))?;
        raw.process.0.iter().map(|process| self.process(process)).collect()
    }

    fn process(&self, raw: &Spanned<RawProcess>) -> Result<ProcessSpec> {
        let table = raw.span();
        let raw = raw.get_ref();
        let switch_ns = self.time(&raw.lock_switch)?.unwrap_or(us(5_000));
        let unfair = LockOrder::Unfair { switch_ns };
        let choices = [("none", None), ("fair", Some(LockOrder::Fair)), ("unfair", Some(unfair))];
        let lock = self.choice(&raw.lock, &choices)?.flatten();
        if lock != Some(unfair) {
            self.unused(span_of(&raw.lock_switch), "with lock = \"unfair\"")?;
        }
        if lock.is_none() {
            let when = "with lock = \"fair\" or \"unfair\"";
            self.unused(span_of(&raw.lock_handoff), when)?;
            self.unused(span_of(&raw.lock_on_return), when)?;
            self.unused(span_of(&raw.lock_percent), when)?;
        }
        Ok(ProcessSpec {
            name: self.required(&table, "name", self.name(&raw.name)?)?,
            lock,
            lock_handoff_ns: self.time(&raw.lock_handoff)?.unwrap_or(0),
            lock_on_return: raw.lock_on_return.as_ref().is_some_and(|flag| *flag.get_ref()),
            lock_percent: self.integer(&raw.lock_percent, 1..=100)?.unwrap_or(100),
        })
    }
}
