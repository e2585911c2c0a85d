//! The policy in charge, behind one type so that it can be replaced at run time.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

/// Any policy that can be moved to the scheduler's thread.
pub(crate) struct Guest(pub(crate) Box<dyn Policy + Send>);

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Guest").field(&self.0.name()).finish()
    }
}

impl Policy for Guest {
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
