//! A process's count of its work on a GPU.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use crate::page::SharedPage;
use crate::wakeup::count_queue;

/// Pages of processes below this one, which it holds directly when its work begins.
#[derive(Debug, Default)]
pub(crate) struct PagesBelow {
    /// The generation that the scheduler gave them; 0 for none.
    pub(crate) generation: u32,
    pub(crate) pages: Vec<SharedPage>,
}

/// Counts the queues of a process that have work on a GPU, and wakes the daemon when that begins or
/// ends.
#[derive(Debug)]
pub struct Load {
    page: Arc<SharedPage>,
    doorbell: Arc<OwnedFd>,
    below: Arc<Mutex<PagesBelow>>,
}

impl Load {
    /// The count in the first page of a unit.
    #[must_use]
    pub fn new(page: Arc<SharedPage>, doorbell: Arc<OwnedFd>) -> Self {
        Self { page, doorbell, below: Arc::default() }
    }

    /// The count, which then wakes another daemon.
    #[must_use]
    pub fn with_doorbell(&self, doorbell: Arc<OwnedFd>) -> Self {
        Self { page: Arc::clone(&self.page), doorbell, below: Arc::clone(&self.below) }
    }

    /// A queue got work (`busy`), or has none any more. Never blocks.
    ///
    /// If work begins where the daemon is to hear of it, the processes below are held at once:
    /// until the daemon wakes, which takes ten times as long as this, what they launched would run.
    pub fn note(&self, busy: bool) {
        let header = self.page.header();
        if count_queue(&header.loaded_queues, &header.daemon_wants_wakeups, busy) {
            if busy {
                self.hold_below();
            }
            self.ring();
        }
    }

    /// Holds those below until the daemon has decided, which it does after each ring: to be called
    /// before one.
    fn hold_below(&self) {
        let header = self.page.header();
        let generation = header.pages_below.load(Ordering::Acquire);
        let holds = header.direct_holds.load(Ordering::Relaxed);
        // A scheduler that has not ended the last one hangs, and holds no one past the lease.
        if header.direct_holds_ended.load(Ordering::Acquire) != holds {
            return;
        }
        // The thread that replaces them has the lock: the daemon alone holds them this time.
        let Some(below) = self.below.try_lock().ok().filter(|_| generation != 0) else { return };
        if below.generation == generation {
            let held = below.pages.iter().filter(|page| page.hold_directly()).count();
            if held > 0 {
                header.direct_holds.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// The generation of pages below that the daemon wants the process to have, if it has others.
    pub(crate) fn wanted_below(&self) -> Option<u32> {
        let wanted = self.page.header().pages_below.load(Ordering::Acquire);
        let below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        (wanted != below.generation).then_some(wanted)
    }

    /// Has these pages be held from now on.
    pub(crate) fn set_below(&self, pages: PagesBelow) {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *below, pages);
        drop(below);
        // Unmaps pages.
        drop(before);
    }

    /// The page where it counts.
    pub(crate) const fn page(&self) -> &Arc<SharedPage> {
        &self.page
    }

    /// Wakes the daemon. Never blocks.
    pub(crate) fn ring(&self) {
        // It is never full: nothing reads it, and the daemon sees each write.
        let _ = rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes());
    }
}
