//! A policy with a watcher in front of it.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, ChangedQueues, Decisions, Event, Needs, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

/// Counters of a policy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) decisions: u64,
    pub(super) looked_at: u64,
    pub(super) verdicts: u64,
}

/// Counts what a policy does. With `again`, asks it thrice whenever it is asked: as it was, once
/// more, and with nothing changed.
#[derive(Debug)]
pub(super) struct Watched<P> {
    policy: P,
    again: bool,
    pub(super) counters: Counters,
}

impl<P> Watched<P> {
    pub(super) fn new(policy: P, again: bool) -> Self {
        Self { policy, again, counters: Counters::default() }
    }
}

impl<P: Policy> Policy for Watched<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn needs(&self) -> Needs {
        self.policy.needs()
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.policy.configure(hint)
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let looked_at = queues.looked_at();
        self.policy.observe(now, queue, event, queues);
        self.counters.looked_at += queues.looked_at() - looked_at;
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let (looked_at, calls) = (queues.looked_at(), out.calls());
        self.policy.decide(now, changed, queues, out);
        self.counters.decisions += 1;
        self.counters.looked_at += queues.looked_at() - looked_at;
        self.counters.verdicts += u64::from(out.calls() - calls);
        if self.again {
            self.policy.decide(now, changed, queues, out);
            let nothing = Changed::Some { queues: ChangedQueues::NONE, devices: &[] };
            self.policy.decide(now, nothing, queues, out);
        }
    }
}
