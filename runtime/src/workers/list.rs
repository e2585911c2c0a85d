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
    /// Set while something is on the list, or it has ended. For a thread that spins.
    has_news: AtomicBool,
}

impl std::fmt::Debug for QueueList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueList").field("polling", &self.polling).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Listed {
    queues: Vec<Arc<dyn DeviceQueue>>,
    notice: Notice,
    /// The thread sleeps, and has to be woken.
    waits: bool,
}

/// Why a thread is to look, beside new queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Notice {
    #[default]
    None,
    /// There may be something to see.
    Look,
    /// The thread is to end, now and later.
    Stop,
}

/// Answer to a thread that looks at its list.
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
            has_news: AtomicBool::new(false),
        })
    }

    pub(super) fn push(&self, queue: Arc<dyn DeviceQueue>) {
        self.tell(|listed| listed.queues.push(queue));
    }

    pub(super) fn stop(&self) {
        self.tell(|listed| listed.notice = Notice::Stop);
    }

    /// Makes a change, and wakes the thread if it sleeps.
    fn tell(&self, change: impl FnOnce(&mut Listed)) {
        let mut listed = lock(&self.listed);
        change(&mut listed);
        self.has_news.store(true, Ordering::Relaxed);
        let waits = std::mem::take(&mut listed.waits);
        drop(listed);
        if waits {
            self.changed.notify_one();
        }
    }

    /// There may be something to see: the thread looks at once.
    pub(crate) fn notify(&self) {
        // SeqCst, as in `set_polling`: a reaper that is seen polling will arm what it looks at
        // after this call.
        if !self.polling.load(Ordering::SeqCst) {
            self.tell(|listed| listed.notice = listed.notice.max(Notice::Look));
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

    /// True if there is something to take. Takes no lock, so it may be out of date.
    #[cfg(not(loom))]
    pub(super) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    /// Moves new queues into `out`, after waiting for some: at most for this long, or for as long
    /// as it takes.
    pub(super) fn take(
        &self,
        out: &mut Vec<Arc<dyn DeviceQueue>>,
        at_most: Option<Duration>,
    ) -> News {
        let mut listed = lock(&self.listed);
        while listed.queues.is_empty() && listed.notice == Notice::None {
            let Some(span) = at_most else {
                listed.waits = true;
                listed = self.changed.wait(listed).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if !span.is_zero() {
                listed.waits = true;
                let woken = self.changed.wait_timeout(listed, span);
                listed = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            break;
        }
        listed.waits = false;
        self.has_news.store(false, Ordering::Relaxed);
        let stops = listed.notice == Notice::Stop;
        let notified = !listed.queues.is_empty() || listed.notice == Notice::Look;
        if !stops {
            listed.notice = Notice::None;
        }
        out.append(&mut listed.queues);
        News { notified, end: stops && out.is_empty() }
    }
}
