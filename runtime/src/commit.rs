//! Committing: what queues have staged with their device is carried out together.
//!
//! Where several holds that are decided together cost one preemption, steps are only staged, and
//! wait for [`Backend::commit`](xsched_core::hal::Backend::commit). That may take as long as a
//! driver needs, and those who order holds are not to wait for it: a thread that submits and runs
//! a round on the way, the scheduler's, the watchdog. So each such device has a thread that
//! commits, and nobody else does. A round of the scheduler asks for it once, after its last order;
//! whoever else stages a step asks at once.
//!
//! The thread holds no lock of the runtime meanwhile but the one around the backend, for which
//! only those wait who open a queue on that device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use xsched_core::fault::Fault;

use crate::device::{USERS, unless_it_panics};
use crate::hub::{Member, lock};
use crate::sync::{Condvar, Mutex, mutant};

/// The queues of one device that have staged something.
#[derive(Default)]
pub(crate) struct Committer {
    todo: Mutex<Todo>,
    bell: Condvar,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Todo {
    staged: Vec<Arc<dyn Member>>,
    due: bool,
    stop: bool,
}

impl Committer {
    /// A step of this queue waits for a commit. Whoever says so has it committed soon.
    pub(crate) fn stage(&self, member: Arc<dyn Member>) {
        lock(&self.todo).staged.push(member);
    }

    /// Has everything committed that was staged before.
    pub(crate) fn commit(&self) {
        lock(&self.todo).due = true;
        self.bell.notify_one();
    }

    /// Has the thread end when there is nothing left to commit.
    pub(crate) fn stop(&self) {
        lock(&self.todo).stop = true;
        self.bell.notify_one();
    }

    /// Waits until something is to be committed, and moves the queues into `out`. False if nothing
    /// will ever be.
    fn take(&self, out: &mut Vec<Arc<dyn Member>>) -> bool {
        let mut todo = lock(&self.todo);
        while !todo.due && !todo.stop {
            todo = self.bell.wait(todo).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut todo.staged, out);
        // Before the commit: what is staged during it is for the next one.
        if mutant("forgotten afterwards") { todo.due } else { std::mem::take(&mut todo.due) }
    }

    /// Takes back that something is due: too late, for a defect in a model.
    fn forget(&self) {
        lock(&self.todo).due = false;
    }
}

/// Waits for something to commit, has the device do it, and tells the queues. False when there
/// will never be anything again.
pub(crate) fn commit_round(
    committer: &Committer,
    members: &mut Vec<Arc<dyn Member>>,
    commit: &mut dyn FnMut() -> Result<(), Fault>,
) -> bool {
    if !committer.take(members) {
        // What nobody wants committed has gone with its queues.
        members.clear();
        return false;
    }
    let fault = match catch_unwind(AssertUnwindSafe(commit)) {
        Ok(result) => result.err(),
        Err(_) => {
            tracing::error!("the device backend panicked while it committed");
            Some(Fault::DeviceLost)
        }
    };
    if let Some(fault) = fault {
        tracing::warn!(%fault, queues = members.len(), "the device did not carry out steps");
    }
    for member in members.drain(..) {
        unless_it_panics(USERS, || member.committed(fault));
    }
    if mutant("forgotten afterwards") {
        committer.forget();
    }
    true
}
