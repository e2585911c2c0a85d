//! Deliberate defects: the checker of each invariant notices the one that breaks it, and nobody
//! complains about the same run without it.

#[path = "../../tests/theory/build.rs"]
mod build;

use super::Mutant;
use crate::run::{RunOptions, run, run_mutant};
use crate::scenario::{DeviceSpec, Dist, Scenario, TaskSpec};
use build::{MS, S, US, assert_sound, once, periodic, prioritised, scenario, slow_device, task};

/// Fails unless the checker of this name, and only with the defect, finds something.
fn notices(mutant: Mutant, checker: &str, scenario: &Scenario) {
    let options = RunOptions { checks: true, ..RunOptions::default() };
    let sound = run(scenario, &options, &mut |_| {}).expect("the scenario is sound");
    assert_sound(&sound);
    assert!(sound.checks[checker].observed > 0, "{checker} has looked");
    let outcome = run_mutant(scenario, &options, mutant).expect("the scenario is sound");
    let found = &outcome.checks[checker];
    assert!(found.violations > 0, "{mutant:?} goes unnoticed by {checker}: {:?}", outcome.checks);
    let first = found.first.as_deref().expect("a violation has words");
    assert!(first.contains(checker), "{first}");
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
fn swapped_launches_are_out_of_order() {
    notices(Mutant::SwapsLaunches, "order", &preempted(2));
    let alone = scenario(slow_device(), vec![once("a", 20, 10 * US)]);
    let alone = Scenario { duration_ns: Some(10 * MS), ..alone };
    notices(Mutant::SwapsLaunches, "order", &alone);
}

#[test]
fn twice_the_threshold_is_more_than_the_window() {
    notices(Mutant::IgnoresThreshold, "window", &preempted(1));
    let alone = scenario(slow_device(), vec![once("a", 40, 10 * US)]);
    notices(Mutant::IgnoresThreshold, "window", &alone);
}

#[test]
fn holds_that_are_not_carried_out_let_commands_start() {
    for level in [2, 3] {
        notices(Mutant::IgnoresHolds, "hold", &preempted(level));
    }
}

#[test]
fn waits_that_return_at_launch_return_early() {
    notices(Mutant::ReturnsEarly, "wait", &preempted(1));
    notices(Mutant::ReturnsEarly, "wait", &scenario(slow_device(), vec![once("a", 1, 10 * US)]));
}

#[test]
fn orders_to_run_that_are_lost_leave_a_queue_stuck() {
    let low = TaskSpec { commands: 5, command: Dist::Constant(50 * US), ..task("low") };
    let urgent = TaskSpec { priority: 1, start_ns: MS, ..once("urgent", 1, 100 * US) };
    for level in [1, 2, 3] {
        let tasks = vec![low.clone(), urgent.clone()];
        let scenario = prioritised(slow_device(), level, tasks);
        let timed = Scenario { duration_ns: Some(10 * S), ..scenario };
        notices(Mutant::LosesRunOrders, "wakeup", &timed);
    }
}

#[test]
fn a_run_that_gets_stuck_ends_all_the_same() {
    // There is no end in the scenario but that the task is through.
    let low = once("low", 40, 50 * US);
    let urgent = TaskSpec { priority: 1, start_ns: 100 * US, ..once("urgent", 1, 100 * US) };
    let scenario = prioritised(slow_device(), 1, vec![low, urgent]);
    notices(Mutant::LosesRunOrders, "wakeup", &scenario);
}

#[test]
fn waits_that_the_scheduler_does_not_know_of_are_inversions() {
    // Long enough for the checkers to look in between.
    let producer = once("producer", 4, 3 * MS);
    let consumer = TaskSpec { priority: 2, after: Some(0), ..once("consumer", 1, 10 * US) };
    let consumer = TaskSpec { start_ns: 5 * US, ..consumer };
    let hog = TaskSpec { priority: 1, start_ns: US, ..once("hog", 20, 3 * MS) };
    for level in [1, 2, 3] {
        let tasks = vec![producer.clone(), consumer.clone(), hog.clone()];
        let scenario = prioritised(slow_device(), level, tasks);
        notices(Mutant::HidesWaits, "inversion", &scenario);
    }
}

#[test]
fn a_watchdog_that_sleeps_leaves_queues_with_a_silent_scheduler() {
    // It falls silent at 10.5 ms, while the urgent task is running.
    for level in [1, 2, 3] {
        notices(Mutant::SleepingWatchdog, "fail_open", &preempted(level));
    }
}

#[test]
fn a_launch_queue_that_is_believed_to_be_deeper_overflows() {
    let short = DeviceSpec { launch_queue: 64, ..slow_device() };
    let deep = TaskSpec { threshold: 64, ..once("a", 500, 10 * US) };
    notices(Mutant::Overfills, "bounded", &scenario(short, vec![deep]));
}
