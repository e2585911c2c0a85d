//! Active window first.
//!
//! On each device the ready queues of the active window run, and all others hold. Without a ready
//! queue of the active window, everybody runs. A queue belongs to the active window while its hint
//! says so. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run.

use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

use crate::choose::{self, Width};

/// The policy. It has no state of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Awf;

impl Policy for Awf {
    fn name(&self) -> &'static str {
        "awf"
    }

    fn observe(&mut self, _now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        choose::observe(queue, event, queues);
    }

    fn decide(
        &mut self,
        _now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        choose::decide(changed, queues, out, Width::Class, |info| {
            Some(u64::from(!info.hints.active_window))
        });
    }
}
