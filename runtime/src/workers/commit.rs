//! Committing: what queues have staged with their device is carried out together.
//!
//! Where several holds that are decided together cost one preemption, steps are only staged, and
//! wait for [`Backend::commit`](xsched_core::hal::Backend::commit). That may take as long as a
//! driver needs, and the threads that order holds must not wait for it: a submitter that runs a
//! round, the scheduler's thread, the watchdog. So each such device has one thread that commits. A
//! round of the scheduler asks for a commit once, after its last order; a step that is staged
//! outside of a round asks at once.
//!
//! Meanwhile the thread holds no lock of the runtime but the one around the backend, which is
//! otherwise taken only to open a queue on that device.

use std::sync::{Arc, PoisonError};

use xsched_core::fault::Fault;

use super::{DeviceQueue, USER_CODE};
use crate::panics::{caught, contain};
use crate::sync::{Condvar, Mutex, lock};

/// The queues of one device that have staged something.
#[derive(Default)]
pub(crate) struct Committer {
    pending: Mutex<Pending>,
    changed: Condvar,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Pending {
    staged: Vec<Arc<dyn DeviceQueue>>,
    due: bool,
    stop: bool,
}

impl Committer {
    /// A step of this queue waits for a commit, which the caller asks for soon.
    pub(crate) fn stage(&self, queue: Arc<dyn DeviceQueue>) {
        lock(&self.pending).staged.push(queue);
    }

    /// Has everything committed that was staged before.
    pub(crate) fn commit(&self) {
        lock(&self.pending).due = true;
        self.changed.notify_one();
    }

    /// Has the thread end when there is nothing left to commit.
    pub(crate) fn stop(&self) {
        lock(&self.pending).stop = true;
        self.changed.notify_one();
    }

    /// Waits until something is to be committed, and moves the queues into `out`. False if there
    /// will never be anything.
    fn take(&self, out: &mut Vec<Arc<dyn DeviceQueue>>) -> bool {
        let mut pending = lock(&self.pending);
        while !pending.due && !pending.stop {
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut pending.staged, out);
        // Before the commit: what is staged during it is for the next one.
        std::mem::take(&mut pending.due)
    }
}

/// Waits for something to commit, has the device do it, and tells the queues. False when there
/// will never be anything again.
pub(crate) fn commit_round(
    committer: &Committer,
    queues: &mut Vec<Arc<dyn DeviceQueue>>,
    commit: &mut dyn FnMut() -> Result<(), Fault>,
) -> bool {
    if !committer.take(queues) {
        // What was staged without a commit has gone with its queues.
        queues.clear();
        return false;
    }
    let fault = match caught(commit) {
        Ok(result) => result.err(),
        Err(_) => {
            tracing::error!("the device backend panicked while it committed");
            Some(Fault::DeviceLost)
        }
    };
    if let Some(fault) = fault {
        tracing::warn!(%fault, queues = queues.len(), "the device did not carry out steps");
    }
    for queue in queues.drain(..) {
        contain(USER_CODE, move || queue.committed(fault));
    }
    true
}
