//! The set of queues that a mechanism has suspended.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::queue::KfdQueue;

/// The queues that a mechanism has suspended, by id.
#[derive(Debug, Default)]
pub(super) struct SuspendedQueues {
    held: BTreeMap<u32, Arc<KfdQueue>>,
}

impl SuspendedQueues {
    /// True if this very queue is in the set, and not another with its id.
    pub(super) fn has(&self, queue: &KfdQueue) -> bool {
        self.held.get(&queue.id()).is_some_and(|held| std::ptr::eq(&**held, queue))
    }

    pub(super) fn add(&mut self, queue: &Arc<KfdQueue>) {
        self.held.insert(queue.id(), Arc::clone(queue));
    }

    pub(super) fn remove(&mut self, queue: &KfdQueue) {
        if self.has(queue) {
            self.held.remove(&queue.id());
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<KfdQueue>> {
        self.held.values().cloned().collect()
    }
}
