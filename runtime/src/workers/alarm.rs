//! Waking a thread when a device says that there are completions.

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::QueueList;
use crate::lock::Lock;

/// Waker of a device for a queue's completions, once each time it is armed. The thread that
/// waits for them looks itself, which saves handing them over; without one, the reaper does.
///
/// A thread in front must look for completions when it was woken, or pass on that it did not: see
/// [`Alarm::leave`]. Futures cannot promise that, so they are never in front.
#[derive(Debug)]
pub(crate) struct Alarm {
    front: Lock<Option<Waker>>,
    reaper: Arc<QueueList>,
}

impl Alarm {
    pub(crate) fn new(reaper: Arc<QueueList>) -> Self {
        Self { front: Lock::new(None), reaper }
    }

    /// Puts a thread in front, unless there is one. True if it is there now.
    pub(crate) fn enter(&self, waker: &Waker) -> bool {
        let mut front = self.front.lock();
        match &*front {
            Some(other) => other.will_wake(waker),
            None => {
                *front = Some(waker.clone());
                true
            }
        }
    }

    /// True if a thread is in front.
    pub(crate) fn has_front(&self) -> bool {
        self.front.lock().is_some()
    }

    /// Takes a thread away from the front. False if it is not there, because it was never or has
    /// been woken: then there may be completions that no thread has been told of.
    pub(crate) fn leave(&self, waker: &Waker) -> bool {
        let gone = self.front.lock().take_if(|front| front.will_wake(waker));
        gone.is_some()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let front = self.front.lock().take();
        match front {
            Some(waker) => waker.wake(),
            None => self.reaper.notify(),
        }
    }
}
