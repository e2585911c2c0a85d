//! Hints as the C++ library keeps them: in a map of each policy's own, by the handle of the queue.
//! Handles are used again, and the maps are not cleaned.

use std::collections::BTreeMap;

use xsched_core::hint::Hints;
use xsched_core::id::QueueId;
use xsched_core::policy::Event;
use xsched_core::scheduler::{QueueInfo, QueueTable};

/// Handle of a queue. The next queue in the same place has the same.
pub(crate) fn handle(info: &QueueInfo) -> usize {
    info.id.index()
}

/// Hints by handle.
#[derive(Debug)]
pub(crate) struct HintMap<T>(BTreeMap<usize, T>);

impl<T> Default for HintMap<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> HintMap<T> {
    /// Remembers a hint, when one is given. Defect: forgets none when a queue ends.
    pub(crate) fn observe(
        &mut self,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
        read: impl Fn(&Hints) -> Option<T>,
    ) {
        if let (Event::Attached | Event::Hinted, Some(info)) = (event, queues.get(queue))
            && let Some(hint) = read(&info.hints)
        {
            self.0.insert(handle(info), hint);
        }
    }

    /// Hint of a queue.
    pub(crate) fn get(&self, info: &QueueInfo) -> Option<T> {
        self.0.get(&handle(info)).copied()
    }

    /// Forgets a queue, in policies that do.
    pub(crate) fn forget(&mut self, queue: QueueId) {
        self.0.remove(&queue.index());
    }

    /// True if there is no hint at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
