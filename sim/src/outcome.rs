//! Figures of a run. `report` turns them into tables, JSON and pictures.

use std::collections::BTreeMap;

/// The figures of one run of one scenario with one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Scenario name.
    pub scenario: String,
    /// Policy name.
    pub policy: String,
    /// Preemption level of the tasks that did not choose one, 1 to 3.
    pub level: u8,
    /// Seed.
    pub seed: u64,
    /// Simulated time from the start to the end of the run.
    pub duration_ns: u64,
    /// Per task, in scenario order with copies expanded.
    pub tasks: Vec<TaskOutcome>,
    /// Per device, in scenario order.
    pub devices: Vec<DeviceOutcome>,
    /// Per invariant: its name and what was found. Empty when the checkers were off.
    pub checks: BTreeMap<&'static str, CheckOutcome>,
    /// Commands completed on devices.
    pub commands: u64,
    /// Events processed.
    pub events: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// The timeline, if one was asked for.
    pub timeline: Option<Timeline>,
    /// The record, if one was asked for.
    pub record: Option<Vec<u8>>,
}

/// The figures of one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskOutcome {
    /// Name.
    pub name: String,
    /// Priority, for reports.
    pub priority: i16,
    /// Deadline after arrival, if the task has one.
    pub deadline_ns: Option<u64>,
    /// Latency from arrival to completion of each counted request, in order of completion.
    pub latencies_ns: Vec<u64>,
    /// Requests that arrived before the warm-up was over and were completed after it. They count
    /// for the throughput alone.
    pub early: u64,
    /// Requests that had arrived when the run ended and were not complete, of a task whose requests
    /// arrive however long they take; 0 for others.
    pub unfinished: u64,
    /// Counted requests that ended later than the task's deadline; 0 without a deadline.
    pub deadline_misses: u64,
    /// Requests that ended with an error (only with injected faults).
    pub failed: u64,
    /// Time in which the counted and the early requests ended, for the throughput.
    pub measured_ns: u64,
    /// Device time of the task's commands.
    pub device_time_ns: u64,
}

impl TaskOutcome {
    /// Requests that were completed without an error in the measured time.
    #[must_use]
    pub fn completed_in_window(&self) -> u64 {
        self.latencies_ns.len() as u64 + self.early
    }
}

/// The figures of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceOutcome {
    /// Name.
    pub name: String,
    /// Time during which at least one command ran.
    pub busy_ns: u64,
    /// Time spent on gates, saving and restoring.
    pub overhead_ns: u64,
    /// Holds of a queue that had work on the device.
    pub preemptions: u64,
    /// For each such hold: until the host knew that the victim had stopped.
    pub preempt_latency_ns: Vec<u64>,
    /// For each such hold: until the victim's last instruction.
    pub quiet_latency_ns: Vec<u64>,
    /// For each such hold: until another queue ran, if one did before the hold ended.
    pub start_latency_ns: Vec<u64>,
    /// The part of `overhead_ns` that saving and restoring took.
    pub switch_ns: u64,
    /// Interrupts and restores; those that were one for the whole device count once.
    pub switches: u64,
}

/// Findings of one checker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Observations looked at.
    pub observed: u64,
    /// Violations found.
    pub violations: u64,
    /// The first violation, in words.
    pub first: Option<String>,
}

/// Timeline of a run, for a viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Spans in order of their start.
    pub spans: Vec<Span>,
    /// Spans that were not kept because the timeline was full.
    pub dropped: u64,
}

/// One bar on the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the task.
    pub task: u32,
    /// Kind of bar.
    pub kind: SpanKind,
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Command number for commands, request number for requests, level for holds.
    pub number: u64,
}

/// Kinds of bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A command on the device (a part of it, if it was interrupted).
    Command,
    /// A request from arrival to completion.
    Request,
    /// A request that was not complete at the end, from arrival to the end.
    Unfinished,
    /// The queue was held by the scheduler.
    Hold,
    /// Saving a context.
    Save,
    /// Restoring a context.
    Restore,
}
