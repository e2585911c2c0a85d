//! Defects of `checks` in the simulator, with devices that take time to obey. A policy can break
//! fairness and never safety: the checkers of the invariants are on, and find nothing in either.
//!
//! Queues are there from the start here, so what happens when a process comes is in `shares` only.

#[path = "../theory/build.rs"]
mod build;

use xsched_sim::outcome::Outcome;
use xsched_sim::run::{RunOptions, run_with};
use xsched_sim::scenario::{DeviceSpec, Dist, Scenario, TaskSpec};

use super::checks::{Found, Tried};
use super::{caught, kept};
use build::{MS, US, assert_sound, at, runs, scenario, slow_device};

/// A task that always has work: requests of a millisecond.
fn busy(name: &str) -> TaskSpec {
    let command = Dist::Constant(100 * US);
    TaskSpec { commands: 10, command, outstanding: 4, ..build::task(name) }
}

/// On one device, for this time.
fn for_ms(ms: u64, tasks: Vec<TaskSpec>) -> Scenario {
    Scenario { duration_ns: Some(ms * MS), ..scenario(slow_device(), tasks) }
}

fn on_two_devices(tasks: Vec<TaskSpec>) -> Scenario {
    let device = |name: &str| DeviceSpec { name: name.to_owned(), ..slow_device() };
    Scenario { devices: vec![device("one"), device("two")], ..for_ms(500, tasks) }
}

fn outcome(scenario: &Scenario, policy: Tried) -> Outcome {
    let options = RunOptions {
        level: Some(2),
        checks: true,
        timeline_spans: 100_000,
        ..RunOptions::default()
    };
    let name = policy.name();
    let outcome = run_with(scenario, policy, &options, &mut |_| {}).expect("a sound scenario");
    assert_eq!(outcome.policy, name);
    assert_sound(&outcome);
    outcome
}

/// Each task got this part of the time after the warm-up, in requests of a millisecond.
fn all_have(scenario: &Scenario, policy: Tried, part: f64) -> Found {
    for task in outcome(scenario, policy).tasks {
        let got = task.latencies_ns.len() as f64 * MS as f64 / task.measured_ns as f64;
        if got < part {
            return Err(format!("task {} had {:.1} % of the time", task.name, got * 100.0));
        }
    }
    Ok(())
}

fn newcomer(policy: Tried) -> Found {
    let late = TaskSpec { start_ns: 1_500 * MS, ..busy("new") };
    let scenario = for_ms(2_500, vec![busy("old"), late]);
    all_have(&Scenario { warmup_ns: 1_500 * MS, ..scenario }, policy, 0.4)
}

#[test]
fn a_new_queue_that_starves_old_ones_is_noticed() {
    caught("cfs", newcomer, "task old had 0.0 %");
}

#[test]
fn a_new_queue_does_not_starve_old_ones() {
    kept(&["wfq", "up", "cfs", "pup"], newcomer);
}

#[test]
fn queues_without_a_hint_run_too() {
    let hinted = TaskSpec { share: Some(50), ..busy("hinted") };
    let scenario = for_ms(1_000, vec![hinted, busy("unhinted")]);
    let check = |policy| all_have(&scenario, policy, 0.005);
    caught("up", check, "task unhinted had 0.0 %");
    kept(&["up"], check);
}

fn two_devices(policy: Tried) -> Found {
    let task = |name: &str, device| {
        let deadline_ns = Some(5 * MS + device as u64);
        TaskSpec { device, deadline_ns, share: Some(100), ..busy(name) }
    };
    all_have(&on_two_devices(vec![task("one", 0), task("two", 1)]), policy, 0.9)
}

#[test]
fn devices_are_scheduled_apart() {
    for name in ["up", "pup", "kedf"] {
        caught(name, two_devices, "% of the time");
    }
    kept(&["up", "wfq", "cfs", "edf", "kedf"], two_devices);
}

#[test]
fn queues_that_must_not_execute_do_not() {
    let scenario = for_ms(20, vec![TaskSpec { priority: -256, ..busy("never") }]);
    let check = |policy| match outcome(&scenario, policy).tasks[0].device_time_ns {
        0 => Ok(()),
        ns => Err(format!("a queue that must not execute used the device for {ns} ns")),
    };
    caught("hpf", check, "must not execute");
    caught("hhpf", check, "must not execute");
    kept(&["hpf", "hhpf"], check);
}

/// Commands of a task that began in this time.
fn began(outcome: &Outcome, task: u32, from_ns: u64, to_ns: u64) -> usize {
    runs(outcome, task).iter().filter(|(start, _)| (from_ns..to_ns).contains(start)).count()
}

/// At most one of two tasks runs in this time.
fn one_of_two(scenario: &Scenario, policy: Tried, from_ns: u64, to_ns: u64) -> Found {
    let outcome = outcome(scenario, policy);
    let count = [0, 1].map(|task| began(&outcome, task, from_ns, to_ns));
    match count.map(|count| count > 0) {
        [true, false] | [false, true] => Ok(()),
        [true, true] => Err(format!("both tasks ran in one slice: {count:?} commands")),
        [false, false] => Err("no queue ran".to_owned()),
    }
}

/// A task that has used up its slices wakes while a fresh one has its first.
fn waking(policy: Tried) -> Found {
    // Some 60 ms of work at the start, and again while the other task runs.
    let work = |at_ns| (0..600).map(move |_| (at_ns, 100 * US));
    let arrival = at(&work(0).chain(work(73 * MS)).collect::<Vec<_>>());
    let used_up = TaskSpec { arrival, outstanding: 600, ..build::task("used_up") };
    let fresh = TaskSpec { start_ns: 70 * MS, ..busy("fresh") };
    one_of_two(&for_ms(80, vec![used_up, fresh]), policy, 74 * MS, 78 * MS)
}

#[test]
fn a_queue_that_wakes_and_is_not_chosen_is_held() {
    caught("mlfq", waking, "both tasks ran");
    kept(&["edf"], waking);
}

/// Two equals, while something happens on another device all the time.
fn equals(policy: Tried) -> Found {
    let command = Dist::Constant(200 * US);
    let elsewhere = TaskSpec { device: 1, command, ..build::task("elsewhere") };
    let tasks = vec![busy("one"), busy("other"), elsewhere];
    let preemptions = outcome(&on_two_devices(tasks), policy).devices[0].preemptions;
    // In 500 ms there are at most 50 slices of the shortest kind.
    if preemptions <= 75 {
        return Ok(());
    }
    Err(format!("{preemptions} preemptions of two queues in 500 ms"))
}

#[test]
fn equals_do_not_change_places_whenever_anything_happens() {
    caught("mlfq", equals, "preemptions of two queues");
    kept(&["edf"], equals);
}

#[test]
fn partitions_of_processes_are_per_device() {
    kept(&["pup", "spup"], two_devices);
}

#[test]
fn feedback_is_sound() {
    kept(&["mlfq"], waking);
    kept(&["mlfq"], equals);
}
