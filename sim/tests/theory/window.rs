//! The adaptive window: as fast as a very large one, and about as small as possible.

use xsched_sim::outcome::Outcome;
use xsched_sim::scenario::{DeviceSpec, Dist, Scenario, TaskSpec, WindowSpec};

use crate::build::{MS, S, US, poisson, prioritised, run_fast, scenario, sharing, task};
use crate::draw::Draw;
use crate::measure::mean;

/// Requests of many commands, one after the other, in a window.
fn batch(command: Dist, window: WindowSpec, threshold: u32) -> TaskSpec {
    let half = (threshold / 2).max(1);
    TaskSpec { commands: 2_000, command, window, threshold, batch: half, ..task("batch") }
}

/// A device that the host reaches after these times: to launch, to arrive, to see.
fn far(host_launch_ns: u64, launch_latency_ns: u64, detect_ns: u64) -> DeviceSpec {
    let launch_queue = 1 << 20;
    let near = DeviceSpec { host_sync_ns: 5 * US, launch_queue, ..sharing(0.0) };
    DeviceSpec { host_launch_ns, launch_latency_ns, detect_ns, ..near }
}

fn throughput(device: &DeviceSpec, spec: TaskSpec, duration_ns: u64) -> f64 {
    let scenario = scenario(device.clone(), vec![spec]);
    let outcome = run_fast(&Scenario { duration_ns: Some(duration_ns), ..scenario }, 1);
    outcome.tasks[0].device_time_ns as f64 / duration_ns as f64
}

/// Blocks the batch for long, at random times.
fn quiet(device: &DeviceSpec, spec: TaskSpec) -> Outcome {
    let urgent = TaskSpec {
        priority: 1,
        start_ns: 100 * MS,
        arrival: poisson(100e6),
        command: Dist::Constant(20 * MS),
        ..task("urgent")
    };
    let scenario = prioritised(device.clone(), 1, vec![spec, urgent]);
    run_fast(&Scenario { duration_ns: Some(10 * S), ..scenario }, 1)
}

/// Compares with a fixed window of 4096: not more than 1 % slower.
fn keeps_up(device: &DeviceSpec, command: &Dist, command_ns: u64) {
    let duration_ns = 40_000 * command_ns.max(device.host_launch_ns);
    let fixed = throughput(device, batch(command.clone(), WindowSpec::Fixed, 4096), duration_ns);
    let adaptive = batch(command.clone(), WindowSpec::Adaptive, 4096);
    let share = throughput(device, adaptive, duration_ns) / fixed;
    assert!(share > 0.99, "{command:?} on {device:?}: {share}");
}

#[test]
fn an_adaptive_window_keeps_the_device_fed() {
    for command_ns in [1_000, 3_500, 10_000, 30_000, 100_000, 1_000_000] {
        for (launch_ns, latency_ns, detect_ns) in
            [(0, 0, 0), (500, 4_000, 8_000), (3_000, 4_000, 8_000), (1_000, 20_000, 50_000)]
        {
            let device = far(launch_ns, latency_ns, detect_ns);
            keeps_up(&device, &Dist::Constant(command_ns), command_ns);
        }
    }
}

#[test]
fn an_adaptive_window_keeps_the_device_fed_on_any_device() {
    let mut draw = Draw::new(5);
    for _ in 0..60 {
        let device = far(draw.below(5_000), draw.below(50_000), draw.below(100_000));
        let command_ns = draw.scale(2e3, 5e5) as u64;
        keeps_up(&device, &Dist::Constant(command_ns), command_ns);
    }
}

#[test]
fn an_adaptive_window_is_much_smaller_than_a_fixed_one() {
    let device = far(3_000, 4_000, 8_000);
    for command_ns in [10_000, 30_000, 100_000, 300_000] {
        let command = Dist::Constant(command_ns);
        let adaptive = quiet(&device, batch(command.clone(), WindowSpec::Adaptive, 64));
        let fixed = quiet(&device, batch(command, WindowSpec::Fixed, 64));
        let quiet_of = |outcome: &Outcome| {
            let times = &outcome.devices[0].quiet_latency_ns;
            assert!(times.len() > 50, "{}", times.len());
            (mean(times), *times.iter().max().expect("there are some"))
        };
        let ((adaptive, most_ns), (fixed, _)) = (quiet_of(&adaptive), quiet_of(&fixed));
        assert!(adaptive * 8.0 < fixed, "{command_ns}: {adaptive} against {fixed}");
        // What covers the way to the host and back (20 ms include the first command's sync), one
        // batch, and a margin of two commands.
        let batch = (20_000 / command_ns).max(1);
        let window = batch + 15_000_u64.div_ceil(command_ns) + 2;
        assert!(most_ns <= window * command_ns, "{command_ns}: {most_ns}, window {window}");
    }
}
