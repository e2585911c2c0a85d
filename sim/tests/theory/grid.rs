//! Closed forms with parameters drawn at random, from fixed seeds.

use xsched_sim::scenario::{DeviceSpec, Dist, Scenario, TaskSpec};

use crate::build::{
    S, device, exclusive, exponential, poisson, prioritised, run_fast, scenario, sharing, task,
    think,
};
use crate::draw::Draw;
use crate::formulas::{Class, Moments, closed_loop, one_server, preemptive, sojourn};
use crate::measure::{assert_agrees, mean, mean_latency, over_seeds};

const SEEDS: u64 = 6;

fn any_length(draw: &mut Draw, mean_ns: f64) -> Dist {
    match draw.below(5) {
        0 => Dist::Constant(mean_ns as u64),
        1 => exponential(mean_ns),
        2 => Dist::LogNormal { mean_ns, sigma: draw.between(0.1, 0.9) },
        3 => Dist::Uniform { min_ns: (mean_ns / 4.0) as u64, max_ns: (mean_ns * 1.75) as u64 },
        _ => {
            let values = [0.3, 0.8, 3.0].map(|share| (share * mean_ns) as u64);
            let weights = [draw.between(1.0, 3.0), draw.between(1.0, 3.0), 1.0];
            Dist::Empirical { values_ns: values.into(), weights: weights.into() }
        }
    }
}

#[test]
fn one_task_with_any_parameters() {
    let mut draw = Draw::new(6);
    for round in 0..8 {
        let mean_ns = draw.scale(1e4, 1e6);
        let command = any_length(&mut draw, mean_ns);
        let commands = 1 + draw.below(4) as u32;
        let service = Moments::of(&command).sum_of(commands);
        let load = draw.between(0.2, 0.8);
        let gap_ns = service.mean / load;
        let variation = service.square / service.mean.powi(2) - 1.0;
        let requests = (5_000.0 * (1.0 + variation) / (1.0 - load).powi(2)) as u64;
        let threshold = 1 + draw.below(20) as u32;
        let spec = TaskSpec {
            arrival: poisson(gap_ns),
            requests: Some(requests),
            commands,
            command,
            threshold,
            batch: 1 + draw.below(u64::from(threshold)) as u32,
            outstanding: 1 + draw.below(50) as u32,
            ..task("a")
        };
        let what = format!("{round}: {:?} x {commands} at {load:.2}", spec.command);
        let scenario = scenario(device(), vec![spec]);
        let found =
            over_seeds(SEEDS, |seed| vec![mean_latency(&run_fast(&scenario, 100 + seed).tasks[0])]);
        assert_agrees(&what, found[0], sojourn(gap_ns, service));
    }
}

#[test]
fn priority_classes_with_any_parameters() {
    let mut draw = Draw::new(7);
    for round in 0..5 {
        let number = 2 + draw.below(3) as usize;
        let load = draw.between(0.4, 0.7) / number as f64;
        let mut classes = Vec::new();
        let mut tasks = Vec::new();
        for i in 0..number {
            let mean_ns = draw.scale(5e4, 3e5);
            let command = any_length(&mut draw, mean_ns);
            let service = Moments::of(&command);
            let gap_ns = service.mean / (load * draw.between(0.7, 1.3));
            classes.push(Class { gap_ns, service });
            let (arrival, priority) = (poisson(gap_ns), 100 - 7 * i as i16);
            tasks.push(TaskSpec { arrival, priority, command, ..task(&format!("c{i}")) });
        }
        // As long as the slowest class needs.
        let slowest = classes.iter().map(|class| class.gap_ns).fold(0.0, f64::max);
        let scenario = prioritised(device(), 3, tasks);
        let duration_ns = Some((30_000.0 * slowest) as u64);
        let scenario = Scenario { duration_ns, warmup_ns: (100.0 * slowest) as u64, ..scenario };
        let found = over_seeds(SEEDS, |seed| {
            run_fast(&scenario, 200 + seed).tasks.iter().map(mean_latency).collect()
        });
        for (class, (found, expected)) in found.iter().zip(preemptive(&classes)).enumerate() {
            assert_agrees(&format!("{round}: {number} classes, {class}"), *found, expected);
        }
    }
}

#[test]
fn closed_loops_with_any_parameters() {
    let mut draw = Draw::new(8);
    for round in 0..12 {
        let service_ns = draw.scale(2e4, 5e5);
        let count = 2 + draw.below(40) as u32;
        let pause_ns = service_ns * f64::from(count) * draw.scale(0.3, 4.0);
        let contention = draw.between(0.0, 2.0);
        let shared = |n: u32| f64::from(n) / (1.0 + contention * f64::from(n - 1));
        let of = |speed: &dyn Fn(u32) -> f64| closed_loop(count, pause_ns, service_ns, speed);
        let (device, expected): (DeviceSpec, f64) = match draw.below(3) {
            0 => (device(), of(&one_server)),
            1 => (exclusive(), of(&one_server)),
            _ => (sharing(contention), of(&shared)),
        };
        let arrival = think(exponential(pause_ns));
        let spec = TaskSpec { count, arrival, command: exponential(service_ns), ..task("loop") };
        let what = format!("{round}: {count} on {:?}", device.concurrency);
        let scenario = scenario(device, vec![spec]);
        let duration_ns = Some((50_000.0 * service_ns) as u64);
        let scenario = Scenario { duration_ns, warmup_ns: S / 10, ..scenario };
        let found = over_seeds(SEEDS, |seed| {
            let outcome = run_fast(&scenario, 300 + seed);
            let all: Vec<u64> = outcome.tasks.iter().flat_map(|t| t.latencies_ns.clone()).collect();
            vec![mean(&all)]
        });
        assert_agrees(&what, found[0], expected);
    }
}
