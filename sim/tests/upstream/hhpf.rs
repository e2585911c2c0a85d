//! Highest priority first, with one highest priority for all devices. Defects: as `hpf`.

use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

use super::Algorithm;
use super::hints::HintMap;
use super::hpf::{highest, hinted};

#[derive(Debug, Default)]
pub(crate) struct Hhpf {
    priorities: HintMap<i16>,
}

impl Algorithm for Hhpf {
    const NAME: &'static str = "hhpf";

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.priorities.observe(queue, event, queues, hinted);
    }

    fn decide(&mut self, _: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let members: Vec<_> = queues.iter().collect();
        let priority = |queue: &QueueInfo| self.priorities.get(queue).unwrap_or(0);
        highest(members.iter().copied(), out, priority);
    }
}
