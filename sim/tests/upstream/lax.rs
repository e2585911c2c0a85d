//! Laxity. Defects: one highest priority for all devices, and those of `hints`.

use xsched_core::hint::Laxity;
use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

use super::Algorithm;
use super::hints::HintMap;
use super::hpf::highest;

#[derive(Debug, Default)]
pub(crate) struct Lax {
    laxities: HintMap<Laxity>,
}

impl Algorithm for Lax {
    const NAME: &'static str = "lax";

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.laxities.observe(queue, event, queues, |hints| hints.laxity);
    }

    fn decide(&mut self, now: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let critical_at = |queue: &QueueInfo| {
            self.laxities.get(queue).map(|laxity| queue.report.ready_since + laxity.lax)
        };
        let members: Vec<_> = queues.iter().collect();
        highest(members.iter().copied(), out, |queue| {
            let Some(laxity) = self.laxities.get(queue) else { return 0 };
            let critical = critical_at(queue).is_some_and(|at| now >= at);
            (if critical { laxity.critical_priority } else { laxity.lax_priority }).get()
        });
        let pending = members.iter().filter(|queue| queue.ready).filter_map(|q| critical_at(q));
        if let Some(next) = pending.filter(|at| *at > now).min() {
            out.wake_at(next);
        }
    }
}
