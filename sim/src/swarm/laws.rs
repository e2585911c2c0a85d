//! Drawn scenarios whose figures have bounds that follow by arithmetic: what no checker sees while
//! it happens. Each also runs under the checkers.

use rand::RngExt;
use xsched_core::check::Invariant;
use xsched_core::policy::Policy as _;
use xsched_policies::Any;

use super::{draw_device, draw_policy, draw_task, pick, scenario_of, setup_of};
use crate::engine::Setup;
use crate::outcome::{Outcome, TaskOutcome};
use crate::run::run_setup;
use crate::sample::{Rng, below, generator};
use crate::scenario::{Arrival, Concurrency, DeviceSpec, Dist, Scenario, TaskSpec, WindowSpec};

/// One seed in `EVERY` has a scenario of the first five laws beside the one with faults, one has
/// many outstanding requests, and one in `MANY_TASKS_EVERY` has many tasks.
const EVERY: u64 = 3;
const MANY_TASKS_EVERY: u64 = 20;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Slice of level 0 under `mlfq`.
const SLICE_NS: u64 = 10 * MS;

/// A drawn scenario, and what must hold of it.
pub(super) struct Law {
    pub(super) scenario: Scenario,
    pub(super) setup: Setup,
    bound: Bound,
}

/// Bound that must hold.
#[derive(Clone, Debug)]
enum Bound {
    /// Each task has its share of the device, give or take this part of the device.
    Shares { within: f64 },
    /// Each task has at least half of the mean device time, and at most twice as much.
    Equal,
    /// Everything is through by then.
    Through { by_ns: u64 },
    /// The last task has completed this many requests since the warm-up.
    Served { requests: usize },
    /// The device is never idle.
    Busy,
    /// Since the warm-up the task has completed a request in each gap, give or take two.
    Throughput { gap_ns: u64 },
    /// The checkers have looked at this many queues in a millisecond, at most.
    Looked { per_ms: u64 },
}

impl Law {
    /// Law of a seed, if it has one.
    pub(super) fn new(seed: u64) -> Option<Self> {
        let rng = &mut generator(seed, 79);
        let level = rng.random_range(1..=3);
        let (scenario, bound) = match (seed % EVERY, seed / EVERY) {
            (0, turn) => match turn % 5 {
                0 => long_commands(seed, rng),
                1 => many_processes(seed, rng),
                2 => interrupted_restores(seed, rng),
                3 => short_gaps(seed, rng),
                _ => exclusive_device(seed, rng),
            },
            (1, _) => many_outstanding(seed, rng),
            (_, turn) if turn % MANY_TASKS_EVERY == 0 => many_tasks(seed, rng),
            _ => return None,
        };
        let level = if matches!(bound, Bound::Through { .. }) { 3 } else { level };
        let must_finish = matches!(bound, Bound::Through { .. } | Bound::Looked { .. });
        Some(Self { scenario, setup: Setup { must_finish, ..setup_of(seed, level) }, bound })
    }

    /// Runs it. The error says what does not hold.
    pub(super) fn run(&self) -> Result<Outcome, String> {
        let policy: Result<Any, _> = self.scenario.policy.parse();
        let policy = policy.map_err(|error| error.to_string())?;
        let setup = self.setup.clone();
        let outcome = run_setup(&self.scenario, None, Box::new(policy), setup, &mut |_| {});
        let outcome = outcome.map_err(|error| format!("the scenario was refused: {error}"))?;
        match self.broken_by(&outcome) {
            Some(what) => Err(format!("{}: {what}", self.scenario.name)),
            None => Ok(outcome),
        }
    }

    fn broken_by(&self, outcome: &Outcome) -> Option<String> {
        let part = |task: &TaskOutcome| task.device_time_ns as f64 / outcome.duration_ns as f64;
        let parts: Vec<f64> = outcome.tasks.iter().map(part).collect();
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        let hints = self.scenario.tasks.iter().map(|task| f64::from(task.share.unwrap_or(0)) / 1e2);
        let looks = outcome.checks[Invariant::FailOpen.name()].observed;
        let holds = match self.bound {
            Bound::Shares { within } => {
                parts.iter().zip(hints).all(|(part, hint)| (part - hint).abs() <= within)
            }
            Bound::Equal => parts.iter().all(|part| (mean / 2.0..=mean * 2.0).contains(part)),
            Bound::Through { by_ns } => outcome.duration_ns <= by_ns,
            Bound::Served { requests } => {
                outcome.tasks.last().is_some_and(|task| task.latencies_ns.len() >= requests)
            }
            Bound::Busy => parts.iter().sum::<f64>() > 0.95,
            Bound::Throughput { gap_ns } => outcome
                .tasks
                .iter()
                .all(|task| task.completed_in_window().abs_diff(task.measured_ns / gap_ns) <= 2),
            // One look at the beginning and one at the end are on top.
            Bound::Looked { per_ms } => looks <= per_ms * (outcome.duration_ns.div_ceil(MS) + 4),
        };
        let least = parts.iter().copied().fold(f64::MAX, f64::min);
        let most = parts.iter().copied().fold(0.0, f64::max);
        let last = parts.last().copied().unwrap_or(0.0);
        let served = outcome.tasks.last().map_or(0, TaskOutcome::completed_in_window);
        let end_ns = outcome.duration_ns;
        let found = format!(
            "parts of {least:.4} to {most:.4}, the last {last:.4} with {served} requests, \
             {looks} looks, {end_ns} ns"
        );
        (!holds).then(|| format!("{:?} does not hold: {found}", self.bound))
    }
}

/// A device on which nothing but commands takes time.
fn device(concurrency: Concurrency, rng: &mut Rng) -> DeviceSpec {
    // All is drawn, so that seeds mean what they meant.
    let DeviceSpec { name, .. } = draw_device(0, rng);
    DeviceSpec { concurrency, ..DeviceSpec::ideal(&name) }
}

/// One command at a time, by turns or by stream.
fn one_at_a_time(rng: &mut Rng) -> Concurrency {
    if rng.random_bool(0.5) { Concurrency::Exclusive } else { Concurrency::RoundRobin }
}

/// A task that always has a command to run after the one that runs.
fn endless(number: usize, command_ns: u64, rng: &mut Rng) -> TaskSpec {
    let threshold = pick(&[2, 4], rng) as u32;
    TaskSpec {
        start_ns: 0,
        arrival: Arrival::Closed { think: Dist::Constant(0), jitter_ns: 0 },
        requests: None,
        commands: 1,
        command: Dist::Constant(command_ns),
        outstanding: 2,
        dispatch_ns: 0,
        threshold,
        batch: 1,
        window: WindowSpec::Fixed,
        capacity: 256,
        after: None,
        ..draw_task(number, 1, rng)
    }
}

fn timed(
    name: &str,
    seed: u64,
    policy: &str,
    duration_ns: u64,
    device: DeviceSpec,
    tasks: Vec<TaskSpec>,
) -> Scenario {
    Scenario {
        name: name.to_owned(),
        policy: policy.to_owned(),
        duration_ns: Some(duration_ns),
        ..scenario_of(seed, vec![device], tasks)
    }
}

/// Strict shares with commands of up to ten timeslices.
fn long_commands(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let timeslice_ns = pick(&[MS, 5 * MS], rng);
    let count = rng.random_range(1..=3);
    let device = device(one_at_a_time(rng), rng);
    let mut longest_ns = 0;
    let task = |number| {
        let command_ns = timeslice_ns * rng.random_range(1..=10);
        longest_ns = longest_ns.max(command_ns);
        let share = Some(rng.random_range(10..=100 / count as u8));
        TaskSpec { share, ..endless(number, command_ns, rng) }
    };
    let tasks = (0..count).map(task).collect();
    let duration_ns = 400 * longest_ns;
    let scenario = timed("long commands", seed, "spup", duration_ns, device, tasks);
    let timeslice_ns = Some(timeslice_ns);
    (Scenario { timeslice_ns, ..scenario }, Bound::Shares { within: 0.03 })
}

/// More processes than the policy has room for.
fn many_processes(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let count: usize = rng.random_range(65..=200);
    let device = device(Concurrency::RoundRobin, rng);
    let share = Some(rng.random_range(1..=100));
    let task = |number| TaskSpec { share, ..endless(number, 100 * US, rng) };
    let tasks = (0..count).map(task).collect();
    let duration_ns = 1_000 * MS + 5 * MS * count as u64;
    (timed("many processes", seed, "pup", duration_ns, device, tasks), Bound::Equal)
}

/// A command whose restore takes longer than the gaps that a task above it leaves.
fn interrupted_restores(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let gap_ns = rng.random_range(50 * US..=300 * US);
    let restore_ns = gap_ns + rng.random_range(10 * US..=2_000 * US);
    let work_ns = rng.random_range(500 * US..=5 * MS);
    let requests = rng.random_range(50..=300);
    let concurrency = one_at_a_time(rng);
    let device = DeviceSpec { restore_fixed_ns: restore_ns, ..device(concurrency, rng) };
    let above = TaskSpec {
        priority: 1,
        arrival: Arrival::Periodic { period_ns: MS, jitter_ns: 0 },
        requests: Some(requests),
        ..endless(0, MS - gap_ns, rng)
    };
    let below =
        TaskSpec { priority: 0, requests: Some(1), outstanding: 1, ..endless(1, work_ns, rng) };
    let by_ns = requests * MS + restore_ns + work_ns;
    let tasks = vec![above, below];
    let scenario = timed("interrupted restores", seed, "hpf", 10 * by_ns, device, tasks);
    (scenario, Bound::Through { by_ns })
}

/// Bursts of just under a slice of level 0, and a task that has the gaps between them.
fn short_gaps(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let count: usize = rng.random_range(11..=14);
    let gap_ns = rng.random_range(20 * US..=70 * US);
    let device = device(Concurrency::RoundRobin, rng);
    let period_ns = SLICE_NS * count as u64;
    let burst = |number| TaskSpec {
        // Before, the task below them comes to the last level.
        start_ns: 200 * MS + SLICE_NS * number as u64,
        arrival: Arrival::Periodic { period_ns, jitter_ns: 0 },
        ..endless(number, SLICE_NS - gap_ns, rng)
    };
    let mut tasks: Vec<_> = (0..count).map(burst).collect();
    tasks.push(endless(count, 100 * US, rng));
    // A slice, which is 100 commands, after half a second and a slice for each of the others.
    let most_ns = 500 * MS + SLICE_NS * (count as u64 + 1);
    let warmup_ns = 400 * MS;
    let scenario = timed("short gaps", seed, "mlfq", warmup_ns + 6 * most_ns, device, tasks);
    (Scenario { warmup_ns, ..scenario }, Bound::Served { requests: 5 * 100 })
}

/// Streams that keep the device for good.
fn exclusive_device(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let device = device(Concurrency::Exclusive, rng);
    let count = rng.random_range(2..=3);
    let mut tasks: Vec<_> = (0..count).map(|n| endless(n, 200 * US, rng)).collect();
    tasks[count - 1].after = rng.random_bool(0.5).then_some(0);
    (timed("exclusive device", seed, "fcfs", 3_000 * MS, device, tasks), Bound::Busy)
}

/// A task that has many requests outstanding all the time: because it is a closed loop of them,
/// or because each takes long to return although the device has time to spare.
fn many_outstanding(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let command_ns = rng.random_range(50 * US..=MS);
    let outstanding = rng.random_range(16..=1_024_u32);
    let device = device(one_at_a_time(rng), rng);
    let task = TaskSpec { outstanding, share: Some(100), ..endless(0, command_ns, rng) };
    let (gap_ns, device, task) = if rng.random_bool(0.5) {
        (command_ns, device, task)
    } else {
        let gap_ns = command_ns * rng.random_range(105..=400) / 100;
        // A request is outstanding for less than this many gaps.
        let host_sync_ns = gap_ns * u64::from(outstanding - 8);
        let arrival = Arrival::Periodic { period_ns: gap_ns, jitter_ns: 0 };
        (gap_ns, DeviceSpec { host_sync_ns, ..device }, TaskSpec { arrival, ..task })
    };
    let warmup_ns = gap_ns * (u64::from(outstanding) + rng.random_range(0..=500));
    let duration_ns = warmup_ns + gap_ns * rng.random_range(100..=2_000);
    let mut scenario = timed("many outstanding", seed, "hpf", duration_ns, device, vec![task]);
    scenario.policy = Any::NAMES[below(Any::NAMES.len(), rng)].to_owned();
    (Scenario { warmup_ns, ..scenario }, Bound::Throughput { gap_ns })
}

/// Thousands of tasks of all kinds, each with little to do.
fn many_tasks(seed: u64, rng: &mut Rng) -> (Scenario, Bound) {
    let count = rng.random_range(2_000..=5_000);
    let device = DeviceSpec { max_level: 3, ..draw_device(0, rng) };
    let task = |number| TaskSpec {
        requests: Some(rng.random_range(1..=2)),
        commands: rng.random_range(1..=3),
        command: Dist::Constant(pick(&[US, 10 * US], rng)),
        ..draw_task(number, 1, rng)
    };
    let tasks = (0..count).map(task).collect();
    let mut scenario =
        Scenario { name: "many tasks".to_owned(), ..scenario_of(seed, vec![device], tasks) };
    scenario.policy = draw_policy(false, &mut scenario, rng).name().to_owned();
    // A thousand of them every two milliseconds, however many there are.
    (scenario, Bound::Looked { per_ms: 600 })
}
