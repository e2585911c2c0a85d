//! Scenarios built in code: everything is free and simple unless a test says otherwise.
#![expect(dead_code, reason = "every test crate uses a part of this")]

use std::path::Path;

use xsched_sim::outcome::{Outcome, SpanKind};
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{
    Arrival, Concurrency, DeviceSpec, Dist, LockOrder, ProcessSpec, Scenario, TaskSpec, TraceRow,
};

/// A microsecond.
pub(crate) const US: u64 = 1_000;
/// A millisecond.
pub(crate) const MS: u64 = 1_000_000;
/// A second.
pub(crate) const S: u64 = 1_000_000_000;

/// Reads a scenario.
pub(crate) fn parse(text: &str) -> Scenario {
    Scenario::parse(text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// A device on which nothing but the commands takes time.
pub(crate) fn device() -> DeviceSpec {
    DeviceSpec { launch_queue: 1 << 20, ..DeviceSpec::ideal("gpu0") }
}

/// A device as [`device`], with all streams at once.
pub(crate) fn sharing(contention: f64) -> DeviceSpec {
    DeviceSpec { concurrency: Concurrency::ProcessorSharing { contention }, ..device() }
}

/// A device as [`device`], with one stream until it has drained.
pub(crate) fn exclusive() -> DeviceSpec {
    DeviceSpec { concurrency: Concurrency::Exclusive, ..device() }
}

/// A device with every latency, for sums that must be exact.
pub(crate) fn slow_device() -> DeviceSpec {
    DeviceSpec {
        launch_latency_ns: 4 * US,
        host_launch_ns: 3 * US,
        host_sync_ns: 5 * US,
        detect_ns: 8 * US,
        gate_ns: 2 * US,
        gate_close_ns: US,
        save_fixed_ns: 10 * US,
        save_context_ns: 20 * US,
        restore_fixed_ns: 30 * US,
        restore_context_ns: 40 * US,
        ..device()
    }
}

/// A task with one command of a microsecond per request, one request after the other, for ever.
pub(crate) fn task(name: &str) -> TaskSpec {
    let command = Dist::Constant(US);
    TaskSpec { commands: 1, command, capacity: 1_024, ..TaskSpec::named(name) }
}

/// A task with one request, of this many commands of one length.
pub(crate) fn once(name: &str, commands: u32, command_ns: u64) -> TaskSpec {
    let command = Dist::Constant(command_ns);
    TaskSpec { requests: Some(1), commands, command, ..task(name) }
}

/// A process whose threads share a lock.
pub(crate) fn locked(order: LockOrder) -> ProcessSpec {
    ProcessSpec { lock: Some(order), ..ProcessSpec::named("p") }
}

/// Requests at these times, of one command of a length each.
pub(crate) fn at(rows: &[(u64, u64)]) -> Arrival {
    let row = |&(at_ns, command_ns): &(u64, u64)| TraceRow { at_ns, commands: 1, command_ns };
    Arrival::Trace { rows: rows.iter().map(row).collect() }
}

/// Closed arrivals with these pauses.
pub(crate) fn think(think: Dist) -> Arrival {
    Arrival::Closed { think, jitter_ns: 0 }
}

/// Arrivals with this mean gap, at random times.
pub(crate) fn poisson(mean_gap_ns: f64) -> Arrival {
    Arrival::Renewal { gap: exponential(mean_gap_ns) }
}

/// An arrival every period.
pub(crate) fn periodic(period_ns: u64) -> Arrival {
    Arrival::Periodic { period_ns, jitter_ns: 0 }
}

/// Exponential times.
pub(crate) fn exponential(mean_ns: f64) -> Dist {
    Dist::Exponential { mean_ns }
}

/// The tasks on the device, without message latencies, until everything is done.
pub(crate) fn scenario(device: DeviceSpec, tasks: Vec<TaskSpec>) -> Scenario {
    Scenario::plain("plain", vec![device], tasks)
}

/// The tasks on the device as in [`scenario`], highest priority first at a level.
pub(crate) fn prioritised(device: DeviceSpec, level: u8, tasks: Vec<TaskSpec>) -> Scenario {
    Scenario { policy: "hpf".to_owned(), level, ..scenario(device, tasks) }
}

/// Runs it without the checkers, which are slow.
pub(crate) fn run_fast(scenario: &Scenario, seed: u64) -> Outcome {
    let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
    run(scenario, &options, &mut |_| {}).expect("the scenario is sound")
}

/// Runs it with the checkers and a timeline; nothing may be violated.
pub(crate) fn run_checked(scenario: &Scenario, seed: u64) -> Outcome {
    let options = RunOptions {
        seed: Some(seed),
        checks: true,
        timeline_spans: 100_000,
        ..RunOptions::default()
    };
    let outcome = run(scenario, &options, &mut |_| {}).expect("the scenario is sound");
    assert_sound(&outcome);
    outcome
}

/// No checker has found anything, and all have looked.
pub(crate) fn assert_sound(outcome: &Outcome) {
    assert_eq!(outcome.checks.len(), 8, "all checkers are on");
    for (name, check) in &outcome.checks {
        assert_eq!(check.violations, 0, "{name}: {:?}", check.first);
    }
}

/// When the commands of a task ran; those that were interrupted have several parts.
pub(crate) fn runs(outcome: &Outcome, task: u32) -> Vec<(u64, u64)> {
    spans(outcome, task, SpanKind::Command)
}

/// When something of a kind happened to a task.
pub(crate) fn spans(outcome: &Outcome, task: u32, kind: SpanKind) -> Vec<(u64, u64)> {
    let timeline = outcome.timeline.as_ref().expect("a timeline was asked for");
    let wanted = timeline.spans.iter().filter(|span| span.task == task && span.kind == kind);
    wanted.map(|span| (span.start_ns, span.end_ns)).collect()
}

/// The spans in microseconds, each of which must be whole.
pub(crate) fn us(spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let whole = |ns: u64| {
        assert_eq!(ns % US, 0, "{ns} ns");
        ns / US
    };
    spans.into_iter().map(|(from, to)| (whole(from), whole(to))).collect()
}
