//! A list of queues that one of a device's threads must see to.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::DeviceQueue;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, lock};

/// The queues that one of a device's threads must see to.
pub(crate) struct QueueList {
    listed: Mutex<Listed>,
    changed: Condvar,
    /// The thread polls its queues just now.
    polling: AtomicBool,
}

impl std::fmt::Debug for QueueList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueList").field("polling", &self.polling).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Listed {
    queues: Vec<Arc<dyn DeviceQueue>>,
    /// There may be something to see.
    notified: bool,
    stop: bool,
}

/// What a thread learns when it looks at its list.
pub(super) struct News {
    /// Something is about to happen.
    pub(super) notified: bool,
    /// Nothing will ever happen again.
    pub(super) end: bool,
}

impl QueueList {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            listed: Mutex::default(),
            changed: Condvar::new(),
            polling: AtomicBool::new(false),
        })
    }

    pub(super) fn push(&self, queue: Arc<dyn DeviceQueue>) {
        lock(&self.listed).queues.push(queue);
        self.changed.notify_one();
    }

    pub(super) fn stop(&self) {
        lock(&self.listed).stop = true;
        self.changed.notify_one();
    }

    /// There may be something to see: the thread looks at once.
    pub(crate) fn notify(&self) {
        // SeqCst, as in `set_polling`: a reaper that is seen polling will arm what it looks at
        // after this call.
        if !self.polling.load(Ordering::SeqCst) {
            lock(&self.listed).notified = true;
            self.changed.notify_one();
        }
    }

    /// Says whether the thread looks by itself for now.
    pub(super) fn set_polling(&self, polling: bool) {
        self.polling.store(polling, Ordering::SeqCst);
    }

    /// Drops the queues that no thread will see to.
    #[cfg(all(test, loom))]
    pub(crate) fn forget(&self) {
        let queues = std::mem::take(&mut lock(&self.listed).queues);
        drop(queues);
    }

    /// Moves new queues into `out`, after waiting for some: at most for this long, or for as long
    /// as it takes.
    pub(super) fn take(
        &self,
        out: &mut Vec<Arc<dyn DeviceQueue>>,
        at_most: Option<Duration>,
    ) -> News {
        let mut listed = lock(&self.listed);
        while listed.queues.is_empty() && !listed.stop && !listed.notified {
            let Some(span) = at_most else {
                listed = self.changed.wait(listed).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if !span.is_zero() {
                let woken = self.changed.wait_timeout(listed, span);
                listed = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            break;
        }
        let notified = std::mem::take(&mut listed.notified) || !listed.queues.is_empty();
        out.append(&mut listed.queues);
        News { notified, end: listed.stop && out.is_empty() }
    }
}
