//! The measured BERT runs: the scenarios that claim to explain them must do so over 200 seeds.

use std::path::Path;

use xsched_sim::report::{Series, run_series};
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{Dist, Scenario};

fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
    Scenario::load(&path).unwrap()
}

fn series(name: &str) -> Series {
    let scenario = scenario(name);
    let options = RunOptions { checks: true, ..RunOptions::default() };
    run_series(&scenario, &options, u64::from(scenario.seeds), 2, &|_| {}).unwrap().0
}

/// `references` is how many values were measured, so that none is left out.
fn explains(name: &str, references: usize) {
    let series = series(name);
    assert_eq!(series.seeds(), 200);
    assert_eq!(series.violations(), 0);
    assert_eq!(series.references().len(), references);
    for reference in series.references() {
        assert!(reference.is_ok(), "{name}: {reference:?}");
    }
}

#[test]
fn device_bound_round_robin_explains_the_mi308x() {
    explains("bert-mi308x.toml", 5);
}

#[test]
fn a_fair_host_lock_explains_the_mi308x_as_well() {
    explains("bert-mi308x-hostlock.toml", 5);
}

#[test]
fn waiting_for_the_whole_device_explains_three_threads_on_the_h200() {
    explains("bert-h200.toml", 4);
}

#[test]
fn waiting_for_the_whole_device_explains_six_threads_on_the_h200() {
    explains("bert-h200-six.toml", 2);
}

/// With more, a scenario would describe the data and explain nothing; with none, nothing was fitted
/// and the file should not say so.
#[test]
fn each_data_set_has_at_most_two_fitted_parameters() {
    for name in ["bert-mi308x", "bert-mi308x-hostlock", "bert-h200", "bert-h200-six"] {
        let fitted = scenario(&format!("{name}.toml")).fitted.len();
        assert!((1..=2).contains(&fitted), "{name}: {fitted}");
    }
}

fn p99_ms(name: &str, policy: &str, level: u8) -> f64 {
    let options = RunOptions {
        policy: Some(policy.to_owned()),
        level: Some(level),
        checks: true,
        ..RunOptions::default()
    };
    let outcome = run(&scenario(name), &options, &mut |_| {}).unwrap();
    let high = outcome.tasks.iter().find(|task| task.name == "high").unwrap();
    assert!(high.latencies_ns.len() >= 1_000, "a P99 needs a thousand samples");
    let mut sorted = high.latencies_ns.clone();
    sorted.sort_unstable();
    sorted[(sorted.len() * 99).div_ceil(100) - 1] as f64 / 1e6
}

#[test]
fn priority_helps_against_an_endless_low_task() {
    let name = "bert-mi308x-endless.toml";
    let scenario = scenario(name);
    let (device, task) = (&scenario.devices[0], &scenario.tasks[0]);
    let Dist::Constant(command_ns) = task.command else { panic!("{:?}", task.command) };
    let alone_ns = u64::from(task.commands) * command_ns;
    // Without priorities each command but the first waits for one of the other task's.
    let fcfs = p99_ms(name, "fcfs", 2);
    let least_ns = 2 * alone_ns - command_ns;
    assert!(fcfs >= least_ns as f64 / 1e6, "{fcfs}");
    // With them the request waits until a gate stops the other task, and pays for its own gates.
    // The rest is what a request takes on an idle device, beside its commands.
    let gates_ns = alone_ns.div_ceil(device.gate_spacing_ns) * device.gate_ns;
    let hold_ns = 2 * scenario.scheduler_latency_ns + device.gate_close_ns;
    let waits_ns = hold_ns + device.gate_spacing_ns + command_ns;
    let idle_ns =
        device.host_launch_ns + device.launch_latency_ns + device.detect_ns + device.host_sync_ns;
    let lv2 = p99_ms(name, "hpf", 2);
    let most_ns = alone_ns + gates_ns + waits_ns + idle_ns;
    assert!(lv2 <= most_ns as f64 / 1e6, "{lv2} exceeds {most_ns} ns");
}
