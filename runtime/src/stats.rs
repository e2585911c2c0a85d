//! Figures of a queue.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::id::QueueId;
use xsched_core::message::{HoldState, Report};
use xsched_core::queue::Anomalies;

use crate::latency::Latencies;

/// Names of a queue in figures and reports.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) device: Arc<str>,
}

impl Label {
    /// The queue's name, or its number if it has none.
    pub(crate) fn name(&self, id: QueueId) -> String {
        self.name.as_deref().map_or_else(|| number(id), str::to_owned)
    }
}

/// A queue's place in the scheduler's table, and how often that was given away before.
pub(crate) fn number(id: QueueId) -> String {
    format!("{}-{}", id.index(), id.generation())
}

/// Source of [`Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) threshold: u32,
    pub(crate) batch: u32,
    pub(crate) anomalies: Anomalies,
    pub(crate) latency: Latencies,
    pub(crate) hold_latency: Latencies,
}

/// Figures of a queue at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Commands submitted so far.
    pub submitted: u64,
    /// Commands that passed the launch point so far.
    pub launched: u64,
    /// Commands retired so far.
    pub retired: u64,
    /// Of these, how many failed or were cancelled; with those that did and have not retired.
    pub failed: u64,
    /// Device time used so far, as far as the device measures it.
    pub busy: Duration,
    /// True if it runs, and how deep it is held.
    pub hold: HoldState,
    /// True if the user has suspended the queue; see [`crate::XQueue::suspend`].
    pub suspended: bool,
    /// True if a hold of the scheduler was ended because the scheduler could not be trusted.
    pub failed_open: bool,
    /// True if its next command waits for another queue.
    pub waiting: bool,
    /// True if the device is lost.
    pub lost: bool,
    /// Commands that may be in flight at present.
    pub threshold: u32,
    /// Commands per completion fence at present.
    pub batch: u32,
    /// Answers of the driver that made no sense and were ignored.
    pub protocol_errors: u64,
    /// Steps of a hold that the device refused.
    pub failed_steps: u64,
    /// Completion fences that had to be put again.
    pub repeated_fences: u64,
    /// How long commands took from the submit until the runtime saw their completion. A sample: the
    /// first command of an idle queue, and else one of 64.
    pub latency: Latencies,
    /// How long it took from the order to hold the queue until the hold was in effect, of each hold
    /// of the scheduler or the user that came into effect.
    pub hold_latency: Latencies,
}

impl Stats {
    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Self {
        let report = &snapshot.report;
        Self {
            submitted: report.submitted,
            launched: report.launched,
            retired: report.retired,
            failed: report.failures,
            busy: Duration::from_nanos(report.busy.as_ns()),
            hold: report.hold,
            suspended: report.suspended,
            failed_open: report.failed_open,
            waiting: report.waiting.is_some(),
            lost: report.lost,
            threshold: snapshot.threshold,
            batch: snapshot.batch,
            protocol_errors: snapshot.anomalies.protocol,
            failed_steps: snapshot.anomalies.failed_steps,
            repeated_fences: snapshot.anomalies.repeated_fences,
            latency: snapshot.latency,
            hold_latency: snapshot.hold_latency,
        }
    }
}
