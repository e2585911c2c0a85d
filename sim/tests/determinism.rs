//! A seed stands for one run: the same figures and the same bytes, however it is run and watched.

#[path = "theory/build.rs"]
mod build;

use build::{
    MS, US, assert_sound, exponential, locked, poisson, prioritised, scenario, sharing,
    slow_device, task, think,
};
use xsched_sim::outcome::Outcome;
use xsched_sim::report::{
    Combination, RunFigures, combinations, run_comparison, run_series, write_json, write_trace,
};
use xsched_sim::run::{RunOptions, never_holds, policy_names, run};
use xsched_sim::scenario::{
    DeviceSpec, Dist, LockOrder, ProcessSpec, Scenario, SyncScope, TaskSpec, WindowSpec,
};

/// Two devices, a shared lock, waits for each other, every kind of arrival: whatever draws at
/// random or could depend on an order.
fn mixed() -> Scenario {
    let lengths = Dist::LogNormal { mean_ns: 50_000.0, sigma: 1.0 };
    let served = TaskSpec {
        count: 3,
        process: Some(0),
        arrival: think(exponential(2e6)),
        commands: 20,
        command: exponential(40_000.0),
        priority: 2,
        sync: SyncScope::Device,
        ..task("served")
    };
    let stream = TaskSpec {
        process: Some(0),
        arrival: poisson(3e6),
        commands: 12,
        command: lengths.clone(),
        outstanding: 4,
        window: WindowSpec::Adaptive,
        priority: 1,
        ..task("stream")
    };
    let low = TaskSpec { count: 2, commands: 100, command: lengths, context: 0.5, ..task("low") };
    let after = TaskSpec { device: 1, after: Some(2), arrival: poisson(5e6), ..task("after") };
    let second = DeviceSpec { name: "gpu1".to_owned(), ..slow_device() };
    let first = DeviceSpec { concurrency: sharing(0.7).concurrency, ..slow_device() };
    let mut scenario = prioritised(first, 3, vec![served, stream, low, after]);
    let order = LockOrder::Unfair { switch_ns: 20 * US };
    scenario.processes = vec![ProcessSpec { lock_on_return: true, ..locked(order) }];
    scenario.devices.push(second);
    scenario.scheduler_latency_ns = 2 * US;
    scenario.duration_ns = Some(400 * MS);
    scenario.warmup_ns = 10 * MS;
    scenario
}

fn options(seed: u64) -> RunOptions {
    let seed = Some(seed);
    RunOptions { seed, checks: true, timeline_spans: 50_000, ..RunOptions::default() }
}

fn outcome(scenario: &Scenario, options: &RunOptions) -> Outcome {
    run(scenario, options, &mut |_| {}).expect("the scenario is sound")
}

fn json(document: &impl serde::Serialize) -> String {
    let mut bytes = Vec::new();
    write_json(&mut bytes, document).expect("memory can be written");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Outcome without what the checkers and the timeline add.
fn unwatched(outcome: Outcome) -> Outcome {
    let checks = std::collections::BTreeMap::new();
    Outcome { checks, timeline: None, events: 0, ..outcome }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let scenario = mixed();
    let once = outcome(&scenario, &options(7));
    assert_sound(&once);
    assert!(once.tasks.iter().all(|task| !task.latencies_ns.is_empty()), "{:?}", once.tasks);
    let trace = |outcome: &Outcome| {
        let mut bytes = Vec::new();
        write_trace(&mut bytes, outcome, &scenario).expect("memory can be written");
        bytes
    };
    for _ in 0..3 {
        let again = outcome(&scenario, &options(7));
        assert_eq!(again, once);
        assert_eq!(json(&RunFigures::of(&again)), json(&RunFigures::of(&once)));
        assert_eq!(trace(&again), trace(&once));
    }
}

#[test]
fn different_seeds_give_different_runs() {
    let scenario = mixed();
    let latencies = |seed| -> Vec<_> {
        let outcome = outcome(&scenario, &options(seed));
        outcome.tasks.into_iter().map(|task| task.latencies_ns).collect()
    };
    let runs: Vec<_> = (0..6).map(latencies).collect();
    for (i, one) in runs.iter().enumerate() {
        for other in &runs[..i] {
            for (a, b) in one.iter().zip(other) {
                assert_ne!(a, b);
            }
        }
    }
}

#[test]
fn neither_checkers_nor_a_timeline_change_the_figures() {
    for level in [1, 2, 3] {
        for policy in policy_names() {
            let with = |checks, timeline_spans| {
                let policy = Some((*policy).to_owned());
                let all = RunOptions {
                    policy,
                    level: Some(level),
                    seed: Some(3),
                    checks,
                    timeline_spans,
                    record: true,
                    by_cost: false,
                };
                let outcome = outcome(&mixed(), &all);
                assert_eq!(outcome.timeline.is_some(), timeline_spans > 0);
                assert_eq!(outcome.checks.is_empty(), !checks);
                unwatched(outcome)
            };
            let plain = with(false, 0);
            assert_eq!(with(true, 0), plain, "{policy} {level}");
            assert_eq!(with(false, 100), plain, "{policy} {level}");
            assert_eq!(with(true, 50_000), plain, "{policy} {level}");
        }
    }
}

#[test]
fn a_run_that_gets_stuck_ends_at_the_same_time_with_and_without_checkers() {
    let never = TaskSpec { priority: -256, requests: Some(1), ..task("never") };
    let fine = TaskSpec { requests: Some(5), ..task("fine") };
    let scenario = prioritised(slow_device(), 1, vec![never, fine]);
    let plain = RunOptions { seed: Some(1), ..RunOptions::default() };
    let watched = outcome(&scenario, &RunOptions { checks: true, ..plain.clone() });
    assert_sound(&watched);
    assert!(watched.tasks[0].latencies_ns.is_empty());
    assert_eq!(watched.tasks[1].latencies_ns.len(), 5);
    assert_eq!(unwatched(outcome(&scenario, &plain)), unwatched(watched));
}

#[test]
fn a_series_does_not_depend_on_the_number_of_threads() {
    let scenario = mixed();
    let series = |threads| {
        let options = RunOptions { timeline_spans: 100, ..options(11) };
        run_series(&scenario, &options, 9, threads, &|_| {}).expect("the scenario is sound")
    };
    let (one, first) = series(1);
    assert_eq!(first, outcome(&scenario, &RunOptions { timeline_spans: 100, ..options(11) }));
    for threads in [2, 4, 16] {
        let (many, again) = series(threads);
        assert_eq!(many, one);
        assert_eq!(json(&many), json(&one));
        assert_eq!(again, first);
    }
}

#[test]
fn a_series_is_its_single_runs() {
    let scenario = mixed();
    let (series, _) = run_series(&scenario, &options(11), 5, 2, &|_| {}).expect("it is sound");
    let single = |seed| RunFigures::of(&outcome(&scenario, &options(seed)));
    let runs: Vec<_> = (11..16).map(single).collect();
    let put_together = xsched_sim::report::Series::new(&runs, &scenario.references);
    assert_eq!(json(&series), json(&put_together));
}

#[test]
fn a_comparison_does_not_depend_on_the_number_of_threads() {
    let scenario = Scenario { duration_ns: Some(100 * MS), ..mixed() };
    let policies: Vec<String> = policy_names().iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<Combination> = combinations(&policies, &[1, 2, 3], never_holds);
    let compare = |threads| {
        run_comparison(&scenario, &all, Some(4), 3, threads, &|_| {}).expect("it is sound")
    };
    let one = compare(1);
    for threads in [2, 8] {
        let many = compare(threads);
        assert_eq!(json(&many), json(&one));
        // With what is drawn and is not in the document.
        assert_eq!(many, one);
    }
}

#[test]
fn a_task_draws_the_same_whatever_other_tasks_there_are() {
    let random = |name| TaskSpec {
        requests: Some(300),
        arrival: poisson(200_000.0),
        command: exponential(100_000.0),
        ..task(name)
    };
    let alone = outcome(&scenario(sharing(0.0), vec![random("a")]), &options(5));
    let others: Vec<_> = ["a", "b", "c"].map(random).into();
    let together = outcome(&scenario(sharing(0.0), others), &options(5));
    assert_eq!(together.tasks[0].latencies_ns, alone.tasks[0].latencies_ns);
    assert_ne!(together.tasks[1].latencies_ns, alone.tasks[0].latencies_ns);
}

/// Gaps and lengths come from generators of their own, so a policy changes when commands run and
/// never what there is to run.
#[test]
fn runs_under_different_policies_have_the_same_work() {
    let draws = |name| TaskSpec {
        requests: Some(200),
        arrival: poisson(1e6),
        commands: 6,
        command: exponential(80_000.0),
        outstanding: 4,
        ..task(name)
    };
    let urgent = TaskSpec { priority: 1, ..draws("urgent") };
    let scenario = scenario(slow_device(), vec![draws("low"), urgent]);
    let run = |policy: &str| {
        let policy = Some(policy.to_owned());
        outcome(&scenario, &RunOptions { policy, level: Some(1), ..options(3) })
    };
    let work = |outcome: &Outcome| -> Vec<_> {
        outcome.tasks.iter().map(|task| task.device_time_ns).collect()
    };
    let first = run("fcfs");
    for policy in ["hpf", "edf", "paella", "sync"] {
        let other = run(policy);
        assert_eq!(work(&other), work(&first), "{policy}");
        assert_ne!(other.tasks[1].latencies_ns, first.tasks[1].latencies_ns, "{policy}");
    }
}
