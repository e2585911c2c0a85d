//! A process's count of its work on a GPU.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::page::SharedPage;
use crate::wakeup::count_queue;

/// Counts the queues of a process that have work on a GPU, and wakes the daemon when that begins or
/// ends.
#[derive(Debug)]
pub struct Load {
    page: Arc<SharedPage>,
    doorbell: Arc<OwnedFd>,
}

impl Load {
    /// The count in the first page of a unit.
    #[must_use]
    pub const fn new(page: Arc<SharedPage>, doorbell: Arc<OwnedFd>) -> Self {
        Self { page, doorbell }
    }

    /// The count, which then wakes another daemon.
    #[must_use]
    pub fn with_doorbell(&self, doorbell: Arc<OwnedFd>) -> Self {
        Self { page: Arc::clone(&self.page), doorbell }
    }

    /// A queue got work (`busy`), or has none any more. Never blocks.
    pub fn note(&self, busy: bool) {
        let header = self.page.header();
        if count_queue(&header.loaded_queues, &header.daemon_wants_wakeups, busy) {
            self.ring();
        }
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
