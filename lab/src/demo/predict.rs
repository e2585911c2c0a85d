//! Prediction of the simulator for the same service on the same device.

use xsched_core::level::Level;
use xsched_sim::outcome::Outcome;
use xsched_sim::run::{RunError, RunOptions, run};
use xsched_sim::scenario::{Arrival, DeviceSpec, Dist, Scenario, TaskSpec};

use super::device::Request;
use super::workload::{Task, WARMUP, WINDOW};

/// From a report to the scheduler seeing it, and from its order to the queue obeying it: a thread
/// that is woken on an idle processor.
const SCHEDULER_NS: u64 = 15_000;
/// Entries that an XQueue has room for, as in the runtime's defaults.
const CAPACITY: u32 = 1_024;

/// Model to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model<'a> {
    /// The device.
    pub(crate) device: &'a DeviceSpec,
    /// Kernels of a request.
    pub(crate) request: Request,
    /// Tasks that send requests.
    pub(crate) tasks: &'a [Task],
    /// The policy, by name.
    pub(crate) policy: &'a str,
    /// The deepest hold.
    pub(crate) level: Level,
    /// Where all randomness follows from.
    pub(crate) seed: u64,
}

/// Runs the simulator.
pub(crate) fn predict(model: &Model<'_>) -> Result<Outcome, RunError> {
    run(&scenario(model), &RunOptions { checks: true, ..RunOptions::default() }, &mut |_| {})
}

/// The scenario. The run ends with the last request of the first task; a number of requests for the
/// others would have them stop earlier than that, and leave the first alone.
fn scenario(model: &Model<'_>) -> Scenario {
    let tasks = model.tasks.iter().enumerate().map(|(n, t)| task_spec(t, n == 0, model)).collect();
    Scenario {
        seed: model.seed,
        warmup_ns: WARMUP.as_nanos() as u64,
        policy: model.policy.to_owned(),
        level: model.level.number(),
        scheduler_latency_ns: SCHEDULER_NS,
        ..Scenario::plain("xsched-demo", vec![model.device.clone()], tasks)
    }
}

fn task_spec(task: &Task, ends_the_run: bool, model: &Model<'_>) -> TaskSpec {
    let think = Dist::Constant(task.think_ns);
    let Request { kernels, kernel_ns } = model.request;
    // Those of the warm-up come on top.
    let requests = task.requests + WARMUP.as_nanos() as u64 / model.request.device_ns() + 1;
    TaskSpec {
        arrival: Arrival::Closed { think, jitter_ns: task.jitter_ns() },
        requests: ends_the_run.then_some(requests),
        commands: kernels,
        command: Dist::Constant(kernel_ns),
        threshold: WINDOW.0,
        batch: WINDOW.1,
        capacity: CAPACITY,
        priority: task.priority,
        ..TaskSpec::named(task.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{REQUEST, host_model};
    use super::super::workload::tasks;
    use super::*;
    use crate::predict::device_for;
    use xsched_sim::report::RunFigures;

    #[test]
    fn the_models_meet_the_criteria_and_break_no_invariant() {
        let h200 = device_for(None, "H200").unwrap();
        for (spec, level) in [(host_model(), Level::Interrupt), (h200, Level::Deactivate)] {
            let tasks = tasks(200);
            let run = |policy, tasks| {
                let (device, request) = (&spec, REQUEST);
                let model = Model { device, request, tasks, policy, level, seed: 1 };
                let outcome = predict(&model).unwrap();
                assert!(outcome.checks.values().all(|check| check.violations == 0));
                outcome
            };
            let alone = run("fcfs", &tasks[..1]);
            let [unscheduled, scheduled] = ["fcfs", "hpf"].map(|policy| run(policy, &tasks));
            let p50 = |outcome: &Outcome| RunFigures::of(outcome).tasks[0].latency_ms.p50.unwrap();
            assert!(p50(&unscheduled) >= 1.6 * p50(&alone));
            assert!(p50(&scheduled) <= 1.15 * p50(&alone));
            assert!(scheduled.tasks.iter().all(|task| task.latencies_ns.len() >= 40));
        }
    }
}
