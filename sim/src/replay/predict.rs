//! The simulator's version of a recorded workload.

use std::collections::BTreeMap;

use serde::Serialize;
use xsched_core::hint::{PolicyHint, Priority};
use xsched_core::time::Duration;

use super::{Overheads, ReplayError, Task, Workload};
use crate::report::LatencyFigures;
use crate::run::{RunOptions, run};
use crate::scenario::{
    Arrival, Concurrency, DAEMON_LEVEL, DaemonSpec, DeviceSpec, Dist, ProcessSpec, Scenario,
    TaskSpec, WindowSpec,
};
use crate::stats::Summary;

/// Changes of the caller to the recorded setting.
#[derive(Clone, Debug, Default)]
pub struct PredictOptions {
    /// The policy.
    pub policy: Option<String>,
    /// Hints for another policy than the recorded one, which gets those that it got then.
    pub policy_hints: Vec<PolicyHint>,
    /// The level of all holds, 1 to 3.
    pub level: Option<u8>,
    /// The daemon that schedules the processes. A record of one does not have its latencies. With
    /// one, all holds have level 2.
    pub daemon: Option<DaemonSpec>,
}

/// Recorded and simulated latencies side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The policy of the simulation.
    pub policy: String,
    /// The policy of the record.
    pub recorded_policy: String,
    /// The level of the simulation, if it is not the recorded one of each task.
    pub level: Option<u8>,
    /// The tasks, by queue.
    pub tasks: Vec<PredictedTask>,
    /// The largest deviation of a 99th percentile, in percent, where the policy and the levels are
    /// the recorded ones. No prediction from this record is known to be closer.
    pub bound_percent: Option<f64>,
    /// Estimates from the record.
    pub overheads: Overheads,
    /// Notes about what is not reproduced.
    pub notes: Vec<String>,
}

/// Recorded and simulated latencies of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedTask {
    /// Name.
    pub name: String,
    /// Priority.
    pub priority: i16,
    /// Requests in the record.
    pub requests: u64,
    /// Requests that the simulation completed.
    pub completed: u64,
    /// The policy never let the rest run.
    pub starved: bool,
    /// Latencies in the record.
    pub recorded_ms: LatencyFigures,
    /// Latencies in the simulation.
    pub predicted_ms: LatencyFigures,
    /// How far the predicted 99th percentile is above the recorded one, in percent of that.
    pub p99_deviation_percent: Option<f64>,
    /// Deviation where the policy and the levels are the recorded ones: by how much the model is
    /// off on this record.
    pub own_deviation_percent: Option<f64>,
}

impl PredictedTask {
    /// True if the predicted 99th percentile is within `percent` of the recorded one, and the task
    /// was not starved.
    #[must_use]
    pub fn is_within(&self, percent: f64) -> bool {
        !self.starved
            && self.p99_deviation_percent.is_some_and(|deviation| deviation.abs() <= percent)
    }
}

/// How often a task may make its requests in a run that is scheduled otherwise.
const REPEATS_MAX: u64 = 16;

/// Runs the workload in the simulator, and with another policy or level also as it was recorded, to
/// see how far off the model is on this record. As it was recorded, every task makes the requests
/// that it made then. With another policy or level, the run takes as long as the recorded one, and
/// tasks that went on until its end make as many requests as they get through, one after the other
/// and then over again.
///
/// # Errors
/// If the policy or the level does not exist.
pub fn predict(
    workload: &Workload,
    options: &PredictOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<Prediction, ReplayError> {
    let otherwise = options.policy.is_some() || options.level.is_some();
    let own =
        PredictOptions { policy: None, policy_hints: [].into(), level: None, ..options.clone() };
    let own = otherwise.then(|| simulated(workload, &own, &mut |_| {})).transpose()?;
    let (policy, mut tasks) = simulated(workload, options, progress)?;
    if let Some((_, own)) = own {
        for (task, own) in tasks.iter_mut().zip(own) {
            task.own_deviation_percent = own.p99_deviation_percent;
        }
    }
    let own = tasks.iter().filter_map(|task| task.own_deviation_percent);
    Ok(Prediction {
        policy,
        recorded_policy: workload.policy.clone(),
        level: options.level,
        bound_percent: own.map(f64::abs).reduce(f64::max),
        tasks,
        overheads: workload.overheads,
        notes: workload.notes.clone(),
    })
}

/// The name of the policy, and the tasks.
fn simulated(
    workload: &Workload,
    options: &PredictOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<(String, Vec<PredictedTask>), ReplayError> {
    let scenario = scenario(workload, options);
    let open_ended = scenario.duration_ns.is_some();
    let run_options = RunOptions { level: options.level, ..RunOptions::default() };
    let outcome = run(&scenario, &run_options, progress)?;
    let tasks = workload.tasks.iter().zip(&outcome.tasks).map(|(task, simulated)| {
        let recorded = LatencyFigures::of(&Summary::new(task.latencies_ns.clone()));
        let predicted = LatencyFigures::of(&Summary::new(simulated.latencies_ns.clone()));
        let deviation = |(new, old): (f64, f64)| (new - old) / old.max(1e-9) * 100.0;
        let (requests, completed) = (task.requests.len(), simulated.latencies_ns.len());
        let deviation = predicted.p99.zip(recorded.p99).map(deviation);
        PredictedTask {
            name: task.name.clone(),
            priority: task.hints.priority.get(),
            requests: requests as u64,
            completed: completed as u64,
            starved: completed < if open_ended { 1 } else { requests },
            p99_deviation_percent: deviation,
            own_deviation_percent: deviation,
            recorded_ms: recorded,
            predicted_ms: predicted,
        }
    });
    Ok((outcome.policy.clone(), tasks.collect()))
}

/// The workload as a scenario.
fn scenario(workload: &Workload, options: &PredictOptions) -> Scenario {
    let mut processes = BTreeMap::new();
    for task in &workload.tasks {
        let next = processes.len();
        processes.entry(task.process).or_insert(next);
    }
    let process = |index: &usize| ProcessSpec::named(&format!("process-{index}"));
    let mut order: Vec<_> = processes.values().collect();
    order.sort_unstable();
    let policy = options.policy.clone().unwrap_or_else(|| workload.policy.clone());
    let otherwise = policy != workload.policy || options.level.is_some();
    let run_end_ns = workload.tasks.iter().map(|task| task.end_ns).max().unwrap_or(0);
    let duration_ns = otherwise.then_some(run_end_ns.max(1));
    let daemon = options.daemon.clone();
    let level = options.level.or(daemon.as_ref().map(|_| DAEMON_LEVEL));
    let task = |t: &Task| spec(t, processes[&t.process], level, duration_ns);
    let is_recorded = policy == workload.policy;
    let hints = if is_recorded { &workload.policy_hints } else { &options.policy_hints };
    let tasks = workload.tasks.iter().map(task).collect();
    let scenario = Scenario {
        duration_ns,
        policy,
        level: level.unwrap_or(1),
        // Half on the way there and half on the way back: an order takes no time of its own.
        scheduler_latency_ns: workload.overheads.notify_ns / 2,
        daemon,
        processes: order.into_iter().map(process).collect(),
        ..Scenario::plain("replay", devices(workload), tasks)
    };
    hints.iter().fold(scenario, hinted)
}

/// The scenario with what its policy is told.
fn hinted(scenario: Scenario, hint: &PolicyHint) -> Scenario {
    match *hint {
        PolicyHint::K(k) => Scenario { k: Some(k), ..scenario },
        PolicyHint::Timeslice(span) => Scenario { timeslice_ns: Some(span.as_ns()), ..scenario },
        PolicyHint::Ageing(age) => Scenario { ageing_ns: age.map(Duration::as_ns), ..scenario },
        PolicyHint::Floor(floor_permille) => Scenario { floor_permille, ..scenario },
        // Scenarios have no other.
        _ => scenario,
    }
}

fn devices(workload: &Workload) -> Vec<DeviceSpec> {
    let overheads = &workload.overheads;
    let device = |note: &xsched_core::record::DeviceNote| DeviceSpec {
        concurrency: Concurrency::Units { units: note.units.max(1) },
        launch_latency_ns: overheads.request_ns,
        // Whatever was in flight fitted.
        launch_queue: 1 << 20,
        // Once the device is free, the queue that takes it over still has to start. What restoring
        // takes is in the recorded device time of the command that was restored.
        save_fixed_ns: overheads.hold_ns.saturating_add(overheads.request_ns),
        resume_ns: overheads.resume_ns,
        ..DeviceSpec::ideal(note.name.as_str())
    };
    workload.devices.iter().map(device).collect()
}

/// A task that went on until the end of the run does so in one that is scheduled otherwise too, so
/// that the load of the other tasks stays the same. Otherwise it makes its requests and no more.
fn spec(task: &Task, process: usize, level: Option<u8>, run_end_ns: Option<u64>) -> TaskSpec {
    let requests = task.requests.len() as u64;
    let repeats = run_end_ns.is_some_and(|end_ns| task.stayed(end_ns));
    let mean = task.commands.iter().map(|c| c.work_ns / task.commands.len() as u64).sum();
    TaskSpec {
        device: task.device,
        process: Some(process),
        start_ns: task.start_ns,
        arrival: Arrival::Recorded {
            requests: task.requests.clone(),
            commands: task.commands.clone(),
            // The first ones have their time from the start of the task.
            repeat_from: repeats.then_some(task.outstanding as usize),
        },
        requests: Some(if repeats { requests.saturating_mul(REPEATS_MAX) } else { requests }),
        commands: 1,
        command: Dist::Constant(mean),
        claim: task.claim,
        outstanding: task.outstanding,
        threshold: task.window.threshold,
        batch: task.window.batch,
        window: if task.window.adaptive { WindowSpec::Adaptive } else { WindowSpec::Fixed },
        capacity: task.window.capacity,
        level: if level.is_some() { None } else { Some(task.level.number()) },
        priority: task.hints.priority.max(Priority::NO_EXECUTE).get(),
        deadline_ns: task.hints.deadline.map(Duration::as_ns),
        laxity_ns: task.hints.laxity.map(|laxity| laxity.lax.as_ns()),
        critical_priority: task
            .hints
            .laxity
            .map_or(Priority::MAX, |laxity| laxity.critical_priority)
            .get(),
        active_window: task.hints.active_window,
        cpu_priority: task.hints.cpu_priority,
        share: task.hints.utilization,
        weight: task.hints.weight,
        ..TaskSpec::named(&task.name)
    }
}
