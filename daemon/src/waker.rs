//! Wakes a thread that sleeps on an eventfd.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the scheduler's thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(pub(crate) Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // It is full only if the thread is about to wake.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// An eventfd that never blocks.
pub(crate) fn new_eventfd() -> rustix::io::Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}
