//! Mail for the scheduler.

use std::sync::Arc;

use xsched_core::id::QueueId;
use xsched_core::time::Instant;

use super::Scheduler;
use super::late::Late;
use crate::workers::Committer;

/// A closure for the scheduler.
pub(crate) type Request = Box<dyn FnOnce(Instant, &mut Scheduler) + Send>;

/// The mailbox, and what the threads that run rounds agree on.
///
/// It is bounded: a queue has at most one report in it, one change of settings and one request to
/// be detached; a thread that asks has one question, and takes it out when it gives up.
#[derive(Default)]
pub(super) struct Inbox {
    /// Requests with their numbers.
    pub(super) requests: Vec<(u64, Request)>,
    /// Requests so far.
    pub(super) numbered: u64,
    pub(super) reports: Vec<QueueId>,
    pub(super) phase: Phase,
    /// The scheduler's thread sleeps and has not been notified. Notifying is a system call, even
    /// where no thread waits.
    pub(super) asleep: bool,
    /// A thread runs a round, and will look here afterwards.
    pub(super) running: bool,
    /// When the scheduler wants to be asked again.
    pub(super) due: Option<Instant>,
    /// Until when the scheduler's thread sleeps, if it does and not for ever.
    pub(super) sleeps_until: Option<Instant>,
}

/// How near the scheduler is to its end. A phase never gives way to an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Open,
    /// The thread ends once the last queue has gone.
    Stopping,
    /// A round has panicked: the thread ends at once.
    Failed,
    /// The scheduler has ended; the inbox takes nothing any more.
    Ended,
}

impl Inbox {
    pub(super) fn advance(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    pub(super) fn has_mail(&self) -> bool {
        !self.requests.is_empty() || !self.reports.is_empty()
    }
}

/// Mail that a round of the scheduler starts with.
#[derive(Default)]
pub(crate) struct Mail {
    /// Closures to run.
    pub(crate) requests: Vec<(u64, Request)>,
    /// Queues that have reports.
    pub(crate) reports: Vec<QueueId>,
    /// Where the orders of the round have had steps staged.
    pub(super) staged: Vec<Arc<Committer>>,
    /// Work that earlier rounds could not do.
    pub(super) late: Late,
}
