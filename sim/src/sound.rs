//! Runs in which each checker looks and none finds anything, and seeds whose figures are what
//! arithmetic says. `testkit/mutants/sim.toml` has a deliberate defect for each of these tests: it
//! violates the checker or the law that the test names in every run.

#[path = "../tests/theory/build.rs"]
mod build;

use xsched_policies::Any;

use crate::engine::{Disturbance, Faults};
use crate::outcome::Outcome;
use crate::run::{RunOptions, run_setup, setup};
use crate::scenario::{DaemonSpec, DeviceSpec, Dist, Scenario, TaskSpec};
use crate::swarm::{SwarmOptions, daemon, describe, swarm};
use build::{MS, S, US, assert_sound, once, periodic, prioritised, scenario, slow_device, task};

/// Fails unless the checker of this name has looked at each of the runs, and no checker has found
/// anything.
fn sound(checker: &str, scenarios: &[Scenario]) {
    sound_with(checker, scenarios, &Faults::default());
}

/// Fails as [`sound`] does, with something that goes wrong in each of the runs.
fn sound_with(checker: &str, scenarios: &[Scenario], faults: &Faults) {
    let outcomes: Vec<_> = scenarios.iter().map(|scenario| checked(scenario, faults)).collect();
    let found: Vec<_> =
        outcomes.iter().filter_map(|outcome| outcome.checks[checker].first.as_ref()).collect();
    let (runs, all) = (found.len(), outcomes.len());
    assert!(found.is_empty(), "`{checker}` is violated in {runs} of {all} runs: {}", found[0]);
    for outcome in &outcomes {
        assert_sound(outcome);
        assert!(outcome.checks[checker].observed > 0, "`{checker}` has not looked");
    }
}

fn checked(scenario: &Scenario, faults: &Faults) -> Outcome {
    let options = RunOptions { checks: true, ..RunOptions::default() };
    let mut setup = setup(scenario, None, &options).expect("there is such a level");
    setup.faults = faults.clone();
    let policy: Any = scenario.policy.parse().expect("there is such a policy");
    run_setup(scenario, None, Box::new(policy), setup, &mut |_| {}).expect("the scenario is sound")
}

/// A task that always has work, an urgent one every 10 ms for 2, at a level.
fn preempted(level: u8) -> Scenario {
    let low = TaskSpec { commands: 50, command: Dist::Constant(50 * US), ..task("low") };
    let urgent = TaskSpec {
        priority: 1,
        arrival: periodic(10 * MS),
        commands: 20,
        command: Dist::Constant(100 * US),
        ..task("urgent")
    };
    let scenario = prioritised(slow_device(), level, vec![low, urgent]);
    Scenario { duration_ns: Some(200 * MS), ..scenario }
}

#[test]
fn launches_are_in_order() {
    let alone = scenario(slow_device(), vec![once("a", 20, 10 * US)]);
    let alone = Scenario { duration_ns: Some(10 * MS), ..alone };
    sound("order", &[preempted(2), alone]);
}

#[test]
fn what_is_in_flight_fits_into_the_window() {
    let alone = scenario(slow_device(), vec![once("a", 40, 10 * US)]);
    sound("window", &[preempted(1), alone]);
}

#[test]
fn nothing_starts_during_a_hold() {
    sound("hold", &[2, 3].map(preempted));
}

#[test]
fn nothing_starts_behind_gates_of_a_daemon() {
    let daemon = |wake_us| {
        let wake = Dist::Constant(wake_us * US);
        let daemon = Some(DaemonSpec { wake, decide_ns: 2 * US, spin_ns: 200 * US, idle_ns: 0 });
        Scenario { daemon, ..preempted(2) }
    };
    sound("hold", &[0, 15].map(daemon));
}

#[test]
fn waits_return_at_the_end() {
    let alone = scenario(slow_device(), vec![once("a", 1, 10 * US)]);
    sound("wait", &[preempted(1), alone]);
}

#[test]
fn queues_that_were_held_go_on() {
    let low = TaskSpec { commands: 5, command: Dist::Constant(50 * US), ..task("low") };
    let urgent = TaskSpec { priority: 1, start_ns: MS, ..once("urgent", 1, 100 * US) };
    let timed = |level| {
        let tasks = vec![low.clone(), urgent.clone()];
        let scenario = prioritised(slow_device(), level, tasks);
        Scenario { duration_ns: Some(10 * S), ..scenario }
    };
    // There is no end in this one but that the task is through. A run that gets stuck has to end
    // all the same.
    let low = once("low", 40, 50 * US);
    let urgent = TaskSpec { start_ns: 100 * US, ..urgent.clone() };
    let endless = prioritised(slow_device(), 1, vec![low, urgent]);
    sound("wakeup", &[timed(1), timed(2), timed(3), endless]);
}

#[test]
fn what_a_runnable_queue_waits_for_may_run() {
    // Long enough for the checkers to look in between.
    let producer = once("producer", 4, 3 * MS);
    let consumer = TaskSpec { priority: 2, after: Some(0), ..once("consumer", 1, 10 * US) };
    let consumer = TaskSpec { start_ns: 5 * US, ..consumer };
    let hog = TaskSpec { priority: 1, start_ns: US, ..once("hog", 20, 3 * MS) };
    let tasks = [producer, consumer, hog];
    sound("inversion", &[1, 2, 3].map(|level| prioritised(slow_device(), level, tasks.to_vec())));
}

#[test]
fn queues_do_not_obey_a_silent_scheduler() {
    // It falls silent while the urgent task is running.
    let stall = Disturbance::StallScheduler { ns: 60 * MS };
    let faults = Faults { disturbances: vec![(10 * MS + 500 * US, stall)], ..Faults::default() };
    sound_with("fail_open", &[1, 2, 3].map(preempted), &faults);
}

#[test]
fn a_deep_window_fits_into_a_short_launch_queue() {
    let short = DeviceSpec { launch_queue: 64, ..slow_device() };
    let deep = TaskSpec { threshold: 64, ..once("a", 500, 10 * US) };
    sound("bounded", &[scenario(short, vec![deep])]);
}

/// Fails unless a swarm finds nothing in each of these seeds, all of which have a scenario of this
/// law.
fn lawful(law: &str, seeds: &[u64]) {
    let mut found = Vec::new();
    for &seed in seeds {
        assert!(describe(seed).contains(&format!("\n{law}: ")), "seed {seed} is of another law");
        let summary = swarm(&SwarmOptions { first_seed: seed, seeds: 1, threads: 1 }, &|_| {});
        found.extend(summary.failures.into_iter().next().map(|failure| failure.what));
    }
    let (runs, all) = (found.len(), seeds.len());
    assert!(found.is_empty(), "{law}: {runs} of {all} seeds: {}", found[0]);
}

/// Both closed loops and open arrivals. The mutant counts only requests that arrived since the
/// warm-up.
#[test]
fn requests_outstanding_at_the_warm_up_count() {
    lawful("many outstanding", &[1, 4, 7, 10, 13, 16, 19, 22]);
}

/// The mutant has the checkers look at all tasks every time.
#[test]
fn checkers_look_at_a_part_of_many_tasks() {
    lawful("many tasks", &[62, 182, 242]);
}

/// Fails unless a swarm of nodes finds nothing in each of these seeds.
fn calm(invariant: &str, seeds: &[u64]) {
    let options = |first_seed| SwarmOptions { first_seed, seeds: 1, threads: 1 };
    let found = seeds.iter().flat_map(|&seed| daemon::swarm(&options(seed), &|_| {}).failures);
    let found: Vec<_> = found.map(|failure| failure.what).collect();
    let runs = found.iter().filter(|what| what.starts_with(invariant)).count();
    let all = seeds.len();
    assert!(found.is_empty(), "`{invariant}` is violated in {runs} of {all} seeds: {}", found[0]);
}

#[test]
fn gates_open_when_the_lease_of_a_daemon_runs_out() {
    calm("fail open", &[1, 26, 52, 54]);
}

#[test]
fn gates_open_when_a_connection_ends() {
    calm("fail open", &[17, 21, 24, 27]);
}

#[test]
fn decisions_are_in_force() {
    calm("decision", &[1, 2, 3, 5]);
}

/// A daemon that was stopped for about the lease goes on, and just then the watch opens gates; or
/// one that was told to end goes on when there is another.
#[test]
fn what_is_opened_too_late_is_closed_again() {
    calm("decision", &[4_577, 15_606, 19_374, 27_461]);
}

#[test]
fn daemons_know_of_work() {
    calm("wake-up", &[2, 4, 5, 7]);
}

#[test]
fn what_begins_while_a_process_connects_is_known() {
    calm("wake-up", &[26, 87, 106, 118]);
}

#[test]
fn what_began_before_it_was_wanted_is_known() {
    calm("wake-up", &[1, 6, 8, 12]);
}

#[test]
fn a_stopped_daemon_is_not_waited_for() {
    calm("process", &[25, 81, 118, 124]);
}

#[test]
fn processes_connect_again() {
    calm("process", &[2, 3, 4, 5]);
}

/// The one that waits has the higher priority, and the other one is held for it.
#[test]
fn who_waits_for_a_held_process_on_the_gpu_goes_on() {
    calm("process", &[11, 22, 33, 44, 55, 66, 77, 88]);
}

/// A process has ended, and the thread that would notice that is in a call that does not return.
#[test]
fn gates_open_when_no_end_of_a_process_is_noticed() {
    calm("fail open", &[9, 20, 31, 207]);
}

#[test]
fn commands_run_once() {
    calm("work", &[1, 2, 3, 5]);
}
