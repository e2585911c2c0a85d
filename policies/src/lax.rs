//! Laxity: a queue may be late by so much, and is urgent after that.
//!
//! From becoming ready, a queue has the priority that its hint has for it while it is lax, and
//! after that time the one for when it is critical. On each device the ready queues with the
//! highest priority of the moment run, all of them. A queue without the hint has its ordinary
//! priority all the time. [`Priority::NO_EXECUTE`] queues never run; as a priority of
//! the hint it keeps the queue from running for that time.

use xsched_core::hint::Priority;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

use crate::choose::{self, Width};

/// The policy. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Lax {
    /// When the next queue becomes critical; nobody has to be looked at before.
    next: Option<Instant>,
}

/// When a ready queue becomes, or became, critical.
fn critical_at(info: &QueueInfo) -> Option<Instant> {
    info.hints.laxity.map(|laxity| info.report.ready_since + laxity.lax)
}

fn priority(now: Instant, info: &QueueInfo) -> Priority {
    match info.hints.laxity.zip(critical_at(info)) {
        None => info.hints.priority,
        // An idle queue will be lax when it becomes ready.
        Some((laxity, at)) if !info.ready || now < at => laxity.lax_priority,
        Some((laxity, _)) => laxity.critical_priority,
    }
}

impl Policy for Lax {
    fn name(&self) -> &'static str {
        "lax"
    }

    fn observe(&mut self, _now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        choose::observe(queue, event, queues);
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let due = self.next.is_some_and(|next| next <= now);
        let changed = if due { Changed::All } else { changed };
        let key = |info: &QueueInfo| {
            let priority = priority(now, info);
            let runs = priority != Priority::NO_EXECUTE;
            runs.then(|| (Priority::MAX.rank() - priority.rank()) as u64)
        };
        choose::decide(changed, queues, out, Width::Class, key);
        let pending = |info: &QueueInfo| critical_at(info).filter(|&at| info.ready && at > now);
        let next = match changed {
            Changed::All => {
                self.next = None;
                queues.iter().filter_map(pending).min()
            }
            Changed::Some { queues: ids, .. } => {
                ids.iter().filter_map(|&id| queues.get(id)).filter_map(pending).min()
            }
        };
        self.next = self.next.into_iter().chain(next).min();
        if let Some(next) = self.next {
            out.wake_at(next);
        }
    }
}
