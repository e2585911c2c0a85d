//! Laxity: a queue may be late by the time of its hint, and is urgent after that.
//!
//! From becoming ready, a queue has the priority that its hint has for it while it is lax, and
//! after that time the one for when it is critical. On each device the ready queues with the
//! highest priority of the moment run, all of them. A queue without the hint has its ordinary
//! priority all the time. [`Priority::NO_EXECUTE`] queues never run; as a priority of
//! the hint it keeps the queue from running for that time. With
//! [`PolicyHint::Ageing`](xsched_core::hint::PolicyHint::Ageing) low priorities have a turn now and
//! then.

use xsched_core::hint::{HintKind, Priority};
use xsched_core::scheduler::QueueInfo;
use xsched_core::time::Instant;

use crate::choose::{Chooser, Rules};
use crate::engine::policy;

#[derive(Clone, Copy, Debug)]
struct Laxities;

fn priority(now: Instant, info: &QueueInfo) -> Priority {
    match info.hints.laxity {
        None => info.hints.priority,
        // An idle queue will be lax when it becomes ready.
        Some(laxity) if !info.ready || now < info.report.ready_since + laxity.lax => {
            laxity.lax_priority
        }
        Some(laxity) => laxity.critical_priority,
    }
}

impl Rules for Laxities {
    const STRICT: bool = true;
    const IDLE_HELD: bool = true;
    const HINTS: &[HintKind] = &[HintKind::Laxity, HintKind::Priority];

    fn key(&self, now: Instant, info: &QueueInfo) -> Option<u64> {
        let priority = priority(now, info);
        let runs = priority != Priority::NO_EXECUTE;
        runs.then(|| (Priority::MAX.rank() - priority.rank()) as u64)
    }

    fn changes_at(&self, info: &QueueInfo) -> Option<Instant> {
        info.hints.laxity.map(|laxity| info.report.ready_since + laxity.lax)
    }
}

policy! {
    /// Laxity. See the [module](self).
    Lax(Chooser<Laxities>) = Chooser::new(Laxities), "lax"
}
