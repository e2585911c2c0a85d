//! Latencies that can be added up, to the nanosecond.

use xsched_sim::scenario::{DeviceSpec, Dist, Scenario, TaskSpec};

use crate::build::{S, US, device, periodic, prioritised, run_checked, run_fast, scenario, task};
use crate::draw::Draw;

/// A request of `n` commands on an idle device: each is ready once the host has dispatched and
/// launched it and it has arrived, runs after the one before, and the last one is seen late.
fn request_ns(device: &DeviceSpec, spec: &TaskSpec, command_ns: u64, gate_ns: u64) -> u64 {
    let host_ns = spec.dispatch_ns + spec.host_launch_ns.unwrap_or(device.host_launch_ns);
    let mut end_ns = 0;
    for i in 0..u64::from(spec.commands) {
        let launch_ns = i * host_ns + spec.dispatch_ns;
        let ready_ns = (i + 1) * host_ns + device.launch_latency_ns;
        // There is no gate where nothing is in flight.
        let gate_ns = if launch_ns < end_ns { gate_ns } else { 0 };
        end_ns = ready_ns.max(end_ns) + gate_ns + command_ns;
    }
    end_ns + device.detect_ns + device.host_sync_ns
}

#[test]
fn a_lone_command_takes_the_sum_of_all_delays() {
    let slow = crate::build::slow_device();
    let spec = TaskSpec {
        requests: Some(100),
        arrival: periodic(100 * US),
        command: Dist::Constant(30 * US),
        ..task("a")
    };
    let outcome = run_checked(&scenario(slow, vec![spec]), 1);
    // Launching 3, arriving 4, running 30, seeing 8, waking up 5.
    assert_eq!(outcome.tasks[0].latencies_ns, vec![50 * US; 100]);
    assert_eq!(outcome.duration_ns, (99 * 100 + 50) * US);
    assert_eq!(outcome.devices[0].busy_ns, 100 * 30 * US);
}

#[test]
fn periodic_requests_take_the_sum_of_all_delays() {
    let mut draw = Draw::new(1);
    for round in 0..300 {
        let device = DeviceSpec {
            launch_latency_ns: draw.below(20_000),
            host_launch_ns: draw.below(10_000),
            host_sync_ns: draw.below(10_000),
            detect_ns: draw.below(20_000),
            gate_ns: draw.below(3_000),
            ..device()
        };
        let command_ns = 1 + draw.below(15_000);
        let commands = 1 + draw.below(12) as u32;
        let spec = TaskSpec {
            requests: Some(20),
            arrival: periodic(S),
            commands,
            command: Dist::Constant(command_ns),
            threshold: 16,
            batch: 1 + draw.below(16) as u32,
            dispatch_ns: draw.below(2) * draw.below(5_000),
            host_launch_ns: (draw.below(2) == 0).then(|| draw.below(5_000)),
            ..task("a")
        };
        let level = 1 + draw.below(3) as u8;
        let latency_ns = draw.below(5_000);
        let alone = prioritised(device.clone(), level, vec![spec.clone()]);
        let alone = Scenario { scheduler_latency_ns: latency_ns, ..alone };
        let gate_ns = if level >= 2 { device.gate_ns } else { 0 };
        let expected = request_ns(&device, &spec, command_ns, gate_ns);
        let outcome = run_checked(&alone, round);
        assert_eq!(outcome.tasks[0].latencies_ns, vec![expected; 20], "{round}: {alone:?}");
    }
}

#[test]
fn requests_that_come_too_fast_wait_for_those_before() {
    // 50 each, one every 40: each waits 10 longer than the one before.
    let spec = TaskSpec {
        requests: Some(50),
        arrival: periodic(40 * US),
        command: Dist::Constant(30 * US),
        ..task("a")
    };
    let outcome = run_fast(&scenario(crate::build::slow_device(), vec![spec]), 1);
    let expected: Vec<u64> = (0..50).map(|i| (50 + 10 * i) * US).collect();
    assert_eq!(outcome.tasks[0].latencies_ns, expected);
}

#[test]
fn requests_on_their_way_together_wait_only_for_the_device() {
    // Launched while the one before runs, the device never waits: 30 each, one every 20.
    let spec = TaskSpec {
        requests: Some(50),
        arrival: periodic(20 * US),
        command: Dist::Constant(30 * US),
        outstanding: 100,
        threshold: 64,
        batch: 64,
        ..task("a")
    };
    let outcome = run_fast(&scenario(crate::build::slow_device(), vec![spec]), 1);
    let expected: Vec<u64> = (0..50).map(|i| (50 + 10 * i) * US).collect();
    assert_eq!(outcome.tasks[0].latencies_ns, expected);
}

#[test]
fn closed_loops_pause_between_completion_and_arrival() {
    let think = Dist::Constant(70 * US);
    let spec = TaskSpec {
        requests: Some(100),
        arrival: crate::build::think(think),
        command: Dist::Constant(30 * US),
        ..task("a")
    };
    let outcome = run_fast(&scenario(crate::build::slow_device(), vec![spec]), 1);
    assert_eq!(outcome.tasks[0].latencies_ns, vec![50 * US; 100]);
    assert_eq!(outcome.duration_ns, (100 * 50 + 99 * 70) * US);
}
