//! Closed loops: the machine repairman with one server, with a shared one, and with no queue at
//! all.

use xsched_sim::scenario::{DeviceSpec, Dist, Scenario, TaskSpec};

use crate::build::{S, device, exclusive, exponential, run_fast, scenario, sharing, task, think};
use crate::formulas::{closed_loop, one_server};
use crate::measure::{assert_agrees, mean, over_seeds};

const SERVICE_NS: f64 = 100_000.0;
const SEEDS: u64 = 5;

/// Number of customers, and their mean pause.
type Load = (u32, f64);
const LOADS: [Load; 3] = [(4, 4e5), (12, 1e6), (30, 5e6)];

fn looping(load: Load, command: Dist) -> TaskSpec {
    let (count, pause_ns) = load;
    TaskSpec { count, arrival: think(exponential(pause_ns)), command, ..task("loop") }
}

fn check(what: &str, device: DeviceSpec, spec: TaskSpec, expected: f64) {
    let scenario = scenario(device, vec![spec]);
    let scenario = Scenario { duration_ns: Some(9 * S), warmup_ns: S / 5, ..scenario };
    let found = over_seeds(SEEDS, |seed| {
        let outcome = run_fast(&scenario, seed);
        let all: Vec<u64> = outcome.tasks.iter().flat_map(|t| t.latencies_ns.clone()).collect();
        vec![mean(&all)]
    });
    assert_agrees(what, found[0], expected);
}

#[test]
fn one_server_for_all_tasks() {
    for load in LOADS {
        let expected = closed_loop(load.0, load.1, SERVICE_NS, one_server);
        let spec = looping(load, exponential(SERVICE_NS));
        check(&format!("{load:?} in turn"), device(), spec.clone(), expected);
        check(&format!("{load:?} exclusive"), exclusive(), spec, expected);
    }
}

#[test]
fn several_requests_of_each_task() {
    for load in LOADS {
        let spec = looping(load, exponential(SERVICE_NS));
        let spec = TaskSpec { outstanding: 3, ..spec };
        let expected = closed_loop(3 * load.0, load.1, SERVICE_NS, one_server);
        check(&format!("3 x {load:?} in turn"), device(), spec.clone(), expected);
        check(&format!("3 x {load:?} exclusive"), exclusive(), spec, expected);
    }
}

#[test]
fn an_equal_share_for_each_task() {
    for load in LOADS {
        let expected = closed_loop(load.0, load.1, SERVICE_NS, one_server);
        // Sharing does not mind how lengths are distributed.
        let lengths = [
            exponential(SERVICE_NS),
            Dist::Constant(100_000),
            Dist::LogNormal { mean_ns: SERVICE_NS, sigma: 0.8 },
        ];
        for command in lengths {
            let what = format!("{load:?} sharing {command:?}");
            check(&what, sharing(1.0), looping(load, command), expected);
        }
    }
}

#[test]
fn turns_of_short_commands_are_an_equal_share() {
    for load in &LOADS[..2] {
        let expected = closed_loop(load.0, load.1, SERVICE_NS, one_server);
        let spec = looping(*load, Dist::Constant(5_000));
        // Requests of 20 commands each, in small windows.
        let spec = TaskSpec { commands: 20, threshold: 2, batch: 1, ..spec };
        check(&format!("{load:?} in short turns"), device(), spec, expected);
    }
}

#[test]
fn sharing_with_any_contention() {
    for load in LOADS {
        for contention in [0.3, 0.7, 1.6] {
            let speed = |n: u32| f64::from(n) / (1.0 + contention * f64::from(n - 1));
            let expected = closed_loop(load.0, load.1, SERVICE_NS, speed);
            for command in [exponential(SERVICE_NS), Dist::Constant(100_000)] {
                let what = format!("{load:?} contention {contention} {command:?}");
                check(&what, sharing(contention), looping(load, command), expected);
            }
        }
    }
}

#[test]
fn without_contention_each_task_is_alone() {
    for load in LOADS {
        let spec = looping(load, Dist::Constant(100_000));
        let scenario = scenario(sharing(0.0), vec![spec]);
        let outcome = run_fast(&Scenario { duration_ns: Some(S), ..scenario }, 1);
        for task in &outcome.tasks {
            assert!(task.latencies_ns.iter().all(|&ns| ns == 100_000), "{}", task.name);
        }
    }
}
