//! Processes under the daemon of a node, by hand: its latencies, and what it holds together.

#[path = "theory/build.rs"]
mod build;

use build::{MS, US, device, once, prioritised, run_checked, runs, task, us};
use xsched_sim::outcome::Outcome;
use xsched_sim::run::{RunError, RunOptions, run};
use xsched_sim::scenario::{
    Arrival, DaemonSpec, DeviceSpec, Dist, ProcessSpec, Scenario, TaskSpec,
};

/// Under a daemon that wakes in 12 µs and decides in 3, with a gate in front of every command that
/// closes in 1.
fn under_daemon(spin_ns: u64, tasks: Vec<TaskSpec>) -> Scenario {
    let device = DeviceSpec { gate_spacing_ns: 0, gate_close_ns: US, ..device() };
    let wake = Dist::Constant(12 * US);
    let daemon = Some(DaemonSpec { wake, decide_ns: 3 * US, spin_ns, idle_ns: 0 });
    Scenario { daemon, processes: vec![ProcessSpec::named("p")], ..prioritised(device, 2, tasks) }
}

/// Commands of 10 µs, and from 505 µs on five more urgent ones of another process.
fn interrupted(spin_ns: u64) -> Outcome {
    let urgent = TaskSpec { priority: 1, start_ns: 505 * US, ..once("urgent", 5, 10 * US) };
    run_checked(&under_daemon(spin_ns, vec![once("batch", 100, 10 * US), urgent]), 1)
}

#[test]
fn a_hold_takes_the_wake_the_decision_and_the_store() {
    let outcome = interrupted(200 * US);
    // The gates are closed at 505 + 12 + 3 + 1 = 521 µs, so one command comes in between.
    let urgent: Vec<_> = [51, 53, 54, 55, 56].map(|at| (at * 10, at * 10 + 10)).into();
    assert_eq!(us(runs(&outcome, 1)), urgent);
    // The daemon still looks when the urgent one is over, and opens them in 4 µs.
    let batch = us(runs(&outcome, 0));
    assert_eq!(batch[50..53], [(500, 510), (520, 530), (574, 584)]);
    assert_eq!(batch.len(), 100);
}

#[test]
fn a_daemon_that_sleeps_again_has_to_wake_again() {
    let batch = us(runs(&interrupted(0), 0));
    assert_eq!(batch[51..53], [(520, 530), (586, 596)]);
    // It looks until 517 + 52 = 569 µs, and the urgent one is over at 570.
    let batch = us(runs(&interrupted(52 * US), 0));
    assert_eq!(batch[51..53], [(520, 530), (586, 596)]);
    // It still looks since the batch began at 0, so the gates close in 4 µs.
    let urgent = us(runs(&interrupted(500 * US), 1));
    assert_eq!(urgent.first().zip(urgent.last()), Some((&(510, 520), &(550, 560))));
}

#[test]
fn a_process_that_launches_again_soon_is_busy_meanwhile() {
    // Requests of one command of 10 µs, 30 µs apart, beside a batch.
    let think =
        |think_us: u64| Arrival::Closed { think: Dist::Constant(think_us * US), jitter_ns: 0 };
    let ran_meanwhile = |idle_us: u64, think_us: u64| {
        let arrival = think(think_us);
        let urgent =
            TaskSpec { priority: 1, arrival, requests: Some(5), ..once("urgent", 1, 10 * US) };
        let mut scenario = under_daemon(10 * MS, vec![once("batch", 100, 10 * US), urgent]);
        scenario.daemon.as_mut().unwrap().idle_ns = idle_us * US;
        let outcome = run_checked(&scenario, 1);
        let urgent = us(runs(&outcome, 1));
        let until = urgent.last().unwrap().1;
        us(runs(&outcome, 0)).iter().filter(|(begin, _)| (30..until).contains(begin)).count()
    };
    assert!(ran_meanwhile(0, 30) > 0, "it is let go in each pause");
    assert_eq!(ran_meanwhile(40, 30), 0, "the daemon hears of no pause");
    assert!(ran_meanwhile(40, 90) > 0, "and of those that are longer");
}

#[test]
fn a_process_whose_pauses_are_short_is_waited_for_in_the_next_one() {
    // Steps of 400 µs with a pause, beside a batch.
    let ran_in_pauses = |pause_us: u64, steps: u64| {
        let think = Dist::Constant(pause_us * US);
        let arrival = Arrival::Closed { think, jitter_ns: 0 };
        let steps =
            TaskSpec { priority: 1, arrival, requests: Some(steps), ..once("steps", 4, 100 * US) };
        let scenario = under_daemon(20 * MS, vec![once("batch", 2_000, 10 * US), steps]);
        let outcome = run_checked(&scenario, 1);
        let steps = us(runs(&outcome, 1));
        let batch = us(runs(&outcome, 0));
        let pauses = steps.windows(2).filter(|pair| pair[1].0 - pair[0].1 >= pause_us);
        let ran = |pause: &[(u64, u64)]| {
            batch.iter().filter(|(begin, _)| (pause[0].1..pause[1].0).contains(begin)).count() > 1
        };
        let ran: Vec<bool> = pauses.map(ran).collect();
        (ran, batch.len())
    };
    let (ran, batch) = ran_in_pauses(50, 8);
    assert_eq!(ran, [true, true, false, false, false, false, false]);
    assert_eq!(batch, 2_000, "it runs once the steps are over");
    let (ran, _) = ran_in_pauses(350, 8);
    assert!(ran.iter().all(|ran| *ran), "more than 0.3 ms and a quarter of a step: {ran:?}");
}

#[test]
fn all_queues_of_a_process_are_held_and_let_go_together() {
    let of_one = |name| TaskSpec { process: Some(0), ..once(name, 50, 10 * US) };
    let urgent = |name| TaskSpec { priority: 1, start_ns: 505 * US, ..once(name, 10, 10 * US) };
    let tasks = vec![of_one("one"), of_one("other"), urgent("urgent"), urgent("as urgent")];
    let outcome = run_checked(&under_daemon(200 * US, tasks), 1);
    let within = |task| {
        let mut runs = us(runs(&outcome, task)).into_iter();
        runs.any(|(from, to)| from < 700 && to > 550)
    };
    assert_eq!([0, 1, 2, 3].map(within), [false, false, true, true]);
    let last = us(runs(&outcome, 2)).into_iter().chain(us(runs(&outcome, 3))).map(|run| run.1);
    let end = last.max().expect("urgent commands");
    let both = us(runs(&outcome, 0)).into_iter().chain(us(runs(&outcome, 1))).map(|run| run.0);
    let after: Vec<_> = both.filter(|from| *from >= end).collect();
    assert_eq!(after.iter().min(), Some(&(end + 4)));
    assert!(after.contains(&(end + 14)), "the other is let go at the same time: {after:?}");
}

#[test]
fn processes_of_equal_priority_take_turns_if_they_fill_the_device() {
    let ended = |timeslice_ns, think_us: u64| {
        let think = Dist::Constant(think_us * US);
        let steps = |name| TaskSpec {
            arrival: Arrival::Closed { think: think.clone(), jitter_ns: 0 },
            requests: Some(90),
            ..once(name, 1, 200 * US)
        };
        let mut scenario = under_daemon(20 * MS, vec![steps("one"), steps("other")]);
        scenario.timeslice_ns = timeslice_ns;
        let outcome = run_checked(&scenario, 1);
        [0, 1].map(|task| us(runs(&outcome, task)).iter().map(|run| run.1).max().unwrap_or(0))
    };
    // Each needs the device for 18 ms, and takes two turns of 10 ms.
    let [one, other] = ended(None, 10);
    assert!(one > 35_000 && other > 35_000, "{one} {other}");
    let [one, other] = ended(Some(10 * MS), 10);
    assert!(one < 32_000 && other > 36_000, "{one} {other}");
    // With pauses they need 36 ms alone, and both together not much more.
    let [one, other] = ended(Some(10 * MS), 200);
    assert!(one.max(other) < 85_000, "{one} {other}");
}

#[test]
fn a_held_process_launches_on() {
    let spec = |capacity| TaskSpec { capacity, threshold: 64, ..once("batch", 40, 10 * US) };
    let urgent = TaskSpec { priority: 1, ..once("urgent", 20, 10 * US) };
    let late = TaskSpec { start_ns: 50 * US, ..spec(64) };
    let slow = DeviceSpec { host_launch_ns: 3 * US, ..under_daemon(0, vec![]).devices.remove(0) };
    let scenario = under_daemon(200 * US, vec![late, urgent]);
    let outcome = run_checked(&Scenario { devices: vec![slow], ..scenario }, 1);
    // All 40 are launched by 170 µs, and nothing lies between them when the gates open.
    let batch = us(runs(&outcome, 0));
    let from = batch[0].0;
    assert!(from > 200, "held from the start: {from}");
    let back_to_back: Vec<_> = (0..40).map(|n| (from + 10 * n, from + 10 * n + 10)).collect();
    assert_eq!(batch, back_to_back);
}

#[test]
fn shares_are_of_processes() {
    let endless = |name, process, share| TaskSpec {
        process,
        share: Some(share),
        commands: 20,
        command: Dist::Constant(50 * US),
        ..task(name)
    };
    let (one, other) = (endless("one", Some(0), 25), endless("other", Some(0), 25));
    let scenario = under_daemon(200 * US, vec![one, other, endless("alone", None, 75)]);
    let scenario = Scenario { policy: "up".to_owned(), duration_ns: Some(1_000 * MS), ..scenario };
    let outcome = run_checked(&scenario, 1);
    let part = |task: usize| outcome.tasks[task].device_time_ns as f64 / outcome.duration_ns as f64;
    assert!((part(2) - 0.75).abs() < 0.02, "{}", part(2));
    assert!((part(0) - 0.125).abs() < 0.02, "{}", part(0));
}

/// The part of the first of two processes without pause, with such shares and commands.
fn part_of_first(shares: [u8; 2], commands_us: [u64; 2]) -> f64 {
    let endless = |name, share, us: u64| TaskSpec {
        share: Some(share),
        commands: 8,
        threshold: 8,
        batch: 1,
        command: Dist::Constant(us * US),
        ..task(name)
    };
    let tasks = vec![
        endless("first", shares[0], commands_us[0]),
        endless("second", shares[1], commands_us[1]),
    ];
    let scenario = under_daemon(200 * US, tasks);
    let scenario = Scenario {
        policy: "up".to_owned(),
        timeslice_ns: Some(40 * MS),
        duration_ns: Some(8_000 * MS),
        ..scenario
    };
    let outcome = run_checked(&scenario, 1);
    let used = [0, 1].map(|task| outcome.tasks[task].device_time_ns as f64);
    used[0] / (used[0] + used[1])
}

#[test]
fn a_process_pays_for_what_goes_on_after_its_turn() {
    // A command of the one goes on for 800 µs of each turn of the other, on average.
    for commands_us in [[1_600, 1_600], [1_600, 50], [50, 1_600], [700, 2_300]] {
        for shares in [[75, 25], [30, 70]] {
            let part = part_of_first(shares, commands_us) * 100.0;
            let off = (part - f64::from(shares[0])).abs();
            assert!(off < 0.5, "{shares:?} with {commands_us:?} µs: {part}");
        }
    }
}

#[test]
fn systems_run_without_it_and_other_levels_are_refused() {
    let tasks = vec![once("batch", 100, 10 * US), once("other", 5, 10 * US)];
    let scenario = under_daemon(0, tasks);
    let with = |policy: Option<&str>, level| {
        let options = RunOptions { policy: policy.map(str::to_owned), level, ..Default::default() };
        run(&scenario, &options, &mut |_| {}).map(|outcome| outcome.policy)
    };
    assert_eq!(with(None, Some(3)), Err(RunError::DaemonLevel { level: 3 }));
    assert_eq!(with(Some("mps"), Some(3)).as_deref(), Ok("mps"));
    assert_eq!(with(Some("wfq"), None).as_deref(), Ok("wfq"));
}
