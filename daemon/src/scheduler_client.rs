//! Client of the scheduler's thread, for other threads of the daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::scheduler::{Figures, Known, Op};
use crate::waker::Waker;

/// Time for which the scheduler's thread is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Counters of the thread of the connections.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    connections: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    /// Sets the number of connections now.
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
    /// TestDriver, for tests on one thread.
    #[cfg(any(test, feature = "fuzzing"))]
    TestDriver(Arc<std::sync::Mutex<crate::scheduler::TestDriver>>),
}

/// Sends operations to the scheduler, and waits for its answers.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerClient {
    scheduler: Scheduler,
    pub(crate) counts: Arc<Counts>,
}

impl SchedulerClient {
    pub(crate) fn new(ops: Sender<Op>, waker: Waker) -> Self {
        Self { scheduler: Scheduler::Thread(ops, waker), counts: Arc::default() }
    }

    /// Asks one without a thread.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_test_driver(
        driver: Arc<std::sync::Mutex<crate::scheduler::TestDriver>>,
    ) -> Self {
        Self { scheduler: Scheduler::TestDriver(driver), counts: Arc::default() }
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
            Scheduler::TestDriver(driver) => {
                driver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(op);
            }
        }
    }

    /// Asks it something; `None` if it does not answer.
    pub(crate) fn ask<T>(&self, op: impl FnOnce(Sender<T>) -> Op) -> Option<T> {
        let (answer, answered) = channel();
        self.send(op(answer));
        answered.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Returns the figures of metrics; `None` if the thread does not answer.
    pub(crate) fn figures(&self) -> Option<Box<Figures>> {
        self.ask(|answer| Op::Figures { answer })
    }

    /// The processes that it knows; `None` if it does not answer.
    pub(crate) fn known(&self) -> Option<Vec<Known>> {
        self.ask(|answer| Op::Known { answer })
    }
}
