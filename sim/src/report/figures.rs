//! The figures of one run, and their JSON form.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::outcome::{CheckOutcome, DeviceOutcome, Outcome, TaskOutcome};
use crate::scenario::{Metric, Stat};
use crate::stats::Summary;

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;
/// Nanoseconds in a microsecond.
const NS_PER_US: f64 = 1e3;
/// Nanoseconds in a second.
const NS_PER_S: f64 = 1e9;

/// The figures of a latency distribution in milliseconds; all `None` (JSON `null`) when there are
/// no samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Smallest sample.
    pub min: Option<f64>,
    /// Largest sample.
    pub max: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
}

impl LatencyFigures {
    /// The figures of these samples.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_MS);
        Self {
            mean: summary.mean().map(|ns| ns / NS_PER_MS),
            p50: ms(summary.percentile(50)),
            p95: ms(summary.percentile(95)),
            p99: ms(summary.percentile(99)),
            min: ms(summary.min()),
            max: ms(summary.max()),
            std: summary.std().map(|ns| ns / NS_PER_MS),
        }
    }

    /// One of the figures, in milliseconds.
    #[must_use]
    pub fn get(&self, stat: Stat) -> Option<f64> {
        match stat {
            Stat::Mean => self.mean,
            Stat::P50 => self.p50,
            Stat::P95 => self.p95,
            Stat::P99 => self.p99,
            Stat::Min => self.min,
            Stat::Max => self.max,
            Stat::Std => self.std,
        }
    }
}

/// The middle and the tail of a distribution in microseconds; `None` when there are no samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TailFigures {
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

impl TailFigures {
    fn of(samples: &[u64]) -> Self {
        let summary = Summary::new(samples.to_vec());
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_US);
        Self { p50: us(summary.percentile(50)), p99: us(summary.percentile(99)) }
    }
}

/// The figures of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskFigures {
    /// Name.
    pub name: String,
    /// Counted requests.
    pub completed: u64,
    /// Latency from arrival to completion.
    pub latency_ms: LatencyFigures,
    /// Requests that were completed in the measured time, per second; `None` when no time was
    /// measured. With a warm-up they are a few more than `completed`: those that arrived in it.
    pub throughput_rps: Option<f64>,
    /// Counted requests that ended after the task's deadline.
    pub deadline_misses: u64,
    /// Deadline after arrival; left out of the JSON of a task without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// Requests that had arrived at the end and were not complete, of a task whose requests arrive
    /// however long they take; left out of the JSON when there were none.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished: u64,
    /// Requests that ended with an error; left out of the JSON when there were none.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
}

impl TaskFigures {
    fn of(task: &TaskOutcome) -> Self {
        let summary = Summary::new(task.latencies_ns.clone());
        Self {
            name: task.name.clone(),
            completed: summary.count(),
            latency_ms: LatencyFigures::of(&summary),
            throughput_rps: per_second(task.completed_in_window(), task.measured_ns),
            deadline_misses: task.deadline_misses,
            deadline_ms: task.deadline_ns.map(|ns| ns as f64 / NS_PER_MS),
            unfinished: task.unfinished,
            failed: task.failed,
        }
    }

    /// Counted requests that missed the deadline; `None` of a task without one.
    #[must_use]
    pub const fn misses(&self) -> Option<u64> {
        if self.deadline_ms.is_some() { Some(self.deadline_misses) } else { None }
    }

    /// True if requests arrived faster than they were served: at least ten, and 5 % of all that
    /// arrived, were not complete at the end.
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        self.unfinished >= 10 && self.unfinished * 20 >= self.arrived()
    }

    /// Requests that arrived, without those before the warm-up was over that are complete.
    #[must_use]
    pub const fn arrived(&self) -> u64 {
        self.completed + self.failed + self.unfinished
    }
}

/// The figures of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Name.
    pub name: String,
    /// Share of the simulated time during which at least one command ran, 0 to 1.
    pub busy: Option<f64>,
    /// Share of the simulated time spent on gates, saving and restoring; not in the JSON.
    #[serde(skip)]
    pub overhead: Option<f64>,
    /// Holds of a queue that had work on the device.
    pub preemptions: u64,
    /// For each of them: until the host knew that the victim had stopped.
    pub preempt_latency_us: TailFigures,
    /// For each of them: until the victim's last instruction.
    pub quiet_latency_us: TailFigures,
}

impl DeviceFigures {
    fn of(device: &DeviceOutcome, duration_ns: u64) -> Self {
        let share = |ns: u64| (duration_ns > 0).then(|| ns as f64 / duration_ns as f64);
        Self {
            name: device.name.clone(),
            busy: share(device.busy_ns),
            overhead: share(device.overhead_ns),
            preemptions: device.preemptions,
            preempt_latency_us: TailFigures::of(&device.preempt_latency_ns),
            quiet_latency_us: TailFigures::of(&device.quiet_latency_ns),
        }
    }
}

/// Figures of one checker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckFigures {
    /// Observations looked at.
    pub observed: u64,
    /// Violations found.
    pub violations: u64,
    /// The first violation in words; left out of the JSON when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

impl CheckFigures {
    fn of(check: &CheckOutcome) -> Self {
        let CheckOutcome { observed, violations, first } = check.clone();
        Self { observed, violations, first }
    }

    /// Adds what the same checker saw in another run; the earlier first violation stays.
    pub fn add(&mut self, other: &Self) {
        self.observed += other.observed;
        self.violations += other.violations;
        if self.first.is_none() {
            self.first.clone_from(&other.first);
        }
    }
}

/// The figures of one run. Serialised, this is the run document of `docs/src/reference/files.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunFigures {
    /// Scenario name.
    pub scenario: String,
    /// Policy name.
    pub policy: String,
    /// Preemption level, 1 to 3.
    pub level: u8,
    /// Seed.
    pub seed: u64,
    /// Simulated time in milliseconds.
    pub duration_ms: f64,
    /// Per task, in scenario order with copies expanded.
    pub tasks: Vec<TaskFigures>,
    /// Per device, in scenario order.
    pub devices: Vec<DeviceFigures>,
    /// Requests of all tasks that were completed in the measured time, per second of the longest
    /// measured time of a task.
    pub throughput_rps: Option<f64>,
    /// Per invariant, by name; empty when the checkers were off.
    pub checks: BTreeMap<&'static str, CheckFigures>,
    /// Latency of the requests of all tasks pooled; not in the JSON.
    #[serde(skip)]
    pub pooled_ms: LatencyFigures,
    /// Commands completed on devices; not in the JSON.
    #[serde(skip)]
    pub commands: u64,
}

impl RunFigures {
    /// The figures of a run.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let pooled: Vec<u64> =
            outcome.tasks.iter().flat_map(|task| task.latencies_ns.iter().copied()).collect();
        // The tasks may have been measured over different times. The longest one makes the total
        // a rate of the whole machine, where the sum of the tasks' rates would count time twice
        // when one task ran after another.
        let measured_ns = outcome.tasks.iter().map(|task| task.measured_ns).max().unwrap_or(0);
        let completed = outcome.tasks.iter().map(TaskOutcome::completed_in_window).sum();
        let device = |device| DeviceFigures::of(device, outcome.duration_ns);
        Self {
            scenario: outcome.scenario.clone(),
            policy: outcome.policy.clone(),
            level: outcome.level,
            seed: outcome.seed,
            duration_ms: outcome.duration_ns as f64 / NS_PER_MS,
            tasks: outcome.tasks.iter().map(TaskFigures::of).collect(),
            devices: outcome.devices.iter().map(device).collect(),
            throughput_rps: per_second(completed, measured_ns),
            checks: outcome.checks.iter().map(|(&name, c)| (name, CheckFigures::of(c))).collect(),
            pooled_ms: LatencyFigures::of(&Summary::new(pooled)),
            commands: outcome.commands,
        }
    }

    /// The value of a metric in this run: milliseconds for latencies, requests per second for
    /// rates. `None` when there are no samples or no task of that name.
    #[must_use]
    pub fn metric(&self, metric: &Metric) -> Option<f64> {
        match metric {
            Metric::Latency { task: None, stat } => self.pooled_ms.get(*stat),
            Metric::Latency { task: Some(name), stat } => self.task(name)?.latency_ms.get(*stat),
            Metric::Throughput { task: None } => self.throughput_rps,
            Metric::Throughput { task: Some(name) } => self.task(name)?.throughput_rps,
        }
    }

    /// The figures of the task of this name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&TaskFigures> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Violations of all invariants together.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.checks.values().map(|check| check.violations).sum()
    }
}

/// `count` per second of `ns`, if any time passed.
fn per_second(count: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| count as f64 * NS_PER_S / ns as f64)
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{empty_outcome, outcome, to_json};

    #[test]
    fn the_document_has_the_documented_shape() {
        let expected = r#"{
  "scenario": "demo",
  "policy": "hpf",
  "level": 2,
  "seed": 7,
  "duration_ms": 2000.0,
  "tasks": [
    {
      "name": "fast",
      "completed": 4,
      "latency_ms": {
        "mean": 2.5,
        "p50": 2.0,
        "p95": 4.0,
        "p99": 4.0,
        "min": 1.0,
        "max": 4.0,
        "std": 1.1180339887498947
      },
      "throughput_rps": 4.0,
      "deadline_misses": 1
    },
    {
      "name": "idle",
      "completed": 0,
      "latency_ms": {
        "mean": null,
        "p50": null,
        "p95": null,
        "p99": null,
        "min": null,
        "max": null,
        "std": null
      },
      "throughput_rps": 0.0,
      "deadline_misses": 0
    }
  ],
  "devices": [
    {
      "name": "gpu",
      "busy": 0.5,
      "preemptions": 3,
      "preempt_latency_us": {
        "p50": 20.0,
        "p99": 30.5
      },
      "quiet_latency_us": {
        "p50": null,
        "p99": null
      }
    }
  ],
  "throughput_rps": 2.0,
  "checks": {
    "held": {
      "observed": 9,
      "violations": 0
    },
    "order": {
      "observed": 12,
      "violations": 0
    }
  }
}
"#;
        assert_eq!(to_json(&RunFigures::of(&outcome())), expected);
    }

    #[test]
    fn equal_outcomes_give_equal_bytes() {
        let text = |outcome| to_json(&RunFigures::of(&outcome));
        assert_eq!(text(outcome()), text(outcome()));
        let mut shuffled = outcome();
        shuffled.tasks[0].latencies_ns.reverse();
        assert_eq!(text(outcome()), text(shuffled));
    }

    #[test]
    fn failures_and_violations_appear_when_there_are_any() {
        let mut outcome = outcome();
        outcome.tasks[0].failed = 2;
        let check = CheckOutcome { observed: 1, violations: 1, first: Some("late".into()) };
        outcome.checks.insert("order", check);
        let figures = RunFigures::of(&outcome);
        assert_eq!(figures.violations(), 1);
        let json: serde_json::Value = serde_json::from_str(&to_json(&figures)).expect("valid");
        assert_eq!(json["tasks"][0]["failed"], 2);
        assert_eq!(json["checks"]["order"]["first"], "late");
    }

    #[test]
    fn an_empty_outcome_has_no_figures() {
        let figures = RunFigures::of(&empty_outcome());
        assert_eq!(figures.throughput_rps, None);
        assert_eq!(figures.devices[0].busy, None);
        assert!(to_json(&figures).contains("\"throughput_rps\": null"));
    }

    #[test]
    fn metrics_are_found_by_task_and_pooled() {
        let figures = RunFigures::of(&outcome());
        let fast = Some("fast".to_owned());
        let get = |metric| figures.metric(&metric);
        assert_eq!(get(Metric::Latency { task: fast.clone(), stat: Stat::P99 }), Some(4.0));
        assert_eq!(get(Metric::Latency { task: None, stat: Stat::Mean }), Some(2.5));
        assert_eq!(get(Metric::Throughput { task: fast }), Some(4.0));
        assert_eq!(get(Metric::Throughput { task: None }), Some(2.0));
        assert_eq!(get(Metric::Throughput { task: Some("unknown".into()) }), None);
    }
}
