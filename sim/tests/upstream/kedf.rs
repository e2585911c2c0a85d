//! The K earliest deadlines. Defects: idle queues and those without a hint are the last of one
//! order, in which they take places; all devices count as one; and those of `hints`.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use super::hints::HintMap;
use super::{Algorithm, HOLD, RUN};

#[derive(Debug)]
pub(crate) struct Kedf {
    k: usize,
    deadlines: HintMap<Duration>,
}

impl Default for Kedf {
    fn default() -> Self {
        Self { k: 1, deadlines: HintMap::default() }
    }
}

impl Kedf {
    fn deadline(&self, queue: &QueueInfo) -> Instant {
        let span = self.deadlines.get(queue).filter(|_| queue.ready);
        span.map_or(Instant::FAR_FUTURE, |span| queue.report.ready_since + span)
    }
}

impl Algorithm for Kedf {
    const NAME: &'static str = "kedf";

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::K(k) = hint else { return false };
        self.k = k as usize;
        true
    }

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.deadlines.observe(queue, event, queues, |hints| hints.deadline);
    }

    fn decide(&mut self, _: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let mut order: Vec<_> = queues.iter().collect();
        // Among equals the order is whatever sorting makes of it; for a few it is that of handles.
        order.sort_by_key(|queue| self.deadline(queue));
        for (place, queue) in order.into_iter().enumerate() {
            out.set(queue.id, if place < self.k { RUN } else { HOLD });
        }
    }
}
