//! Policies that share device time, in the simulator.

use std::path::Path;

use xsched_sim::outcome::{Outcome, Span, SpanKind};
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::Scenario;

/// Two tasks that never pause, with three quarters and one quarter, and these commands.
fn scenario(first_us: u32, second_us: u32) -> Scenario {
    let task = |name, us: u32, weight, share| {
        format!(
            "[[task]]\nname = \"{name}\"\nweight = {weight}\nshare = {share}\n\
             arrival = {{ kind = \"closed\", think_ms = 0 }}\n\
             command = {{ kind = \"constant\", us = {us} }}\ncommands = {}\nthreshold = 2\nbatch = 1\n",
            3_000 / us
        )
    };
    let head = "version = 1\nname = \"shares\"\npolicy = \"wfq\"\nduration_s = 4\nwarmup_ms = 100\n\
                [[device]]\nname = \"one\"\nmax_level = 3\n";
    let text = [head, &task("a", first_us, 3, 75), &task("b", second_us, 1, 25)].concat();
    Scenario::parse(&text, Path::new("shares.toml")).unwrap()
}

/// The share of the first task, from what both got done.
fn first_share(scenario: &Scenario, policy: &str, level: u8) -> f64 {
    let options =
        RunOptions { policy: Some(policy.to_owned()), level: Some(level), ..RunOptions::default() };
    let outcome = run(scenario, &options, &mut |_| {}).unwrap();
    let violations: u64 = outcome.checks.values().map(|check| check.violations).sum();
    assert_eq!(violations, 0);
    let done: Vec<f64> = outcome.tasks.iter().map(|t| t.latencies_ns.len() as f64).collect();
    done[0] / (done[0] + done[1])
}

/// Requests of both tasks take as much device time, 3 ms.
#[test]
fn device_time_is_shared_as_hinted_whatever_commands_are_like() {
    for policy in ["wfq", "up", "pup"] {
        for (first_us, second_us) in [(300, 300), (300, 3_000), (3_000, 300)] {
            for level in [1, 2, 3] {
                let share = first_share(&scenario(first_us, second_us), policy, level);
                let what = format!("{policy}, {first_us} and {second_us} µs, level {level}");
                assert!((share - 0.75).abs() < 0.01, "{what}: {share}");
            }
        }
    }
}

/// The first task's share of the device time in windows of this length, lowest and highest.
fn shares_in_windows(outcome: &Outcome, window_ns: u64) -> (f64, f64) {
    let timeline = outcome.timeline.as_ref().unwrap();
    assert_eq!(timeline.dropped, 0);
    let ran = |span: &&Span| span.kind == SpanKind::Command;
    let spans: Vec<_> = timeline.spans.iter().filter(ran).collect();
    let end = spans.iter().map(|span| span.end_ns).max().unwrap();
    let mut extremes = (1.0f64, 0.0f64);
    for from in (100_000_000..end - window_ns).step_by(3_700_000) {
        let until = from + window_ns;
        let mut used = [0.0; 2];
        for span in spans.iter().filter(|span| span.start_ns < until && span.end_ns > from) {
            used[span.task as usize] += (span.end_ns.min(until) - span.start_ns.max(from)) as f64;
        }
        let share = used[0] / (used[0] + used[1]);
        extremes = (extremes.0.min(share), extremes.1.max(share));
    }
    extremes
}

/// 20 timeslices of 5 ms, and commands of equal length and ten times as long.
#[test]
fn shares_hold_in_any_window_of_twenty_timeslices() {
    for policy in ["wfq", "up", "pup"] {
        for (first_us, second_us) in [(50, 50), (50, 500), (500, 50)] {
            for level in [1, 2, 3] {
                let options = RunOptions {
                    policy: Some(policy.to_owned()),
                    level: Some(level),
                    timeline_spans: 1_000_000,
                    ..RunOptions::default()
                };
                let outcome = run(&scenario(first_us, second_us), &options, &mut |_| {}).unwrap();
                let (least, most) = shares_in_windows(&outcome, 100_000_000);
                let what = format!("{policy}, {first_us} and {second_us} µs, level {level}");
                assert!(least > 0.74 && most < 0.76, "{what}: {least:.4} to {most:.4}");
            }
        }
    }
}

/// Three tasks that never pause keep the deadlines of their first requests.
#[test]
fn k_is_the_number_of_queues_that_run_at_once() {
    let task = |name: &str, deadline: u32| {
        format!(
            "[[task]]\nname = \"{name}\"\ndeadline_ms = {deadline}\noutstanding = 2\n\
             arrival = {{ kind = \"closed\", think_ms = 0 }}\n\
             command = {{ kind = \"constant\", us = 100 }}\ncommands = 100\nthreshold = 4\n"
        )
    };
    let tasks = [task("a", 1), task("b", 2), task("c", 3)].concat();
    for (line, running) in [("", 1), ("k = 1\n", 1), ("k = 2\n", 2), ("k = 3\n", 3)] {
        let head = "version = 1\nname = \"k\"\npolicy = \"kedf\"\nduration_s = 1\n";
        let text = [head, line, "[[device]]\nname = \"one\"\n", &tasks].concat();
        let scenario = Scenario::parse(&text, Path::new("k.toml")).unwrap();
        let outcome = run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
        let ran = outcome.tasks.iter().filter(|task| !task.latencies_ns.is_empty()).count();
        assert_eq!(ran, running, "{line:?}");
    }
}

/// Requests that each of two endless tasks finished: `first` and `second` are their keys.
fn finished(head: &str, first: &str, second: &str) -> [usize; 2] {
    let task = |name: &str, keys: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\n{keys}\narrival = {{ kind = \"closed\", think_ms = 0 }}\n\
             command = {{ kind = \"constant\", us = 100 }}\noutstanding = 2\nthreshold = 2\n"
        )
    };
    let top = "version = 1\nname = \"keys\"\nduration_s = 1\n";
    let device = "\n[[device]]\nname = \"one\"\nmax_level = 2\n";
    let text = [top, head, device, &task("a", first), &task("b", second)].concat();
    let scenario = Scenario::parse(&text, Path::new("keys.toml")).unwrap();
    let outcome = run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    [0, 1].map(|task| outcome.tasks[task].latencies_ns.len())
}

#[test]
fn hints_of_a_scenario_reach_the_policy() {
    let strict = finished("policy = \"hpf\"", "priority = 1", "");
    assert!(strict[0] > 9_000 && strict[1] < 10, "{strict:?}");
    let aged = finished("policy = \"hpf\"\nageing_ms = 20", "priority = 1", "");
    // A turn of 1 ms after each 20 ms.
    assert!((300..=900).contains(&aged[1]) && aged[0] > 8_000, "{aged:?}");
    let window = finished("policy = \"awf\"", "", "active_window = true");
    assert!(window[0] < 10 && window[1] > 9_000, "{window:?}");
    let threads = finished("policy = \"chpf\"", "cpu_priority = -5", "cpu_priority = 5");
    assert!(threads[0] < 10 && threads[1] > 9_000, "{threads:?}");
    // Both are endless, so that they are late for good: the second counts for less.
    let late = "laxity_ms = 5\ncritical_priority = ";
    let laxity =
        finished("policy = \"lax\"", &format!("{late}3"), &format!("priority = 9\n{late}2"));
    assert!(laxity[0] > 9_000 && laxity[1] < 100, "{laxity:?}");
}
