//! Highest priority first, per device. Defects: a hint is clamped to the priorities that run, so
//! that "no execute" is one of them; and those of `hints`.

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

use super::hints::HintMap;
use super::{Algorithm, HOLD, RUN};

/// A priority as it was hinted. No queue hints the default.
pub(crate) fn hinted(hints: &Hints) -> Option<i16> {
    (hints.priority != Priority::DEFAULT).then(|| hints.priority.get().clamp(-255, 255))
}

/// Holds each of these queues that is below the highest ready one. If none is ready, all run.
pub(crate) fn highest<'t>(
    queues: impl Iterator<Item = &'t QueueInfo> + Clone,
    out: &mut Decisions<'_>,
    priority: impl Fn(&QueueInfo) -> i16,
) {
    let top = queues.clone().filter(|queue| queue.ready).map(&priority).max();
    for queue in queues {
        let below = top.is_some_and(|top| priority(queue) < top);
        out.set(queue.id, if below { HOLD } else { RUN });
    }
}

#[derive(Debug, Default)]
pub(crate) struct Hpf {
    priorities: HintMap<i16>,
}

impl Algorithm for Hpf {
    const NAME: &'static str = "hpf";

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.priorities.observe(queue, event, queues, hinted);
    }

    fn decide(&mut self, _: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        for device in queues.devices() {
            let members: Vec<_> = queues.on_device(device).collect();
            let priority = |queue: &QueueInfo| self.priorities.get(queue).unwrap_or(0);
            highest(members.iter().copied(), out, priority);
        }
    }
}
