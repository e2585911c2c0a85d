//! Laws that hold for every discipline, policy and level.

use xsched_sim::outcome::{Outcome, SpanKind, TaskOutcome};
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{Concurrency, DeviceSpec, Dist, Scenario, TaskSpec, WindowSpec};

use crate::build::{
    MS, S, US, exponential, poisson, prioritised, run_fast, slow_device, spans, task, think,
};
use crate::measure::mean_latency;

const CONCURRENCIES: [Concurrency; 4] = [
    Concurrency::RoundRobin,
    Concurrency::Exclusive,
    Concurrency::ProcessorSharing { contention: 1.0 },
    Concurrency::ProcessorSharing { contention: 0.4 },
];

/// A device with every cost under every kind of sharing, policy and level.
fn everywhere(tasks: &[TaskSpec], mut look: impl FnMut(&str, &Scenario)) {
    for concurrency in CONCURRENCIES {
        for (policy, level) in [("fcfs", 1), ("hpf", 1), ("hpf", 2), ("hpf", 3)] {
            let device = DeviceSpec { concurrency, gate_spacing_ns: 50 * US, ..slow_device() };
            let scenario = prioritised(device, level, tasks.to_vec());
            let scenario =
                Scenario { policy: policy.to_owned(), scheduler_latency_ns: 2 * US, ..scenario };
            look(&format!("{concurrency:?} {policy} {level}"), &scenario);
        }
    }
}

fn per_ns(task: &TaskOutcome) -> f64 {
    task.latencies_ns.len() as f64 / task.measured_ns as f64
}

#[test]
fn a_closed_loop_has_as_many_customers_as_it_began_with() {
    // Throughput times (response and pause), the interactive response time law.
    let looping = |name, outstanding, priority| TaskSpec {
        arrival: think(exponential(2e6)),
        commands: 10,
        command: exponential(20_000.0),
        outstanding,
        priority,
        ..task(name)
    };
    let window = WindowSpec::Adaptive;
    let tasks = [looping("a", 1, 2), looping("b", 4, 1), TaskSpec { window, ..looping("c", 2, 0) }];
    everywhere(&tasks, |what, scenario| {
        let times = Scenario { duration_ns: Some(12 * S), warmup_ns: S / 10, ..scenario.clone() };
        let outcome = run_fast(&times, 3);
        for (task, spec) in outcome.tasks.iter().zip(&tasks) {
            let customers = per_ns(task) * (mean_latency(task) + 2e6);
            let off = customers / f64::from(spec.outstanding) - 1.0;
            assert!(off.abs() < 0.03, "{what}, {}: {:+.2} % customers", task.name, off * 100.0);
        }
    });
}

/// How many requests of a task are there on average, counted at many times.
fn present(outcome: &Outcome, task: u32, from_ns: u64) -> f64 {
    let requests = spans(outcome, task, SpanKind::Request);
    let looks = 20_000;
    let step_ns = (outcome.duration_ns - from_ns) / looks;
    // In order of arrival, so those that are there are found by counting.
    let arrived = |at: u64| requests.partition_point(|&(from, _)| from <= at);
    let mut ends: Vec<u64> = requests.iter().map(|&(_, to)| to).collect();
    ends.sort_unstable();
    let gone = |at: u64| ends.partition_point(|&to| to <= at);
    let at = |look: u64| from_ns + look * step_ns;
    (0..looks).map(|look| (arrived(at(look)) - gone(at(look))) as f64).sum::<f64>() / looks as f64
}

#[test]
fn throughput_times_latency_is_the_number_of_requests_there() {
    let open = |name, priority| TaskSpec {
        arrival: poisson(1e6),
        commands: 6,
        command: Dist::LogNormal { mean_ns: 25_000.0, sigma: 0.7 },
        outstanding: 3,
        priority,
        ..task(name)
    };
    let tasks = [open("a", 2), open("b", 1), open("c", 0)];
    everywhere(&tasks, |what, scenario| {
        let warmup_ns = S / 10;
        let times = Scenario { duration_ns: Some(4 * S), warmup_ns, ..scenario.clone() };
        let options =
            RunOptions { seed: Some(4), timeline_spans: 1 << 22, ..RunOptions::default() };
        let outcome = run(&times, &options, &mut |_| {}).expect("the scenario is sound");
        for (number, task) in outcome.tasks.iter().enumerate() {
            let little = per_ns(task) * mean_latency(task);
            let off = present(&outcome, number as u32, warmup_ns) / little - 1.0;
            assert!(off.abs() < 0.03, "{what}, {}: {:+.2} %", task.name, off * 100.0);
            // What comes goes.
            let kept_up = per_ns(task) * 1e6;
            assert!((kept_up - 1.0).abs() < 0.05, "{what}, {}: {kept_up}", task.name);
        }
    });
}

#[test]
fn the_device_is_busy_with_commands_gates_and_restores() {
    let finite = |name, priority, start_ns| TaskSpec {
        requests: Some(40),
        arrival: think(exponential(1e6)),
        commands: 12,
        command: exponential(30_000.0),
        priority,
        start_ns,
        ..task(name)
    };
    let tasks = [finite("a", 1, MS), finite("b", 0, 0), finite("c", 0, 0)];
    everywhere(&tasks, |what, scenario| {
        let sharing =
            matches!(scenario.devices[0].concurrency, Concurrency::ProcessorSharing { .. });
        if sharing {
            return;
        }
        let outcome = crate::build::run_checked(scenario, 5);
        let device = &outcome.devices[0];
        let saves: u64 = (0..3).flat_map(|t| spans(&outcome, t, SpanKind::Save)).map(length).sum();
        let work: u64 = outcome.tasks.iter().map(|task| task.device_time_ns).sum();
        assert_eq!(device.busy_ns + saves, work + device.overhead_ns, "{what}");
        let bars = |t| {
            let restores = spans(&outcome, t, SpanKind::Restore).into_iter();
            restores.chain(spans(&outcome, t, SpanKind::Command)).map(length).sum::<u64>()
        };
        assert_eq!((0..3).map(bars).sum::<u64>(), device.busy_ns, "{what}");
    });
}

fn length((from, to): (u64, u64)) -> u64 {
    to - from
}
