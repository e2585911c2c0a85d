//! What other threads of the daemon ask the scheduler's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::scheduler::{Figures, Known, Op, Waker};

/// For how long the scheduler's thread is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the thread of the connections counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    connections: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    /// So many are connected now.
    pub(crate) fn note_connections(&self, connections: usize) {
        self.connections.store(connections as u64, Ordering::Relaxed);
    }

    /// A connection was refused.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Where the scheduler is.
#[derive(Clone, Debug)]
enum Scheduler {
    /// On a thread of its own.
    Thread(Sender<Op>, Waker),
    /// Here, for tests on one thread.
    #[cfg(any(test, feature = "fuzzing"))]
    Here(Arc<std::sync::Mutex<crate::scheduler::Here>>),
}

/// Asks the scheduler's thread.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    scheduler: Scheduler,
    pub(crate) counts: Arc<Counts>,
}

impl Desk {
    pub(crate) fn new(ops: Sender<Op>, waker: Waker) -> Self {
        Self { scheduler: Scheduler::Thread(ops, waker), counts: Arc::default() }
    }

    /// Asks one without a thread.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn here(here: Arc<std::sync::Mutex<crate::scheduler::Here>>) -> Self {
        Self { scheduler: Scheduler::Here(here), counts: Arc::default() }
    }

    /// Tells it something.
    pub(crate) fn send(&self, op: Op) {
        match &self.scheduler {
            Scheduler::Thread(ops, waker) => {
                // It has ended only if it panicked, and then clients' leases run out.
                let _ = ops.send(op);
                waker.wake();
            }
            #[cfg(any(test, feature = "fuzzing"))]
            Scheduler::Here(here) => {
                here.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(op);
            }
        }
    }

    /// Asks it something; `None` if it does not answer.
    pub(crate) fn ask<T>(&self, op: impl FnOnce(Sender<T>) -> Op) -> Option<T> {
        let (answer, answered) = channel();
        self.send(op(answer));
        answered.recv_timeout(PATIENCE).ok()
    }

    /// What metrics say; `None` if it does not answer.
    pub(crate) fn figures(&self) -> Option<Box<Figures>> {
        self.ask(|answer| Op::Figures { answer })
    }

    /// The processes that it knows; `None` if it does not answer.
    pub(crate) fn known(&self) -> Option<Vec<Known>> {
        self.ask(|answer| Op::Known { answer })
    }
}
