//! State that the threads of a hardware queue share without the device's lock.

use std::sync::Condvar;
use std::sync::atomic::{AtomicI32, AtomicU64};

use crate::gate::Gate;

/// The part of a hardware queue that is used without the device's lock.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Stops and continues the running command.
    pub(crate) gate: Gate,
    /// Where the queue's thread sleeps when it has no turn.
    pub(crate) turn: Condvar,
    /// One past the newest fenced command that has ended.
    pub(crate) visible: AtomicU64,
    /// The id of its thread.
    pub(crate) thread: AtomicI32,
}
