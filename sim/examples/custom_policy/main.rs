//! Simulates the policy next to it, and built-in policies for comparison.
//!
//! `cargo run --release -p xsched-sim --example custom_policy`

// The policy is written for a program that depends on `xsched` alone. The core has these modules by
// the same names.
extern crate xsched_core as xsched;

mod policy;

use std::error::Error;
use std::path::Path;

use xsched_core::time::Duration;
use xsched_sim::outcome::Outcome;
use xsched_sim::run::{RunOptions, run, run_with};
use xsched_sim::scenario::Scenario;

/// A service with short requests beside a job with long ones, on one device.
const SCENARIO: &str = r#"
version = 1
name = "service-and-job"
policy = "fcfs"
level = 2
duration_s = 5
warmup_ms = 100

[[device]]
name = "gpu"
max_level = 3

[[task]]
name = "service"
priority = 1
arrival = { kind = "closed", think_ms = 1 }
command = { kind = "exponential", mean_us = 50 }
commands = 20

[[task]]
name = "job"
arrival = { kind = "closed", think_ms = 0 }
command = { kind = "constant", us = 200 }
commands = 500
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::parse(SCENARIO, Path::new("service-and-job.toml"))?;
    println!("{:>12} {:>9} {:>12} {:>12} {:>9}", "policy", "task", "p50 ms", "p99 ms", "device %");
    for name in ["fcfs", "hpf", "wfq"] {
        let options = RunOptions { policy: Some(name.to_owned()), ..RunOptions::default() };
        show(&run(&scenario, &options, &mut |_| {})?);
    }
    let turns = policy::TakeTurns(Duration::from_ms(1));
    show(&run_with(&scenario, turns, &RunOptions::default(), &mut |_| {})?);
    Ok(())
}

fn show(outcome: &Outcome) {
    for task in &outcome.tasks {
        let mut sorted = task.latencies_ns.clone();
        sorted.sort_unstable();
        let at = |percent| sorted.get(sorted.len() * percent / 100).copied().unwrap_or(0);
        let ms = |percent| at(percent) as f64 / 1e6;
        let share = 100.0 * task.device_time_ns as f64 / outcome.duration_ns.max(1) as f64;
        let (policy, name) = (&outcome.policy, &task.name);
        println!("{policy:>12} {name:>9} {:>12.2} {:>12.2} {share:>9.1}", ms(50), ms(99));
    }
}
