//! Small made-up outcomes for the tests of this module.

use crate::outcome::{CheckOutcome, DeviceOutcome, Outcome, Span, SpanKind, TaskOutcome, Timeline};
use crate::scenario::{DeviceSpec, Scenario, TaskSpec};

/// Two tasks, one of which completed nothing; one device; two clean checks.
pub(crate) fn outcome() -> Outcome {
    let check = |observed| CheckOutcome { observed, ..CheckOutcome::default() };
    Outcome {
        scenario: "demo".into(),
        policy: "hpf".into(),
        level: 2,
        seed: 7,
        duration_ns: 2_000_000_000,
        tasks: vec![
            task("fast", vec![1_000_000, 4_000_000, 2_000_000, 3_000_000], 1_000_000_000, 1),
            task("idle", Vec::new(), 2_000_000_000, 0),
        ],
        devices: vec![DeviceOutcome {
            name: "gpu".into(),
            busy_ns: 1_000_000_000,
            overhead_ns: 1_000_000,
            preemptions: 3,
            preempt_latency_ns: vec![30_500, 10_000, 20_000],
            quiet_latency_ns: Vec::new(),
            ..DeviceOutcome::default()
        }],
        checks: [("order", check(12)), ("held", check(9))].into(),
        commands: 40,
        events: 400,
        faults: 0,
        timeline: None,
        record: None,
    }
}

/// An outcome of a run in which nothing happened.
pub(crate) fn empty_outcome() -> Outcome {
    Outcome {
        scenario: "empty".into(),
        policy: "fcfs".into(),
        level: 1,
        tasks: vec![TaskOutcome { name: "idle".into(), ..TaskOutcome::default() }],
        devices: vec![DeviceOutcome { name: "gpu".into(), ..DeviceOutcome::default() }],
        ..Outcome::default()
    }
}

/// The demo outcome under another seed, with all latencies multiplied.
pub(crate) fn scaled(seed: u64, factor: u64) -> Outcome {
    let mut outcome = outcome();
    outcome.seed = seed;
    for latency in outcome.tasks.iter_mut().flat_map(|task| task.latencies_ns.iter_mut()) {
        *latency *= factor;
    }
    outcome
}

/// The demo outcome with a timeline.
pub(crate) fn with_spans(spans: Vec<Span>, dropped: u64) -> Outcome {
    Outcome { timeline: Some(Timeline { spans, dropped }), ..outcome() }
}

/// A span of the first task.
pub(crate) fn span(kind: SpanKind, start_ns: u64, end_ns: u64, number: u64) -> Span {
    Span { task: 0, kind, start_ns, end_ns, number }
}

/// A task with these latencies.
pub(crate) fn task(name: &str, latencies_ns: Vec<u64>, measured: u64, misses: u64) -> TaskOutcome {
    TaskOutcome {
        name: name.into(),
        latencies_ns,
        deadline_misses: misses,
        measured_ns: measured,
        ..TaskOutcome::default()
    }
}

/// The scenario of the demo outcome.
pub(crate) fn scenario() -> Scenario {
    Scenario {
        seed: 7,
        duration_ns: Some(2_000_000_000),
        policy: "hpf".into(),
        level: 2,
        ..Scenario::plain("demo", vec![device_spec()], vec![task_spec("fast"), task_spec("idle")])
    }
}

fn device_spec() -> DeviceSpec {
    DeviceSpec {
        launch_latency_ns: 5_000,
        host_launch_ns: 2_000,
        host_sync_ns: 5_000,
        detect_ns: 1_000,
        launch_queue: 64,
        gate_ns: 500,
        gate_close_ns: 1_000,
        save_fixed_ns: 10_000,
        restore_fixed_ns: 10_000,
        ..DeviceSpec::ideal("gpu")
    }
}

pub(crate) fn task_spec(name: &str) -> TaskSpec {
    TaskSpec::named(name)
}

/// A document as JSON text.
pub(crate) fn to_json<T: serde::Serialize>(document: &T) -> String {
    let mut bytes = Vec::new();
    crate::report::write_json(&mut bytes, document).unwrap();
    String::from_utf8(bytes).unwrap()
}
