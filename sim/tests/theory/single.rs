//! One task alone is an M/G/1 queue.

use xsched_sim::scenario::{Dist, TaskSpec};

use crate::build::{device, exponential, poisson, run_fast, scenario, task};
use crate::formulas::{Moments, sojourn};
use crate::measure::{assert_agrees, mean_latency, over_seeds, quantile};

/// Mean service time of a request.
const SERVICE_NS: f64 = 100_000.0;
const SEEDS: u64 = 8;

/// How many requests per seed make the standard error small: the variance of a mean wait grows with
/// the variation of the service, and as the square of the idle share gets smaller.
fn requests(load: f64, service: Moments) -> u64 {
    let variation = service.square / service.mean.powi(2) - 1.0;
    (3_000.0 * (1.5 + variation) / (1.0 - load).powi(2)) as u64
}

/// Mean sojourn and utilisation of a task whose requests come at random times.
fn check(what: &str, load: f64, spec: &TaskSpec) {
    let service = Moments::of(&spec.command).sum_of(spec.commands);
    let gap_ns = service.mean / load;
    let requests = Some(requests(load, service));
    let spec = TaskSpec { arrival: poisson(gap_ns), requests, ..spec.clone() };
    let scenario = scenario(device(), vec![spec]);
    let found = over_seeds(SEEDS, |seed| {
        let outcome = run_fast(&scenario, seed);
        let busy = outcome.devices[0].busy_ns as f64 / outcome.duration_ns as f64;
        vec![mean_latency(&outcome.tasks[0]), busy * 1e6]
    });
    assert_agrees(&format!("{what} at {load}"), found[0], sojourn(gap_ns, service));
    assert_agrees(&format!("{what} at {load}: utilisation"), found[1], load * 1e6);
}

fn served(command: Dist) -> TaskSpec {
    TaskSpec { command, ..task("a") }
}

#[test]
fn exponential_service_at_light_load() {
    for load in [0.3, 0.5, 0.7] {
        check("M/M/1", load, &served(exponential(SERVICE_NS)));
    }
}

#[test]
fn exponential_service_at_heavy_load() {
    check("M/M/1", 0.8, &served(exponential(SERVICE_NS)));
    check("M/M/1", 0.9, &served(exponential(SERVICE_NS)));
}

#[test]
fn constant_service() {
    for load in [0.3, 0.5, 0.7, 0.8, 0.9] {
        check("M/D/1", load, &served(Dist::Constant(100_000)));
    }
}

#[test]
fn log_normal_service() {
    for load in [0.3, 0.5, 0.7, 0.8] {
        let command = Dist::LogNormal { mean_ns: SERVICE_NS, sigma: 0.8 };
        check("M/LogNormal/1", load, &served(command));
    }
}

#[test]
fn uniform_service() {
    for load in [0.3, 0.5, 0.7, 0.8] {
        let command = Dist::Uniform { min_ns: 20_000, max_ns: 180_000 };
        check("M/Uniform/1", load, &served(command));
    }
}

#[test]
fn service_of_two_lengths() {
    let values_ns = [50_000, 550_000].into();
    let command = Dist::Empirical { values_ns, weights: [9.0, 1.0].into() };
    for load in [0.3, 0.5, 0.7, 0.8] {
        check("two lengths", load, &served(command.clone()));
    }
}

#[test]
fn requests_of_several_commands() {
    // The sum of exponential commands, however many of them are launched ahead.
    for (commands, threshold, batch) in [(5, 1, 1), (5, 16, 8), (40, 4, 2)] {
        let command = exponential(SERVICE_NS / f64::from(commands));
        let spec = TaskSpec { commands, threshold, batch, ..served(command) };
        check(&format!("M/E{commands}/1"), 0.6, &spec);
    }
}

#[test]
fn requests_that_wait_on_the_device_instead_of_the_thread() {
    for (commands, threshold, batch) in [(1, 1, 1), (1, 16, 16), (4, 4, 4), (3, 64, 32)] {
        let command = exponential(SERVICE_NS / f64::from(commands));
        let spec = TaskSpec { commands, threshold, batch, outstanding: 256, ..served(command) };
        check(&format!("{commands} commands, outstanding"), 0.7, &spec);
    }
}

#[test]
fn the_tail_of_exponential_service() {
    for load in [0.3, 0.5, 0.7] {
        let requests = Some(3 * requests(load, Moments::of(&exponential(SERVICE_NS))));
        let arrival = poisson(SERVICE_NS / load);
        let spec = TaskSpec { arrival, requests, ..served(exponential(SERVICE_NS)) };
        let scenario = scenario(device(), vec![spec]);
        let found = over_seeds(SEEDS, |seed| {
            let outcome = run_fast(&scenario, seed);
            [0.5, 0.95, 0.99].map(|share| quantile(&outcome.tasks[0], share)).into()
        });
        // The sojourn is exponential itself.
        let mean_ns = SERVICE_NS / (1.0 - load);
        for (found, share) in found.iter().zip([0.5_f64, 0.95, 0.99]) {
            let expected = -mean_ns * (1.0 - share).ln();
            assert_agrees(&format!("quantile {share} at {load}"), *found, expected);
        }
    }
}
