//! Tasks of different priority: queues with priority classes.

use xsched_sim::scenario::{Dist, Scenario, TaskSpec};

use crate::build::{S, device, exponential, poisson, prioritised, run_fast, task};
use crate::formulas::{Class, Moments, not_preemptive, preemptive};
use crate::measure::{assert_agrees, mean_latency, over_seeds};

const SEEDS: u64 = 8;

/// Classes by their service and load, highest priority first.
fn classes(spec: &[(Dist, f64)], commands: u32) -> (Vec<Class>, Vec<TaskSpec>) {
    let class = |(command, load): &(Dist, f64)| {
        let service = Moments::of(command).sum_of(commands);
        Class { gap_ns: service.mean / load, service }
    };
    let classes: Vec<Class> = spec.iter().map(class).collect();
    let task = |(i, class): (usize, &Class)| TaskSpec {
        arrival: poisson(class.gap_ns),
        command: spec[i].0.clone(),
        commands,
        priority: 10 - i as i16,
        ..task(&format!("class-{i}"))
    };
    let tasks = classes.iter().enumerate().map(task).collect();
    (classes, tasks)
}

/// Mean sojourns of the tasks against what is expected of them.
fn compare(what: &str, level: u8, seconds: u64, tasks: Vec<TaskSpec>, expected: &[f64]) {
    let scenario = prioritised(device(), level, tasks);
    let (duration_ns, warmup_ns) = (Some(seconds * S), S / 2);
    let scenario = Scenario { duration_ns, warmup_ns, ..scenario };
    let found = over_seeds(SEEDS, |seed| {
        run_fast(&scenario, seed).tasks.iter().map(mean_latency).collect()
    });
    for (class, (found, &expected)) in found.iter().zip(expected).enumerate() {
        assert_agrees(&format!("{what}: class {class}"), *found, expected);
    }
}

fn check_preemptive(what: &str, seconds: u64, spec: &[(Dist, f64)], commands: u32) {
    let (classes, tasks) = classes(spec, commands);
    compare(what, 3, seconds, tasks, &preemptive(&classes));
}

#[test]
fn free_interrupts_are_preemptive_resume() {
    let e = exponential;
    check_preemptive("two equal", 12, &[(e(1e5), 0.3), (e(1e5), 0.4)], 1);
    check_preemptive("short first", 24, &[(e(2e4), 0.3), (e(3e5), 0.3)], 1);
    check_preemptive("long first", 40, &[(e(3e5), 0.3), (e(5e4), 0.3)], 1);
}

#[test]
fn free_interrupts_of_three_classes() {
    let e = exponential;
    let three = [(e(1e5), 0.2), (e(1e5), 0.2), (e(1e5), 0.3)];
    check_preemptive("three equal", 20, &three, 1);
    let unequal = [(e(3e4), 0.2), (e(1e5), 0.25), (e(2e5), 0.25)];
    check_preemptive("three unequal", 32, &unequal, 1);
}

#[test]
fn free_interrupts_of_any_service() {
    let log_normal = Dist::LogNormal { mean_ns: 1e5, sigma: 0.8 };
    let uniform = Dist::Uniform { min_ns: 10_000, max_ns: 190_000 };
    let values_ns = [40_000, 400_000].into();
    let two = Dist::Empirical { values_ns, weights: [5.0, 1.0].into() };
    let constant = Dist::Constant(50_000);
    check_preemptive("constant, log-normal", 16, &[(constant, 0.3), (log_normal, 0.3)], 1);
    check_preemptive("two lengths, uniform", 20, &[(two, 0.3), (uniform, 0.3)], 1);
}

#[test]
fn free_interrupts_of_requests_with_several_commands() {
    let e = exponential;
    check_preemptive("five commands", 8, &[(e(2e4), 0.3), (e(2e4), 0.4)], 5);
}

/// Everything that has arrived is in the queue, so that the scheduler knows of it, and one command
/// at a time is launched.
fn visible(tasks: Vec<TaskSpec>) -> Vec<TaskSpec> {
    let visible = |task| TaskSpec { outstanding: 1024, threshold: 1, batch: 1, ..task };
    tasks.into_iter().map(visible).collect()
}

#[test]
fn blocking_behind_a_window_of_one_is_not_preemptive() {
    let e = exponential;
    let log_normal = Dist::LogNormal { mean_ns: 1e5, sigma: 0.8 };
    let cases = [
        ("two equal", [(e(1e5), 0.3), (e(1e5), 0.4)]),
        ("short first", [(e(2e4), 0.3), (e(2e5), 0.3)]),
        ("any service", [(Dist::Constant(50_000), 0.3), (log_normal, 0.3)]),
    ];
    for (what, spec) in cases {
        let (classes, tasks) = classes(&spec, 1);
        compare(what, 1, 24, visible(tasks), &not_preemptive(&classes));
    }
}

#[test]
fn an_urgent_request_waits_for_one_command_of_the_others() {
    // Requests of n commands, preempted between two of them: the first of a low request begins when
    // a whole one would without preemption, and each of the others stretches the one before by what
    // arrives meanwhile.
    let (n, command_ns) = (5, 2e4);
    for level in [1, 2] {
        let (classes, tasks) =
            classes(&[(exponential(command_ns), 0.2), (exponential(command_ns), 0.3)], n);
        let cobham = not_preemptive(&classes);
        let residual = |square: f64, gap_ns: f64| square / (2.0 * gap_ns);
        let of_command = residual(2.0 * command_ns * command_ns, classes[1].gap_ns / f64::from(n));
        let urgent = residual(classes[0].service.square, classes[0].gap_ns) + of_command;
        let urgent = urgent / 0.8 + classes[0].service.mean;
        let rest = f64::from(n - 1) * command_ns / 0.8 + command_ns;
        let low = cobham[1] - classes[1].service.mean + rest;
        compare(&format!("level {level}"), level, 8, visible(tasks), &[urgent, low]);
    }
}
