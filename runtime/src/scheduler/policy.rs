//! The policy in charge, behind one type so that it can be replaced at run time, and so that a
//! panic in it harms no queue.

use std::sync::Arc;

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, MayHold, Needs, Policy, Urgency, Verdict};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

use xsched_policies::any::Any;

use crate::panics::caught;

/// Learns of panics of the policy.
pub(crate) trait PolicyFailures: Send + Sync {
    /// The policy has panicked, during a round or a request. All queues must be decided anew.
    fn policy_failed(&self);
}

/// Any policy that can be moved to the scheduler's thread. Once it has panicked it is not asked
/// again, and all queues run until another one takes over.
pub(crate) struct IsolatedPolicy {
    policy: Option<Box<dyn Policy + Send>>,
    name: &'static str,
    failures: Arc<dyn PolicyFailures>,
    /// The policy may be called on threads that submit and wait.
    is_trusted: bool,
}

impl std::fmt::Debug for IsolatedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IsolatedPolicy").field(&self.name).finish()
    }
}

impl IsolatedPolicy {
    /// A policy of the user's that hangs can only be left alone on the scheduler's own thread, so
    /// there it stays unless the user says that it is `trusted`.
    pub(crate) fn new<P: Policy + Send + 'static>(
        policy: P,
        failures: Arc<dyn PolicyFailures>,
        trusted: bool,
    ) -> Self {
        let name = policy.name();
        let is_trusted = trusted || Any::contains::<P>();
        Self { policy: Some(Box::new(policy)), name, failures, is_trusted }
    }

    /// True if threads that submit and wait may call the policy: one that is built in, or that the
    /// user trusts, and that has not panicked.
    pub(crate) const fn is_trusted(&self) -> bool {
        self.is_trusted && self.policy.is_some()
    }

    /// Calls the policy; no answer if it panics or has done so before.
    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn Policy) -> T) -> Option<T> {
        let policy = self.policy.as_deref_mut()?;
        caught(|| question(policy)).map_err(|_| self.give_up()).ok()
    }

    /// Asks the policy without changing it. A panic is not told: it would come again in
    /// `decide`, and be dealt with there.
    fn read<T>(&self, question: impl FnOnce(&dyn Policy) -> T) -> Option<T> {
        let policy = self.policy.as_deref()?;
        caught(|| question(policy)).ok()
    }

    #[cold]
    fn give_up(&mut self) {
        let policy = self.name;
        tracing::error!(policy, "the policy panicked; all queues run until another takes over");
        self.failures.policy_failed();
        self.dispose();
    }

    /// Drops the policy, whose destructor may panic as well.
    fn dispose(&mut self) {
        let policy = self.policy.take();
        if caught(|| drop(policy)).is_err() {
            tracing::error!(policy = self.name, "the policy's destructor panicked");
        }
    }
}

impl Drop for IsolatedPolicy {
    fn drop(&mut self) {
        self.dispose();
    }
}

impl Policy for IsolatedPolicy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> Needs {
        let nothing = Needs { may_hold: MayHold::Nothing, ..Needs::default() };
        self.read(|policy| policy.needs()).unwrap_or(nothing)
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
