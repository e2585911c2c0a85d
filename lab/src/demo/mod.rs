//! The demo: three tasks of different priority on a real device, first each alone, then beside each
//! other without a policy, then under one.

pub(crate) mod device;
pub(crate) mod judge;
pub(crate) mod predict;
pub(crate) mod quiet;
pub(crate) mod spool;
pub(crate) mod workload;

use std::sync::Arc;
use std::time::Duration;

use xsched::node::Link;
use xsched::policies::Any;
use xsched::policies::fcfs::Fcfs;
use xsched_core::level::Level;
use xsched_core::policy::{MayHold, Policy};
use xsched_sim::outcome::{Outcome, TaskOutcome};
use xsched_sim::report::{Combination, Distributions, RunFigures, comparison_svg};
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use self::device::REQUEST;
use self::judge::Modes;
use self::predict::{Model, predict};
use self::spool::Spool;
use self::workload::{Opened, Phase, Task, tasks};
use crate::device::BenchDevice;
use crate::error::CommandError;

/// Requests of the task of highest priority, by default: enough for a P99.
pub(crate) const REQUESTS: u64 = 1_000;
/// Requests of the task of highest priority for a quick look.
pub(crate) const QUICK_REQUESTS: u64 = 40;
/// Changes of the pauses follow from this.
const SEED: u64 = 1;

/// Runs to make, with their sizes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The policy of the scheduled mode.
    pub(crate) policy: Any,
    /// The highest level of a hold.
    pub(crate) level: Level,
    /// The three tasks.
    pub(crate) tasks: [Task; 3],
    /// The connection with the scheduler of the node, if that is to hold the device for others.
    pub(crate) link: Option<Arc<Link>>,
}

impl Plan {
    /// The plan for a device whose highest level is `top`.
    pub(crate) fn new(
        policy: &str,
        level: Option<u8>,
        requests: u64,
        top: Level,
    ) -> Result<Self, RunError> {
        let unknown = |_| RunError::UnknownPolicy { name: policy.to_owned() };
        let policy = policy.parse().map_err(unknown)?;
        let level = match level {
            None => top,
            Some(n) => Level::from_number(n).ok_or(RunError::NoSuchLevel { level: n })?.min(top),
        };
        Ok(Self { policy, level, tasks: tasks(requests), link: None })
    }
}

/// The three modes, live or simulated.
#[derive(Clone, Debug)]
pub(crate) struct Outcomes {
    /// Each task by itself.
    pub(crate) alone: Outcome,
    /// All tasks without a policy.
    pub(crate) unscheduled: Outcome,
    /// All tasks under the policy.
    pub(crate) scheduled: Outcome,
}

impl Outcomes {
    /// Returns the figures of both modes.
    pub(crate) fn figures(&self) -> Modes {
        Modes {
            alone: RunFigures::of(&self.alone),
            unscheduled: RunFigures::of(&self.unscheduled),
            scheduled: RunFigures::of(&self.scheduled),
        }
    }
}

/// Runs all modes on the device, one after the other. `progress` gets the share that is done, 0 to
/// 1.
pub(crate) fn measure<B: BenchDevice>(
    device: &B,
    plan: &Plan,
    record: Option<&Spool>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Outcomes, CommandError> {
    let device_ns = REQUEST.device_ns();
    // The scheduler of the node knows a device of a process once. Otherwise each part has a runtime
    // of its own, so that a record of it can be repeated.
    let link = plan.link.as_ref();
    let kept = link.map(|link| Opened::new(device, &plan.policy, Some(link))).transpose()?;
    // How long each part takes if all goes well, for the bar and for the limits.
    let singles = plan.tasks.each_ref().map(|task| expected(task, device_ns));
    let [crowd, ordered] =
        [3 * device_ns, device_ns * 3 / 2].map(|ns| expected(&plan.tasks[0], ns));
    let total = singles.iter().sum::<Duration>() + crowd + ordered;
    let mut before = Duration::ZERO;
    let mut part = |policy: &Any, tasks: &[Task], span: Duration, record| {
        let start = before;
        before += span;
        let limit = span.mul_f64(LIMIT) + workload::WARMUP * 2;
        let phase = Phase { level: plan.level, limit, seed: SEED, record };
        let show = |done| progress((start + span.mul_f64(done)).div_duration_f64(total));
        match &kept {
            Some(opened) => {
                opened.set_policy(policy)?;
                workload::run(opened, tasks, &phase, &show)
            }
            None => workload::run(&Opened::new(device, policy, None)?, tasks, &phase, &show),
        }
    };
    let fcfs = Any::Fcfs(Fcfs);
    let mut alone = Vec::new();
    for (task, span) in plan.tasks.iter().zip(singles) {
        alone.extend(part(&fcfs, &[*task], span, None)?);
    }
    let unscheduled = part(&fcfs, &plan.tasks, crowd, None)?;
    let scheduled = part(&plan.policy, &plan.tasks, ordered, record)?;
    Ok(Outcomes {
        alone: outcome("alone", plan, alone),
        unscheduled: outcome("unscheduled", plan, unscheduled),
        scheduled: outcome(plan.policy.name(), plan, scheduled),
    })
}

/// A part of the demo is cut off after this multiple of the time that it should take.
const LIMIT: f64 = 1.3;

/// How long a task takes for its requests if each takes `latency_ns`.
fn expected(task: &Task, latency_ns: u64) -> Duration {
    Duration::from_nanos((latency_ns + task.think_ns).saturating_mul(task.requests))
}

fn outcome(mode: &str, plan: &Plan, tasks: Vec<TaskOutcome>) -> Outcome {
    Outcome {
        scenario: "xsched-demo".to_owned(),
        policy: mode.to_owned(),
        level: plan.level.number(),
        seed: SEED,
        duration_ns: tasks.iter().map(|task| task.measured_ns).max().unwrap_or(0),
        tasks,
        ..Outcome::default()
    }
}

/// The simulator's view of all modes.
pub(crate) fn simulate(device: &DeviceSpec, plan: &Plan) -> Result<Outcomes, CommandError> {
    let run = |policy, tasks| {
        predict(&Model { device, request: REQUEST, tasks, policy, level: plan.level, seed: SEED })
    };
    let fcfs = Any::Fcfs(Fcfs).name();
    let mut alone = Vec::new();
    for task in &plan.tasks {
        alone.extend(run(fcfs, std::slice::from_ref(task))?.tasks);
    }
    Ok(Outcomes {
        alone: outcome("alone", plan, alone),
        unscheduled: run(fcfs, &plan.tasks)?,
        scheduled: run(plan.policy.name(), &plan.tasks)?,
    })
}

/// One diagram per task, with a line for each mode, and one for what the simulator says of it, if
/// it knows the device.
pub(crate) fn picture(
    plan: &Plan,
    live: &Outcomes,
    simulated: Option<&Outcomes>,
) -> Result<String, CommandError> {
    let holds = plan.policy.needs().may_hold != MayHold::Nothing;
    let level = holds.then_some(plan.level.number());
    let name = |policy: &str, level| Combination { policy: policy.to_owned(), level };
    let scheduled = plan.policy.name();
    let mut combinations =
        vec![name("alone", None), name("unscheduled", None), name(scheduled, level)];
    let measured = [&live.alone, &live.unscheduled, &live.scheduled];
    let mut runs = measured.map(Distributions::measured).to_vec();
    if let Some(simulated) = simulated {
        combinations.push(name("simulated unscheduled", None));
        combinations.push(name(&format!("simulated {scheduled}"), level));
        runs.extend([&simulated.unscheduled, &simulated.scheduled].map(Distributions::of));
    }
    Ok(comparison_svg(&combinations, &runs.iter().collect::<Vec<_>>())?)
}
