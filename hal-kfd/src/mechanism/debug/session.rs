//! Knowledge of a debugger about the process's queues.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use crate::error::KfdError;
use crate::mechanism::suspended::SuspendedQueues;
use crate::queue::KfdQueue;
use crate::uapi::{DBG_TRAP, EC_QUEUE_NEW, FAILED_BIT, ID_MASK, INVALID_BIT, QueueSnapshotEntry};

/// A debugger's session with a process.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The pipe on which the driver announces exceptions. None are requested, so nothing reads it.
    /// `None` when the session has ended.
    pub(super) open: Option<(OwnedFd, OwnedFd)>,
    pub(super) held: SuspendedQueues,
    /// Each queue that the debugger has seen, by id.
    pub(super) seen: BTreeMap<u32, Seen>,
    /// Queues seen so far.
    count: u64,
}

/// A queue that the debugger has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    ring_base: u64,
    /// Number among all queues of the session, from 1.
    pub(super) number: u64,
}

impl Session {
    /// A session that has just begun.
    pub(super) fn new(read: OwnedFd, write: OwnedFd) -> Self {
        Self { open: Some((read, write)), ..Self::default() }
    }

    /// Notes the queues of a snapshot. A queue with the driver's flag for new queues is not the one
    /// that had its id before.
    pub(super) fn record(&mut self, entries: &[QueueSnapshotEntry]) {
        let before = std::mem::take(&mut self.seen);
        for entry in entries {
            let ring_base = entry.ring_base;
            let is_same =
                |seen: &&Seen| entry.exceptions & EC_QUEUE_NEW == 0 && seen.ring_base == ring_base;
            let number = match before.get(&entry.queue_id).filter(is_same) {
                Some(seen) => seen.number,
                None => {
                    self.count += 1;
                    self.count
                }
            };
            self.seen.insert(entry.queue_id, Seen { ring_base, number });
        }
    }

    /// Fails unless the debugger has seen this very queue.
    pub(super) fn check_seen(&self, queue: &KfdQueue) -> Result<(), KfdError> {
        match self.seen.get(&queue.id()) {
            Some(seen) if seen.ring_base == queue.facts().ring_base => Ok(()),
            _ => Err(KfdError::UnknownQueue { call: DBG_TRAP.name, queue: queue.id() }),
        }
    }
}

/// The result for one queue, from the ids that a suspend or resume wrote back.
pub(super) fn result_of(ids: &[u32], queue: u32) -> Result<(), KfdError> {
    let call = DBG_TRAP.name;
    match ids.iter().find(|id| *id & ID_MASK == queue) {
        Some(id) if id & FAILED_BIT != 0 => Err(KfdError::PreemptionTimedOut { call }),
        Some(id) if id & INVALID_BIT != 0 => Err(KfdError::UnknownQueue { call, queue }),
        Some(_) => Ok(()),
        None => {
            let advice = "the driver returned another id; update XSched";
            Err(KfdError::UnexpectedAnswer { call, answer: u64::from(queue), advice })
        }
    }
}
