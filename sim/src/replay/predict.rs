//! The simulator's version of a recorded workload.

use std::collections::BTreeMap;

use serde::Serialize;
use xsched_core::hint::Priority;

use super::{Overheads, ReplayError, Task, Workload};
use crate::report::LatencyFigures;
use crate::run::{RunOptions, run};
use crate::scenario::{
    Arrival, Concurrency, DeviceSpec, Dist, ProcessSpec, Scenario, SyncScope, TaskSpec, WindowSpec,
};
use crate::stats::Summary;

/// What the caller wants otherwise than it was recorded.
#[derive(Clone, Debug, Default)]
pub struct PredictOptions {
    /// The policy.
    pub policy: Option<String>,
    /// The level of all holds, 1 to 3.
    pub level: Option<u8>,
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
    /// What was estimated from the record.
    pub overheads: Overheads,
    /// What is not reproduced, in words.
    pub notes: Vec<String>,
}

/// Recorded and simulated latencies of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedTask {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i16,
    /// Requests in the record.
    pub requests: u64,
    /// Requests that the simulation completed; fewer if the policy never lets the rest run.
    pub completed: u64,
    /// Latencies in the record.
    pub recorded_ms: LatencyFigures,
    /// Latencies in the simulation.
    pub predicted_ms: LatencyFigures,
    /// How far the predicted 99th percentile is above the recorded one, in percent of that.
    pub p99_deviation_percent: Option<f64>,
}

impl PredictedTask {
    /// Whether the predicted 99th percentile is within so many percent of the recorded one, and
    /// all requests were completed.
    #[must_use]
    pub fn is_within(&self, percent: f64) -> bool {
        self.requests == self.completed
            && self.p99_deviation_percent.is_some_and(|deviation| deviation.abs() <= percent)
    }
}

/// Runs the workload in the simulator.
///
/// # Errors
/// If the policy or the level does not exist.
pub fn predict(
    workload: &Workload,
    options: &PredictOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<Prediction, ReplayError> {
    let scenario = scenario(workload, options);
    let run_options = RunOptions { level: options.level, ..RunOptions::default() };
    let outcome = run(&scenario, &run_options, progress)?;
    let tasks = workload.tasks.iter().zip(&outcome.tasks).map(|(task, simulated)| {
        let recorded = LatencyFigures::of(&Summary::new(task.latencies_ns.clone()));
        let predicted = LatencyFigures::of(&Summary::new(simulated.latencies_ns.clone()));
        let deviation = |(new, old): (f64, f64)| (new - old) / old.max(1e-9) * 100.0;
        PredictedTask {
            name: task.name.clone(),
            priority: task.hints.priority.get(),
            requests: task.requests.len() as u64,
            completed: simulated.latencies_ns.len() as u64,
            p99_deviation_percent: predicted.p99.zip(recorded.p99).map(deviation),
            recorded_ms: recorded,
            predicted_ms: predicted,
        }
    });
    Ok(Prediction {
        policy: outcome.policy.clone(),
        recorded_policy: workload.policy.clone(),
        level: options.level,
        tasks: tasks.collect(),
        overheads: workload.overheads,
        notes: workload.notes.clone(),
    })
}

/// The workload as a scenario.
fn scenario(workload: &Workload, options: &PredictOptions) -> Scenario {
    let mut processes = BTreeMap::new();
    for task in &workload.tasks {
        let next = processes.len();
        processes.entry(task.process).or_insert(next);
    }
    let process = |index: &usize| ProcessSpec {
        name: format!("process-{index}"),
        lock: None,
        lock_handoff_ns: 0,
        lock_on_return: false,
    };
    let mut order: Vec<_> = processes.values().collect();
    order.sort_unstable();
    Scenario {
        name: "replay".to_owned(),
        description: String::new(),
        seed: 1,
        seeds: 1,
        duration_ns: None,
        warmup_ns: 0,
        policy: options.policy.clone().unwrap_or_else(|| workload.policy.clone()),
        level: 1,
        // Half on the way there and half on the way back: an order takes no time of its own.
        scheduler_latency_ns: workload.overheads.notify_ns / 2,
        devices: devices(workload),
        processes: order.into_iter().map(process).collect(),
        tasks: workload.tasks.iter().map(|t| spec(t, processes[&t.process], options)).collect(),
        references: Vec::new(),
        fitted: Vec::new(),
    }
}

fn devices(workload: &Workload) -> Vec<DeviceSpec> {
    let overheads = &workload.overheads;
    let device = |note: &xsched_core::record::DeviceNote| DeviceSpec {
        name: note.name.as_str().to_owned(),
        concurrency: Concurrency::Units { units: note.units.max(1) },
        launch_latency_ns: overheads.request_ns,
        host_launch_ns: 0,
        host_sync_ns: 0,
        detect_ns: 0,
        // Whatever was in flight fitted.
        launch_queue: 1 << 20,
        max_level: 3,
        gate_ns: 0,
        gate_close_ns: 0,
        gate_spacing_ns: 0,
        // Once the device is free, whoever takes it over still has to start.
        save_fixed_ns: overheads.hold_ns.saturating_add(overheads.request_ns),
        save_context_ns: 0,
        // What restoring takes is in the recorded device time of the command that was restored.
        restore_fixed_ns: 0,
        restore_context_ns: 0,
    };
    workload.devices.iter().map(device).collect()
}

fn spec(task: &Task, process: usize, options: &PredictOptions) -> TaskSpec {
    let mean = task.commands.iter().map(|c| c.work_ns / task.commands.len() as u64).sum();
    TaskSpec {
        name: task.name.clone(),
        count: 1,
        device: task.device,
        process: Some(process),
        start_ns: task.start_ns,
        arrival: Arrival::Recorded {
            requests: task.requests.clone(),
            commands: task.commands.clone(),
        },
        requests: Some(task.requests.len() as u64),
        commands: 1,
        command: Dist::Constant(mean),
        outstanding: task.outstanding,
        sync: SyncScope::Stream,
        host_launch_ns: None,
        dispatch_ns: 0,
        threshold: task.window.threshold,
        batch: task.window.batch,
        window: if task.window.adaptive { WindowSpec::Adaptive } else { WindowSpec::Fixed },
        capacity: task.window.capacity,
        level: if options.level.is_some() { None } else { Some(task.level.number()) },
        context: 1.0,
        priority: task.hints.priority.max(Priority::NO_EXECUTE).get(),
        deadline_ns: task.hints.deadline.map(xsched_core::time::Duration::as_ns),
        laxity_ns: task.hints.laxity.map(|laxity| laxity.lax.as_ns()),
        share: task.hints.utilization,
        weight: task.hints.weight,
        after: None,
    }
}
