//! `xsched demo`: three tasks of different priority on a real device, first each alone, then
//! beside each other without a policy, then under one.

mod device;
mod judge;
mod predict;
mod print;
mod spool;
mod workload;

use std::time::Duration;

use xsched_core::level::Level;
use xsched_core::policy::Policy;
use xsched::policies::Any;
use xsched::policies::fcfs::Fcfs;
use xsched_sim::outcome::{Outcome, TaskOutcome};
use xsched_sim::report::{self, Combination, RunFigures, comparison_svg};
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use crate::Ending;
use crate::args::DemoArgs;
use crate::error::CliError;
use crate::machine::Machine;
use crate::output::{Outputs, Places};
use crate::progress::Progress;

use device::{DemoDevice, HostDemo};
use judge::{Modes, judge};
use predict::{Model, predict};
use print::Document;
use spool::Spool;
use workload::{Phase, Task, tasks};

/// Requests of the task of highest priority, by default: enough for a P99.
const REQUESTS: u64 = 1_000;
/// The same for a quick look.
const QUICK_REQUESTS: u64 = 40;
/// Changes of the pauses follow from this.
const SEED: u64 = 1;

/// Runs the demo on the best device there is and prints what came out.
pub(crate) fn execute(args: &DemoArgs) -> Result<Ending, CliError> {
    // A device that is faster than the host comes before it here, once there is a backend for one.
    let device = HostDemo::new();
    let plan = Plan::of(args, device.top())?;
    let outputs = Outputs::prepare(Places {
        json: args.json.as_deref(),
        svg: Some(&args.svg),
        record: args.record.as_deref(),
        ..Places::default()
    })?;
    let machine = Machine::here();

    let progress = Progress::new(false);
    let spool = args.record.is_some().then(Spool::new).transpose()?;
    let live = measure(&device, &plan, spool.as_ref(), &|part| progress.set(part));
    progress.finish();
    let live = live?;
    let recorded = match spool.zip(outputs.record.as_ref()) {
        Some((spool, output)) => Some(spool.write(output)?),
        None => None,
    };
    let simulated = simulate(&device.model(), device.request(), &plan)?;

    let modes = live.figures();
    let criteria = judge(&modes, &plan.tasks, device.request(), plan.level);
    let missed = criteria.iter().any(|criterion| !criterion.reached);
    if let Some(output) = &outputs.svg {
        let svg = picture(&plan, &live, &simulated)?;
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    let document = Document {
        device: device.describe(),
        machine,
        request: device.request(),
        policy: plan.policy.name(),
        level: plan.level.number(),
        live: modes,
        simulated: simulated.figures(),
        criteria,
    };
    if let Some(output) = &outputs.json {
        output.write(|out| report::write_json(out, &document))?;
    }
    let mut shown = print::report(&document, &plan.tasks, &args.svg);
    if let (Some(stats), Some(path)) = (recorded, &args.record) {
        shown += &print::record(stats, path);
    }
    outputs.tables().print(&shown)?;
    Ok(Ending::new(missed))
}

/// What is run.
#[derive(Clone, Debug)]
struct Plan {
    policy: Any,
    level: Level,
    tasks: [Task; 3],
}

impl Plan {
    fn of(args: &DemoArgs, top: Level) -> Result<Self, CliError> {
        let unknown = |_| RunError::UnknownPolicy { name: args.policy.clone() };
        let policy = args.policy.parse().map_err(unknown)?;
        let level = match args.level {
            None => top,
            Some(n) => Level::from_number(n).ok_or(RunError::NoSuchLevel { level: n })?.min(top),
        };
        let default = if args.quick { QUICK_REQUESTS } else { REQUESTS };
        Ok(Self { policy, level, tasks: tasks(args.requests.unwrap_or(default)) })
    }
}

/// The three modes, live or simulated.
#[derive(Clone, Debug)]
struct Outcomes {
    alone: Outcome,
    unscheduled: Outcome,
    scheduled: Outcome,
}

impl Outcomes {
    fn figures(&self) -> Modes {
        Modes {
            alone: RunFigures::of(&self.alone),
            unscheduled: RunFigures::of(&self.unscheduled),
            scheduled: RunFigures::of(&self.scheduled),
        }
    }
}

/// Runs all modes on the device, one after the other.
fn measure<D: DemoDevice>(
    device: &D,
    plan: &Plan,
    record: Option<&Spool>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Outcomes, CliError> {
    let device_ns = device.request().device_ns();
    // How long each part takes if all goes well, for the bar and for the limits.
    let singles = plan.tasks.each_ref().map(|task| expected(task, device_ns));
    let [crowd, ordered] =
        [3 * device_ns, device_ns * 3 / 2].map(|ns| expected(&plan.tasks[0], ns));
    let total = singles.iter().sum::<Duration>() + crowd + ordered;
    let mut before = Duration::ZERO;
    let mut part = |policy: &Any, tasks: &[Task], span: Duration, record| {
        let (start, policy) = (before, policy.clone());
        before += span;
        let limit = span.mul_f64(LIMIT) + workload::WARMUP * 2;
        let phase = Phase { policy, level: plan.level, limit, seed: SEED, record };
        workload::run(device, tasks, &phase, &|done| {
            progress((start + span.mul_f64(done)).div_duration_f64(total));
        })
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
fn simulate(
    device: &DeviceSpec,
    request: device::Request,
    plan: &Plan,
) -> Result<Outcomes, CliError> {
    let run = |policy, tasks| {
        predict(&Model { device, request, tasks, policy, level: plan.level, seed: SEED })
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

/// One diagram per task, with a line for each mode, and one for what the simulator says of it.
fn picture(plan: &Plan, live: &Outcomes, simulated: &Outcomes) -> Result<String, CliError> {
    let level = plan.policy.holds().then_some(plan.level.number());
    let name = |policy: &str, level| Combination { policy: policy.to_owned(), level };
    let scheduled = plan.policy.name();
    let combinations = [
        name("alone", None),
        name("unscheduled", None),
        name(scheduled, level),
        name("simulated unscheduled", None),
        name(&format!("simulated {scheduled}"), level),
    ];
    let outcomes = [
        live.alone.clone(),
        live.unscheduled.clone(),
        live.scheduled.clone(),
        simulated.unscheduled.clone(),
        simulated.scheduled.clone(),
    ];
    Ok(comparison_svg(&combinations, &outcomes)?)
}
