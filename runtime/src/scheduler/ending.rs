//! Queues that leave, and the end of the scheduler.

use std::sync::{Arc, PoisonError};

use xsched_core::id::QueueId;

use super::ScheduledQueue;
use super::handle::SchedulerHandle;
use crate::sync::{Condvar, MutexGuard, lock};

/// Queues that may be about to go while another one is made: each still has its hardware queue.
const LEAVING_MAX: usize = 16;

/// Until when a thread waits; `None` is for ever.
pub(crate) type Deadline = Option<std::time::Instant>;

/// Waits for a change of what the guard guards; `None` once the deadline has passed.
fn wait<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Deadline,
) -> Option<MutexGuard<'a, T>> {
    let Some(deadline) = deadline else {
        return Some(changed.wait(guard).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.saturating_duration_since(std::time::Instant::now());
    if left.is_zero() {
        return None;
    }
    let woken = changed.wait_timeout(guard, left);
    Some(woken.unwrap_or_else(PoisonError::into_inner).0)
}

impl SchedulerHandle {
    /// Takes a queue out of the register and out of the scheduler's table.
    pub(crate) fn detach(&self, id: QueueId) {
        let mut register = lock(&self.register);
        register.early.retain(|(of, _)| *of != id);
        let queue = register.put(id, None);
        drop(register);
        // Perhaps the last that holds the queue, so not under the lock.
        drop(queue);
        self.send(move |now, scheduler| {
            if let Err(error) = scheduler.detach(now, id) {
                tracing::warn!(queue = id.index(), %error, "a queue was not detached");
            }
        });
        lock(&self.register).departures += 1;
        self.departed.notify_all();
    }

    /// Queues that have gone so far. What is asked after this call finds their places free.
    pub(crate) fn departures(&self) -> u64 {
        lock(&self.register).departures
    }

    /// Waits for a queue to go, at most until `deadline`. False if none is about to, or none did.
    pub(crate) fn wait_for_departure(&self, before: u64, deadline: Deadline) -> bool {
        let mut register = lock(&self.register);
        while register.departures == before {
            if register.leaving() == 0 {
                return false;
            }
            let Some(next) = wait(&self.departed, register, deadline) else { return false };
            register = next;
        }
        true
    }

    /// Waits while more than [`LEAVING_MAX`] queues are about to go, at most until `deadline`.
    pub(crate) fn let_queues_leave(&self, deadline: Deadline) {
        let mut register = lock(&self.register);
        while register.leaving() > LEAVING_MAX {
            let Some(next) = wait(&self.departed, register, deadline) else { return };
            register = next;
        }
    }

    /// Has no further queue registered. Returns those that are there.
    pub(crate) fn close_register(&self) -> Vec<(QueueId, Arc<dyn ScheduledQueue>)> {
        let mut register = lock(&self.register);
        register.closed = true;
        register.queues()
    }

    /// Waits for the scheduler's end, at most until `deadline`. False if it has not come.
    pub(crate) fn wait_gone(&self, deadline: Deadline) -> bool {
        let mut inbox = lock(&self.inbox);
        while !inbox.has_ended() {
            let Some(next) = wait(&self.ended, inbox, deadline) else { return false };
            inbox = next;
        }
        true
    }
}
