//! The policy of a run: one that has a name, or the caller's own.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

/// Whatever policy decides. Boxed, because some are large and others are the caller's.
pub(crate) struct Deciding(pub(crate) Box<dyn Policy>);

impl Policy for Deciding {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn holds(&self) -> bool {
        self.0.holds()
    }
    fn progress_every(&self) -> Option<Duration> {
        self.0.progress_every()
    }
    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.0.configure(hint)
    }
    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.0.observe(now, queue, event, queues);
    }
    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        self.0.decide(now, changed, queues, out);
    }
}
