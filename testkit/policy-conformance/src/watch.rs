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

/// Type of a watcher that does not look at the queues.
pub(super) type Unseen = fn(Instant, &QueueTable<'_>);

/// Counts what a policy does, and looks at the queues whenever it is told something: the first of
/// the events between two decisions shows what the last one has led to. With `again`, asks it
/// thrice whenever it is asked: as it was, once more, and with nothing changed.
#[derive(Debug)]
pub(super) struct Watched<P, L> {
    policy: P,
    again: bool,
    look: L,
    pub(super) counters: Counters,
}

impl<P, L> Watched<P, L> {
    pub(super) fn new(policy: P, again: bool, look: L) -> Self {
        Self { policy, again, look, counters: Counters::default() }
    }
}

impl<P: Policy, L: FnMut(Instant, &QueueTable<'_>)> Policy for Watched<P, L> {
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
        (self.look)(now, queues);
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
