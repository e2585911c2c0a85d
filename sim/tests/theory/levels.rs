//! Cost and latency of each level of preemption.

use xsched_sim::outcome::Outcome;
use xsched_sim::scenario::{DeviceSpec, Dist, Scenario, TaskSpec};

use crate::build::{
    MS, S, US, device, poisson, prioritised, run_checked, run_fast, sharing, task, think,
};
use crate::draw::Draw;

/// A task that always has work, of commands of this length.
fn endless(command_ns: u64) -> TaskSpec {
    TaskSpec { commands: 10_000, command: Dist::Constant(command_ns), ..task("victim") }
}

/// The victim and a task that takes the device away at random times and for long, without
/// disturbing it otherwise.
fn preempted(device: DeviceSpec, level: u8, latency_ns: u64, victim: TaskSpec) -> Outcome {
    let urgent = TaskSpec {
        priority: 1,
        start_ns: MS,
        arrival: poisson(100e6),
        command: Dist::Constant(50 * MS),
        ..task("urgent")
    };
    let scenario = prioritised(device, level, vec![victim, urgent]);
    let (duration_ns, scheduler_latency_ns) = (Some(40 * S), latency_ns);
    run_fast(&Scenario { duration_ns, scheduler_latency_ns, ..scenario }, 1)
}

/// The longest time to quiet; there must be enough of them to mean something, one for each hold.
fn longest_quiet(outcome: &Outcome) -> u64 {
    let device = &outcome.devices[0];
    assert!(device.quiet_latency_ns.len() > 100, "{} holds", device.quiet_latency_ns.len());
    assert!(device.preemptions - device.quiet_latency_ns.len() as u64 <= 1);
    *device.quiet_latency_ns.iter().max().expect("there are some")
}

/// Checks that the longest time is within a bound, and that the bound is not much too high.
fn assert_bound(what: &str, longest_ns: u64, bound_ns: u64) {
    assert!(longest_ns <= bound_ns, "{what}: {longest_ns}, at most {bound_ns}");
    assert!(longest_ns * 2 > bound_ns, "{what}: {longest_ns} is far below {bound_ns}");
}

#[test]
fn blocking_waits_for_at_most_the_window() {
    let mut draw = Draw::new(2);
    for (threshold, batch) in [(1, 1), (2, 1), (8, 4), (16, 8), (64, 32), (16, 1), (16, 16)] {
        let command_ns = draw.scale(5e3, 3e5) as u64;
        let victim = TaskSpec { threshold, batch, ..endless(command_ns) };
        let quiet_ns = longest_quiet(&preempted(sharing(0.0), 1, 0, victim.clone()));
        let window_ns = u64::from(threshold) * command_ns;
        assert_bound(&format!("window {threshold}/{batch}"), quiet_ns, window_ns);
        // Orders that take time come later by that much; launches that take time may still arrive.
        let late = DeviceSpec { host_launch_ns: US, launch_latency_ns: 4 * US, ..sharing(0.0) };
        let quiet_ns = longest_quiet(&preempted(late, 1, 10 * US, victim));
        assert!(quiet_ns <= window_ns + 15 * US, "late window {threshold}/{batch}: {quiet_ns}");
    }
}

#[test]
fn deactivating_waits_for_at_most_what_lies_between_two_gates() {
    let mut draw = Draw::new(3);
    for spacing_us in [0, 20, 50, 200] {
        for _ in 0..3 {
            let command_ns = draw.scale(5e3, 3e5) as u64;
            let close_ns = draw.below(5_000);
            let latency_ns = draw.below(5_000);
            let (spacing, gate_ns) = (spacing_us * US, 2 * US);
            let gated = DeviceSpec {
                gate_ns,
                gate_close_ns: close_ns,
                gate_spacing_ns: spacing,
                ..sharing(0.0)
            };
            let outcome = preempted(gated, 2, latency_ns, endless(command_ns));
            let quiet_ns = longest_quiet(&outcome);
            let between_ns = (spacing / command_ns).max(1) * command_ns;
            let bound_ns = latency_ns + close_ns + gate_ns + between_ns;
            assert_bound(&format!("{command_ns}, spacing {spacing_us}"), quiet_ns, bound_ns);
            assert!(bound_ns <= latency_ns + close_ns + gate_ns + spacing + command_ns);
        }
    }
}

#[test]
fn interrupting_waits_for_the_save() {
    let mut draw = Draw::new(4);
    for _ in 0..8 {
        let (close_ns, latency_ns) = (draw.below(5_000), draw.below(5_000));
        let costly = DeviceSpec {
            gate_close_ns: close_ns,
            save_fixed_ns: draw.below(50_000),
            save_context_ns: draw.below(100_000),
            restore_fixed_ns: draw.below(50_000),
            restore_context_ns: draw.below(100_000),
            ..sharing(0.0)
        };
        let permille = draw.below(1_001);
        let save_ns = costly.save_fixed_ns + costly.save_context_ns * permille / 1_000;
        let context = permille as f64 / 1_000.0;
        let victim = TaskSpec { context, ..endless(20 * MS) };
        let outcome = preempted(costly, 3, latency_ns, victim);
        let expected = latency_ns + close_ns + save_ns;
        assert_eq!(longest_quiet(&outcome), expected);
        let quiet = &outcome.devices[0].quiet_latency_ns;
        // Few of them come when a command has just ended.
        let exact = quiet.iter().filter(|&&ns| ns == expected).count();
        assert!(exact * 100 >= quiet.len() * 98, "{exact} of {}", quiet.len());
    }
}

#[test]
fn a_victim_loses_exactly_the_saves_the_restores_and_the_time_of_others() {
    // One long command, interrupted by one request after the other.
    let costly = DeviceSpec {
        save_fixed_ns: 7 * US,
        save_context_ns: 5 * US,
        restore_fixed_ns: 11 * US,
        restore_context_ns: 3 * US,
        ..device()
    };
    for count in [1, 2, 10, 100] {
        let victim = TaskSpec { requests: Some(1), ..endless(100 * MS) };
        let victim = TaskSpec { commands: 1, ..victim };
        let urgent = TaskSpec {
            priority: 1,
            start_ns: US,
            requests: Some(count),
            arrival: think(Dist::Constant(50 * US)),
            command: Dist::Constant(20 * US),
            ..task("urgent")
        };
        let outcome = run_checked(&prioritised(costly.clone(), 3, vec![victim, urgent]), 1);
        let expected = 100 * MS + count * (7 + 5 + 20 + 11 + 3) * US;
        assert_eq!(outcome.tasks[0].latencies_ns, [expected]);
        // Each urgent request waits for the save.
        assert_eq!(outcome.tasks[1].latencies_ns, vec![32 * US; count as usize]);
        assert_eq!(outcome.devices[0].overhead_ns, count * 26 * US);
    }
}

/// Commands per second of a victim that is alone.
fn rate(device: DeviceSpec, level: u8, command_ns: u64) -> f64 {
    let scenario = prioritised(device, level, vec![endless(command_ns)]);
    let outcome = run_fast(&Scenario { duration_ns: Some(2 * S), ..scenario }, 1);
    outcome.commands as f64 / 2.0
}

#[test]
fn gates_cost_their_time_once_per_spacing() {
    let gate_ns = 2_200;
    for command_ns in [5_000, 12_000, 40_000, 150_000] {
        let plain = rate(device(), 1, command_ns);
        for spacing_ns in [0, 10_000, 60_000, 200_000] {
            let gated = DeviceSpec { gate_ns, gate_spacing_ns: spacing_ns, ..device() };
            let per_gate = (spacing_ns / command_ns).max(1);
            let with_gates = command_ns as f64 + gate_ns as f64 / per_gate as f64;
            for level in [2, 3] {
                let cost = plain / rate(gated.clone(), level, command_ns);
                let expected = with_gates / command_ns as f64;
                let off = cost / expected - 1.0;
                let what = format!("{command_ns} ns every {spacing_ns}: {cost}, not {expected}");
                assert!(off.abs() < 0.002, "{what}");
            }
            let free = rate(gated, 1, command_ns);
            assert!((free / plain - 1.0).abs() < 1e-6, "level 1 needs no gates");
        }
    }
}
