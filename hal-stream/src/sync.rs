//! Locks and atomics of gates and their watch. With `--cfg loom` they are those of the models in
//! `models`, where a wait has no time limit. See `xtask/src/loom/mod.rs`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::fence;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

pub(crate) use xsched_node::OWNER_BIT as OWN;

/// Locks a mutex. What these locks guard is consistent at any time, so poison is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The word that a gate and the device share.
///
/// In models it is an atomic of loom's, elsewhere one in [`crate::FlagMemory`].
pub(crate) trait Word: Send + Sync {
    /// Sets bits.
    fn set(&self, bits: u32);
    /// Clears bits.
    fn clear(&self, bits: u32);
    /// The heartbeat of the other processes that hold the queue, if any does.
    fn foreign_heartbeat(&self) -> Option<u32> {
        None
    }
    /// Returns whether another process would hold the gate apart from the other gates of this
    /// process, also while a call has it open.
    fn is_hold_requested(&self) -> bool {
        self.foreign_heartbeat().is_some()
    }
    /// Returns whether another process holds the gate together with all other gates of this
    /// process.
    fn is_of_unit(&self) -> bool {
        false
    }
    /// Returns whether another process holds the gate apart from the other gates of this process.
    fn is_alone(&self) -> bool {
        false
    }
    /// Returns whether other processes may hold the gate.
    fn may_be_held_by_others(&self) -> bool {
        self.is_of_unit() || self.is_alone()
    }
    /// Ends the holds of other processes.
    fn end_foreign(&self) {
        self.clear(!OWN);
    }
    /// A call begins that opens the holds of other processes until [`Word::end_call`].
    fn begin_call(&self) {
        self.end_foreign();
    }
    /// Notes that the call has ended.
    fn end_call(&self) {}
}

impl<W: Word> Word for Option<W> {
    fn set(&self, bits: u32) {
        self.iter().for_each(|word| word.set(bits));
    }
    fn clear(&self, bits: u32) {
        self.iter().for_each(|word| word.clear(bits));
    }
    fn foreign_heartbeat(&self) -> Option<u32> {
        self.as_ref()?.foreign_heartbeat()
    }
    fn is_hold_requested(&self) -> bool {
        self.as_ref().is_some_and(Word::is_hold_requested)
    }
    fn is_of_unit(&self) -> bool {
        self.as_ref().is_some_and(Word::is_of_unit)
    }
    fn is_alone(&self) -> bool {
        self.as_ref().is_some_and(Word::is_alone)
    }
    fn may_be_held_by_others(&self) -> bool {
        self.as_ref().is_some_and(Word::may_be_held_by_others)
    }
    fn end_foreign(&self) {
        self.iter().for_each(Word::end_foreign);
    }
    fn begin_call(&self) {
        self.iter().for_each(Word::begin_call);
    }
    fn end_call(&self) {
        self.iter().for_each(Word::end_call);
    }
}

#[cfg(loom)]
impl Word for std::sync::Arc<AtomicU32> {
    fn set(&self, bits: u32) {
        self.fetch_or(bits, Ordering::SeqCst);
    }
    fn clear(&self, bits: u32) {
        self.fetch_and(!bits, Ordering::SeqCst);
    }
}

/// Adds one to a counter that orders nothing else.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
