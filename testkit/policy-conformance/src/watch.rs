//! A policy with a watcher in front of it.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, ChangedQueues, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

/// What a policy did.
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

    fn holds(&self) -> bool {
        self.policy.holds()
    }

    fn progress_every(&self) -> Option<Duration> {
        self.policy.progress_every()
    }

    fn reads_cpu_priority(&self) -> bool {
        self.policy.reads_cpu_priority()
    }

    fn spares_the_highest(&self) -> bool {
        self.policy.spares_the_highest()
    }

    fn spares_equals(&self) -> bool {
        self.policy.spares_equals()
    }

    fn is_quick(&self) -> bool {
        self.policy.is_quick()
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
