//! Commands of several waves, urgent streams, and threads that take time to wake up, by hand.

#[path = "theory/build.rs"]
mod build;

use build::{US, device, once, prioritised, run_checked, runs, scenario, task, us};
use xsched_core::rng::SplitMix64;
use xsched_sim::outcome::Outcome;
use xsched_sim::scenario::{Arrival, DeviceSpec, Dist, Scenario, TaskSpec};

/// A command of 100 µs in this many waves, and from 30 µs on two commands of 10 µs beside it.
fn beside(waves: u32, urgent_stream: bool) -> Scenario {
    let long = TaskSpec { waves, ..once("long", 1, 100 * US) };
    let short = TaskSpec { urgent_stream, start_ns: 30 * US, ..once("short", 2, 10 * US) };
    scenario(device(), vec![long, short])
}

fn both(outcome: &Outcome) -> [Vec<(u64, u64)>; 2] {
    [0, 1].map(|task| us(runs(outcome, task)))
}

#[test]
fn an_urgent_stream_gets_in_between_two_waves() {
    let outcome = run_checked(&beside(4, true), 1);
    let [long, short] = both(&outcome);
    // The wave that runs when it comes ends at 50, and one more comes between its two commands.
    assert_eq!(long, [(0, 50), (60, 85), (95, 120)]);
    assert_eq!(short, [(50, 60), (85, 95)]);
    assert_eq!(outcome.tasks[0].latencies_ns, [120 * US]);
    assert_eq!(outcome.devices[0].busy_ns, 120 * US);
}

#[test]
fn neither_waves_nor_priorities_do_anything_alone() {
    for (waves, urgent) in [(1, true), (4, false), (1, false)] {
        let [long, short] = both(&run_checked(&beside(waves, urgent), 1));
        assert_eq!(long, [(0, 100)], "{waves} {urgent}");
        assert_eq!(short, [(100, 110), (110, 120)], "{waves} {urgent}");
    }
}

#[test]
fn an_urgent_stream_goes_before_others_that_wait() {
    let late = |name, start, urgent_stream| TaskSpec {
        urgent_stream,
        start_ns: start * US,
        ..once(name, 1, 10 * US)
    };
    let tasks = vec![once("a", 1, 100 * US), late("b", 10, false), late("c", 20, true)];
    let outcome = run_checked(&scenario(device(), tasks), 1);
    assert_eq!(us(runs(&outcome, 2)), [(100, 110)]);
    assert_eq!(us(runs(&outcome, 1)), [(110, 120)]);
}

#[test]
fn a_gate_costs_its_time_once_and_an_interrupt_keeps_what_is_left_of_all_waves() {
    let gated = DeviceSpec { gate_ns: 4 * US, gate_spacing_ns: 0, ..device() };
    let long = TaskSpec { waves: 4, ..once("long", 2, 100 * US) };
    let urgent = TaskSpec { priority: 1, start_ns: 130 * US, ..once("urgent", 1, 50 * US) };
    let tasks = vec![long.clone(), urgent.clone()];
    let [first, second] = both(&run_checked(&prioritised(gated, 2, tasks), 1));
    assert_eq!(first, [(0, 100), (100, 204)], "a hold at Lv2 does not stop what runs");
    assert_eq!(second, [(204, 254)]);
    let [first, second] = both(&run_checked(&prioritised(device(), 3, vec![long, urgent]), 1));
    assert_eq!(first, [(0, 100), (100, 130), (180, 250)]);
    assert_eq!(second, [(130, 180)]);
}

#[test]
fn waking_up_delays_the_first_command_of_each_request() {
    let sleepy =
        DeviceSpec { wake_ns: [7 * US].into(), queue_wake_ns: [9 * US].into(), ..device() };
    let request = || TaskSpec { requests: Some(2), ..once("a", 2, 10 * US) };
    let outcome = run_checked(&scenario(sleepy.clone(), vec![request()]), 1);
    assert_eq!(us(runs(&outcome, 0)), [(7, 17), (17, 27), (34, 44), (44, 54)]);
    assert_eq!(outcome.tasks[0].latencies_ns, [27 * US, 27 * US]);
    // A policy that holds queues has slept as well.
    let outcome = run_checked(&prioritised(sleepy.clone(), 1, vec![request()]), 1);
    assert_eq!(us(runs(&outcome, 0))[0], (9, 19));
    let plain = DeviceSpec { queue_wake_ns: [].into(), ..sleepy };
    let outcome = run_checked(&prioritised(plain, 1, vec![request()]), 1);
    assert_eq!(us(runs(&outcome, 0))[0], (7, 17));
}

#[test]
fn every_value_of_what_waking_up_takes_is_as_likely() {
    let sleepy = DeviceSpec { wake_ns: [US, 2 * US, 3 * US, 4 * US].into(), ..device() };
    let many = TaskSpec { requests: Some(4_000), ..task("a") };
    let many = TaskSpec { command: Dist::Constant(US), ..many };
    let outcome = run_checked(&scenario(sleepy, vec![many]), 1);
    for value in 2..=5 {
        let times = &outcome.tasks[0].latencies_ns;
        let count = times.iter().filter(|&&ns| ns == value * US).count();
        assert!((900..1_100).contains(&count), "{value}: {count}");
    }
}

#[test]
fn whatever_waves_and_urgency_there_are_no_invariant_breaks_and_no_work_is_lost() {
    let mut draw = SplitMix64::new(7);
    for seed in 0..200 {
        let spec = DeviceSpec {
            gate_ns: draw.below(3) * US,
            gate_spacing_ns: draw.below(2) * 50 * US,
            save_fixed_ns: draw.below(2) * 5 * US,
            restore_fixed_ns: draw.below(2) * 5 * US,
            ..device()
        };
        let tasks: Vec<TaskSpec> = (0..4)
            .map(|n| TaskSpec {
                waves: 1 + draw.below(5) as u32,
                urgent_stream: draw.below(2) == 0,
                priority: draw.below(3) as i16,
                requests: Some(20),
                commands: 1 + draw.below(4) as u32,
                command: Dist::Uniform { min_ns: 1, max_ns: 40 * US },
                arrival: Arrival::Closed { think: Dist::Constant(30 * US), jitter_ns: 10 * US },
                ..task(&format!("t{n}"))
            })
            .collect();
        let level = 1 + draw.below(3) as u8;
        let outcome = run_checked(&prioritised(spec, level, tasks), seed);
        let work_ns: u64 = outcome.tasks.iter().map(|task| task.device_time_ns).sum();
        let device = &outcome.devices[0];
        // A save stops everything, so that its time is not part of what ran.
        assert!(device.busy_ns <= work_ns + device.overhead_ns, "{seed}");
        assert!(device.busy_ns >= work_ns, "{seed}");
        assert!(outcome.tasks.iter().all(|task| task.latencies_ns.len() == 20), "{seed}");
    }
}
