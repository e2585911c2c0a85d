//! The register of queues.

use std::sync::Arc;

use xsched_core::id::QueueId;
use xsched_core::message::Order;

use super::ScheduledQueue;

/// A queue, or that it has gone.
type Entry = (QueueId, Option<Arc<dyn ScheduledQueue>>);

/// The queues that the scheduler can reach, by index.
#[derive(Default)]
pub(super) struct Register {
    /// By index. A queue that has gone stays until its place is given to another one.
    entries: Vec<Option<Entry>>,
    /// Orders for queues that are in the scheduler's table and not yet here.
    pub(super) early: Vec<(QueueId, Order)>,
    /// No queue is entered any more.
    pub(super) closed: bool,
    /// Queues that have gone so far.
    pub(super) departures: u64,
}

impl Register {
    pub(super) fn queue(&self, id: QueueId) -> Option<Arc<dyn ScheduledQueue>> {
        let (known, queue) = self.entries.get(id.index())?.as_ref()?;
        queue.clone().filter(|_| *known == id)
    }

    /// All queues.
    pub(super) fn queues(&self) -> Vec<(QueueId, Arc<dyn ScheduledQueue>)> {
        let known = |(id, queue): &Entry| Some((*id, queue.clone()?));
        self.entries.iter().flatten().filter_map(known).collect()
    }

    /// Queues that are about to go.
    pub(super) fn leaving(&self) -> usize {
        let queues = self.entries.iter().flatten().filter_map(|(_, queue)| queue.as_ref());
        queues.filter(|queue| queue.is_leaving()).count()
    }

    /// True if no queue is there.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.iter().flatten().all(|(_, queue)| queue.is_none())
    }

    /// Enters a queue, or that it has gone. Gives back what was there.
    pub(super) fn put(
        &mut self,
        id: QueueId,
        queue: Option<Arc<dyn ScheduledQueue>>,
    ) -> Option<Arc<dyn ScheduledQueue>> {
        if self.entries.len() <= id.index() {
            self.entries.resize_with(id.index() + 1, || None);
        }
        self.entries[id.index()].replace((id, queue)).and_then(|(_, queue)| queue)
    }

    /// True if the queue was there and has gone, so that it has no use for orders.
    pub(super) fn has_gone(&self, id: QueueId) -> bool {
        let slot = self.entries.get(id.index()).and_then(Option::as_ref);
        slot.is_some_and(|(known, queue)| *known == id && queue.is_none())
    }
}
