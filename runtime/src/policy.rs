//! The policy in charge, behind one type so that it can be replaced at run time, and so that a
//! panic in it harms nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy, Urgency, Verdict};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

use crate::hub::Hub;

/// Any policy that can be moved to the scheduler's thread. Once it has panicked it is not asked
/// again, and all queues run until another one takes over.
pub(crate) struct Guest {
    policy: Option<Box<dyn Policy + Send>>,
    name: &'static str,
    hub: Arc<Hub>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Guest").field(&self.name).finish()
    }
}

impl Guest {
    pub(crate) fn new(policy: impl Policy + Send + 'static, hub: &Arc<Hub>) -> Self {
        let name = policy.name();
        Self { policy: Some(Box::new(policy)), name, hub: Arc::clone(hub) }
    }

    /// What the policy answers; nothing if it panics or has done so before.
    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn Policy) -> T) -> Option<T> {
        let policy = self.policy.as_deref_mut()?;
        let answer = catch_unwind(AssertUnwindSafe(|| question(policy)));
        answer.map_err(|_| self.give_up()).ok()
    }

    #[cold]
    fn give_up(&mut self) {
        let policy = self.name;
        tracing::error!(policy, "the policy panicked; all queues run until another takes over");
        self.hub.count_failed_open();
        // Also if what it panicked about changes no queue.
        self.hub.send(|now, brain| brain.reconsider_all(now));
        self.dispose();
    }

    /// Its destructor may panic as well.
    fn dispose(&mut self) {
        let policy = self.policy.take();
        if catch_unwind(AssertUnwindSafe(|| drop(policy))).is_err() {
            tracing::error!(policy = self.name, "the policy's destructor panicked");
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.dispose();
    }
}

impl Policy for Guest {
    fn name(&self) -> &'static str {
        self.name
    }

    fn holds(&self) -> bool {
        // A panic here would come again in `decide`, and be dealt with there.
        let ask = |policy: &dyn Policy| catch_unwind(AssertUnwindSafe(|| policy.holds())).ok();
        self.policy.as_deref().and_then(|policy| ask(policy)).unwrap_or(false)
    }

    fn progress_every(&self) -> Option<Duration> {
        let ask = |policy: &dyn Policy| catch_unwind(AssertUnwindSafe(|| policy.progress_every()));
        self.policy.as_deref().and_then(|policy| ask(policy).ok().flatten())
    }

    fn reads_cpu_priority(&self) -> bool {
        let ask =
            |policy: &dyn Policy| catch_unwind(AssertUnwindSafe(|| policy.reads_cpu_priority()));
        self.policy.as_deref().and_then(|policy| ask(policy).ok()).unwrap_or(false)
    }

    fn is_quick(&self) -> bool {
        let ask = |policy: &dyn Policy| catch_unwind(AssertUnwindSafe(|| policy.is_quick())).ok();
        self.policy.as_deref().and_then(|policy| ask(policy)).unwrap_or(false)
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.ask(|policy| policy.configure(hint)).unwrap_or(false)
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.ask(|policy| policy.observe(now, queue, event, queues));
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        if self.ask(|policy| policy.decide(now, changed, queues, out)).is_some() {
            return;
        }
        for queue in queues.iter() {
            out.set(queue.id, Verdict::Run);
            out.floor(queue.device, None, Urgency::NOW);
        }
    }
}
