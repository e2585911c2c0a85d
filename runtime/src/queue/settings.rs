//! Settings of a queue's handles that the scheduler has not fetched.
//!
//! Changes merge until the scheduler takes them, so the mailbox has one request for each queue at
//! most, however often its settings change.

use std::sync::Arc;

use xsched_core::hint::Hints;
use xsched_core::id::QueueId;
use xsched_core::scheduler::LevelChoice;
use xsched_core::time::Instant;

use crate::scheduler::{Scheduler, SchedulerHandle};
use crate::sync::{Mutex, lock};

/// Changes of a queue's settings that the scheduler has not fetched yet.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pending: Mutex<Pending>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    /// Takes the place of all hints but the priority of the submitting thread.
    pub(super) hints: Option<Hints>,
    /// The priority of the submitting thread.
    pub(super) cpu_priority: Option<i16>,
    pub(super) level: Option<LevelChoice>,
    /// The request is in the mailbox.
    asked: bool,
}

impl Settings {
    /// Notes a change, and has the scheduler fetch it.
    pub(super) fn change(
        settings: &Arc<Self>,
        scheduler: &SchedulerHandle,
        queue: QueueId,
        change: impl FnOnce(&mut Pending),
    ) {
        let mut pending = lock(&settings.pending);
        change(&mut pending);
        let asked = std::mem::replace(&mut pending.asked, true);
        drop(pending);
        if !asked {
            let settings = Arc::clone(settings);
            scheduler.send(move |now, scheduler| settings.apply(now, scheduler, queue));
        }
    }

    fn apply(&self, now: Instant, scheduler: &mut Scheduler, queue: QueueId) {
        let pending = std::mem::take(&mut *lock(&self.pending));
        let known = scheduler.table().get(queue).map(|info| info.hints);
        let changed = pending.hints.is_some() || pending.cpu_priority.is_some();
        if let Some(known) = known.filter(|_| changed) {
            let mut hints = pending.hints.unwrap_or(known);
            hints.cpu_priority = pending.cpu_priority.unwrap_or(known.cpu_priority);
            if let Err(error) = scheduler.set_hints(now, queue, hints) {
                tracing::warn!(queue = queue.index(), %error, "hints were not taken");
            }
        }
        if let Some(level) = pending.level
            && let Err(error) = scheduler.set_level(now, queue, level)
        {
            tracing::warn!(queue = queue.index(), %error, "the level was not taken");
        }
    }
}
