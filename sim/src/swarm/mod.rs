//! Swarm runs: random scenarios with random faults, looking for violated invariants.
//!
//! Everything follows from one seed. A run has two phases: in the first, things go wrong (refused
//! launches, lost fences, failed commands and steps, slow launches, a stalled scheduler, user
//! holds, a vanished client, a lost device); in the second, they no longer do, and every task that
//! still can must finish. Some seeds also stand for a scenario without faults whose figures have
//! bounds.

pub mod daemon;
mod laws;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use xsched_core::cost::Reach;

use rand::RngExt;
use xsched_core::hal::FaultRates;
use xsched_core::level::Level;
use xsched_policies::Any;

use crate::engine::{Disturbance, Faults, Setup};
use crate::outcome::Outcome;
use crate::run::run_setup;
use crate::sample::{Rng, below, generator};
use crate::scenario::{Arrival, Concurrency, DeviceSpec, Dist, Scenario, TaskSpec, WindowSpec};
use laws::Law;

/// Faults happen in this first part of a run.
const TROUBLE_NS: u64 = 60_000_000;
/// By then, everything must have finished.
const LIMIT_NS: u64 = 120_000_000_000;

/// Seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct SwarmOptions {
    /// The first seed.
    pub first_seed: u64,
    /// How many consecutive seeds.
    pub seeds: u64,
    /// How many threads to use, at least 1.
    pub threads: usize,
}

/// Summary of the runs and findings.
#[derive(Clone, Debug, Default)]
pub struct SwarmSummary {
    /// Simulations.
    pub runs: u64,
    /// Commands that ran in them.
    pub commands: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Findings, by seed.
    pub failures: Vec<SwarmFailure>,
}

/// A seed whose run violated an invariant.
#[derive(Clone, Debug)]
pub struct SwarmFailure {
    /// The seed.
    pub seed: u64,
    /// Finding, in a line.
    pub what: String,
    /// The drawn scenario, in words.
    pub scenario: String,
}

/// Runs the seeds and collects what is found. `progress` gets the number of seeds done.
///
/// ```
/// use xsched_sim::swarm::{SwarmOptions, swarm};
///
/// let summary = swarm(&SwarmOptions { first_seed: 1, seeds: 2, threads: 1 }, &|_| {});
/// assert_eq!(summary.runs, 2);
/// assert!(summary.failures.is_empty(), "{:?}", summary.failures);
/// ```
#[must_use]
pub fn swarm(options: &SwarmOptions, progress: &(dyn Fn(u64) + Sync)) -> SwarmSummary {
    let run = |seed| {
        let result = run_seed(seed).and_then(|outcome| run_law(seed).map(|law| (outcome, law)));
        let mut found = Found::default();
        match result {
            Ok((outcome, law)) => {
                for outcome in law.iter().chain([&outcome]) {
                    found.commands += outcome.commands;
                    found.faults += outcome.faults;
                    found.failures.extend(finding(outcome));
                }
            }
            Err(what) => found.failures.push(what),
        }
        found
    };
    run_seeds(options, progress, &run, describe)
}

/// Result of a seed.
#[derive(Debug, Default)]
struct Found {
    commands: u64,
    faults: u64,
    /// Violations, in a line each.
    failures: Vec<String>,
}

fn run_seeds(
    options: &SwarmOptions,
    progress: &(dyn Fn(u64) + Sync),
    run: &(dyn Fn(u64) -> Found + Sync),
    describe: fn(u64) -> String,
) -> SwarmSummary {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let summary = Mutex::new(SwarmSummary::default());
    let work = || loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= options.seeds {
            return;
        }
        let seed = options.first_seed.wrapping_add(n);
        let found = run(seed);
        let failure = |what| SwarmFailure { seed, what, scenario: describe(seed) };
        let mut all = summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.runs += 1;
        all.commands += found.commands;
        all.faults += found.faults;
        all.failures.extend(found.failures.into_iter().map(failure));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.failures.sort_by_key(|failure| failure.seed);
    summary
}

fn run_seed(seed: u64) -> Result<Outcome, String> {
    let drawn = Drawn::new(seed);
    let policy = Box::new(drawn.policy.clone());
    let run = || run_setup(&drawn.scenario, None, policy, drawn.setup.clone(), &mut |_| {});
    let refused = |error| format!("the scenario was refused: {error}");
    caught(|| run().map_err(refused))
}

/// The scenario with bounds of a seed, if it has one.
fn run_law(seed: u64) -> Result<Option<Outcome>, String> {
    Law::new(seed).map(|law| caught(|| law.run())).transpose()
}

fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("of unknown kind").replace('\n', " ")))
    })
}

fn finding(outcome: &Outcome) -> Option<String> {
    let found = outcome.checks.values().find(|check| check.violations > 0)?;
    Some(found.first.clone().unwrap_or_else(|| "a violation".to_owned()))
}

/// The scenario and the faults that a seed stands for, in words.
#[must_use]
pub fn describe(seed: u64) -> String {
    let drawn = Drawn::new(seed);
    let policy = xsched_core::policy::Policy::name(&drawn.policy);
    let text = format!("seed {seed}: ") + &in_words(policy, &drawn.scenario, &drawn.setup);
    let law = Law::new(seed).map(|law| {
        let name = law.scenario.name.clone();
        format!("\n{name}: ") + &in_words(&law.scenario.policy, &law.scenario, &law.setup)
    });
    text + &law.unwrap_or_default()
}

fn in_words(policy: &str, scenario: &Scenario, setup: &Setup) -> String {
    let mut text = format!(
        "policy {policy}, level {}, scheduler latency {} ns\n",
        setup.level, scenario.scheduler_latency_ns
    );
    // Writing to a string cannot fail.
    for device in &scenario.devices {
        let _ = writeln!(text, "  {device:?}");
    }
    for task in &scenario.tasks {
        let _ = writeln!(text, "  {task:?}");
    }
    let _ = write!(text, "  {:?}", setup.faults);
    text
}

struct Drawn {
    scenario: Scenario,
    policy: Any,
    setup: Setup,
}

impl Drawn {
    fn new(seed: u64) -> Self {
        let mut rng = generator(seed, 77);
        let rng = &mut rng;
        let devices: Vec<_> = (0..rng.random_range(1..=2)).map(|i| draw_device(i, rng)).collect();
        let count = rng.random_range(2..=8);
        let tasks: Vec<_> = (0..count).map(|i| draw_task(i, devices.len(), rng)).collect();
        let faults = draw_faults(tasks.len(), devices.len(), rng);
        let max_level = devices.iter().map(|device| device.max_level).min().unwrap_or(1);
        let fcfs = rng.random_bool(0.15);
        let scheduler_latency_ns = pick(&[0, 500, 2_000, 20_000], rng);
        let mut scenario = Scenario { scheduler_latency_ns, ..scenario_of(seed, devices, tasks) };
        // From a generator of their own: what is drawn above stays the same for a seed when there
        // are more policies.
        let policy = draw_policy(fcfs, &mut scenario, &mut generator(seed, 78));
        let level = rng.random_range(1..=max_level);
        let by_cost = seed.is_multiple_of(5);
        let setup = Setup { faults, by_cost, ..setup_of(seed, level) };
        Self { scenario, policy, setup }
    }
}

fn scenario_of(seed: u64, devices: Vec<DeviceSpec>, tasks: Vec<TaskSpec>) -> Scenario {
    Scenario {
        seed,
        duration_ns: Some(LIMIT_NS),
        policy: "hpf".to_owned(),
        ..Scenario::plain(&format!("swarm-{seed}"), devices, tasks)
    }
}

fn setup_of(seed: u64, level: u8) -> Setup {
    Setup {
        level,
        seed,
        checks: true,
        timeline_spans: 0,
        faults: Faults::default(),
        must_finish: true,
        record: false,
        by_cost: false,
    }
}

/// Half of the time highest priority first, otherwise any policy, with hints that it looks at.
fn draw_policy(fcfs: bool, scenario: &mut Scenario, rng: &mut Rng) -> Any {
    scenario.k = rng.random_bool(0.5).then(|| rng.random_range(1..=3));
    scenario.timeslice_ns = rng.random_bool(0.3).then(|| pick(&[1_000_000, 20_000_000], rng));
    scenario.ageing_ns = rng.random_bool(0.3).then(|| pick(&[2_000_000, 20_000_000], rng));
    scenario.floor_permille = pick(&[0, 0, 20, 50, 500], rng) as u16;
    let tasks = &mut scenario.tasks;
    for task in tasks.iter_mut() {
        task.deadline_ns = rng.random_bool(0.7).then(|| pick(&[500_000, 5_000_000], rng));
        task.laxity_ns = rng.random_bool(0.5).then(|| pick(&[500_000, 5_000_000], rng));
        task.share = rng.random_bool(0.7).then(|| rng.random_range(0..=100));
        task.weight = pick(&[1, 1, 3, 100], rng) as u32;
        task.active_window = rng.random_bool(0.3);
        task.cpu_priority = rng.random_range(-2..=2);
        task.critical_priority = rng.random_range(0..=3);
    }
    if fcfs {
        return Any::Fcfs(xsched_policies::fcfs::Fcfs);
    }
    let name = Any::NAMES[below(Any::NAMES.len(), rng)];
    let drawn = name.parse().ok().filter(|_| rng.random_bool(0.5));
    if name == "spup" {
        // A strict share of a thousandth would not end in the time of a run.
        tasks.iter_mut().for_each(|task| task.share = Some(task.share.unwrap_or(50).max(20)));
    }
    drawn.unwrap_or(Any::Hpf(xsched_policies::hpf::Hpf::default()))
}

fn pick(values: &[u64], rng: &mut Rng) -> u64 {
    values[below(values.len(), rng)]
}

fn draw_device(number: u32, rng: &mut Rng) -> DeviceSpec {
    let concurrency = match rng.random_range(0..3) {
        0 => Concurrency::RoundRobin,
        1 => Concurrency::Exclusive,
        _ => Concurrency::ProcessorSharing { contention: rng.random_range(0.0..1.5) },
    };
    let mut device = DeviceSpec {
        concurrency,
        launch_latency_ns: pick(&[0, 1_000, 4_000], rng),
        host_launch_ns: pick(&[0, 1_000, 3_000, 10_000], rng),
        host_sync_ns: pick(&[0, 5_000], rng),
        detect_ns: pick(&[0, 1_000, 8_000], rng),
        launch_queue: pick(&[16, 64, 1_024], rng) as u32,
        max_level: rng.random_range(1..=3),
        gate_ns: pick(&[0, 2_200], rng),
        gate_close_ns: pick(&[0, 1_000, 10_000], rng),
        gate_spacing_ns: pick(&[0, 50_000, 200_000], rng),
        save_fixed_ns: pick(&[0, 10_000, 400_000], rng),
        save_context_ns: pick(&[0, 20_000], rng),
        restore_fixed_ns: pick(&[0, 10_000, 400_000], rng),
        restore_context_ns: pick(&[0, 20_000], rng),
        ..DeviceSpec::ideal(&format!("gpu{number}"))
    };
    // Without a draw of its own, so that seeds mean what they meant.
    if device.launch_queue == 64 {
        (device.reach, device.batches) = (Reach::Device, number == 0);
        device.grace_ns = 3_000 * u64::from(number);
    }
    device
}

fn draw_task(number: usize, devices: usize, rng: &mut Rng) -> TaskSpec {
    let threshold = pick(&[1, 2, 4, 8, 16, 33], rng) as u32;
    let mean_ns = pick(&[1_000, 10_000, 50_000, 300_000], rng);
    let command = match rng.random_range(0..3) {
        0 => Dist::Constant(mean_ns),
        1 => Dist::Exponential { mean_ns: mean_ns as f64 },
        _ => Dist::Uniform { min_ns: mean_ns / 2, max_ns: mean_ns * 2 },
    };
    let think = Dist::Constant(pick(&[0, 100_000, 3_000_000], rng));
    let arrival = match rng.random_range(0..4) {
        0 => Arrival::Renewal { gap: Dist::Exponential { mean_ns: 2_000_000.0 } },
        1 => Arrival::Periodic { period_ns: 3_000_000, jitter_ns: pick(&[0, 200_000], rng) },
        _ => Arrival::Closed { think, jitter_ns: pick(&[0, 50_000], rng) },
    };
    let window = if rng.random_bool(0.2) { WindowSpec::Adaptive } else { WindowSpec::Fixed };
    let capacity = threshold.max(pick(&[4, 33, 256], rng) as u32);
    TaskSpec {
        device: below(devices, rng),
        start_ns: pick(&[0, 1_000_000, 10_000_000], rng),
        arrival,
        requests: Some(rng.random_range(3..=30)),
        commands: pick(&[1, 2, 7, 20, 60], rng) as u32,
        command,
        outstanding: rng.random_range(1..=3),
        dispatch_ns: pick(&[0, 0, 5_000], rng),
        threshold,
        batch: rng.random_range(1..=threshold),
        window,
        capacity,
        context: rng.random_range(0.0..=1.0),
        priority: rng.random_range(-2..=2),
        after: (number > 0 && rng.random_bool(0.3)).then(|| below(number, rng)),
        ..TaskSpec::named(&format!("t{number}"))
    }
}

/// A rate in permille that is 0 in half of the runs, so that each fault is also seen alone.
fn rate(max: u32, rng: &mut Rng) -> u32 {
    if rng.random_bool(0.5) { 0 } else { rng.random_range(1..=max) }
}

fn draw_faults(tasks: usize, devices: usize, rng: &mut Rng) -> Faults {
    let rates = FaultRates {
        launch: rate(20, rng),
        fence: rate(100, rng),
        lost_fence: rate(150, rng),
        execution: rate(30, rng),
        step: rate(200, rng),
    };
    let slow_launches = rng.random_bool(0.3).then(|| {
        let from_ns = rng.random_range(0..TROUBLE_NS / 2);
        (from_ns, from_ns + 10_000_000, rng.random_range(2..200))
    });
    let mut list = Vec::new();
    let at = |rng: &mut Rng| rng.random_range(1_000..TROUBLE_NS - 1_000_000);
    for _ in 0..rng.random_range(0..3) {
        let ns = rng.random_range(500_000..30_000_000);
        list.push((at(rng), Disturbance::StallScheduler { ns }));
    }
    for _ in 0..rng.random_range(0..4) {
        let task = below(tasks, rng);
        let level = Level::ALL[below(3, rng)];
        let from = at(rng);
        let until = rng.random_range(from..TROUBLE_NS);
        list.push((from, Disturbance::Suspend { task, level }));
        list.push((until, Disturbance::Resume { task, drop: rng.random_bool(0.3) }));
    }
    for _ in 0..rng.random_range(0..4) {
        let (task, priority) = (below(tasks, rng), rng.random_range(-3..=3));
        list.push((at(rng), Disturbance::Prioritise { task, priority }));
    }
    if rng.random_bool(0.25) {
        list.push((at(rng), Disturbance::Vanish { task: below(tasks, rng) }));
    }
    if rng.random_bool(0.08) {
        list.push((at(rng), Disturbance::LoseDevice { device: below(devices, rng) }));
    }
    list.push((TROUBLE_NS, Disturbance::Calm));
    Faults { rates, slow_launches, disturbances: list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_finds_nothing_and_says_what_it_did() {
        let options = SwarmOptions { first_seed: 1, seeds: 300, threads: 2 };
        let summary = swarm(&options, &|_| {});
        for failure in &summary.failures {
            eprintln!("{}: {}\n{}", failure.seed, failure.what, failure.scenario);
        }
        assert_eq!(summary.failures.len(), 0);
        assert_eq!(summary.runs, 300);
        assert!(summary.faults > 300, "{}", summary.faults);
    }
}
