//! What gates and their watch are made of; with `--cfg loom`, forms of it for the models in
//! `models`. See `docs/src/reference/models.md`. A wait with a time limit has none there.

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

/// Locks it. What is behind these locks is whole at any time, so a panic elsewhere spoils nothing.
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
    /// If others hold it: what changes whenever they say that they are alive.
    fn others(&self) -> Option<u32> {
        None
    }
}

impl<W: Word> Word for Option<W> {
    fn set(&self, bits: u32) {
        self.iter().for_each(|word| word.set(bits));
    }
    fn clear(&self, bits: u32) {
        self.iter().for_each(|word| word.clear(bits));
    }
    fn others(&self) -> Option<u32> {
        self.as_ref()?.others()
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

/// A counter that only goes up, and whose readers need nothing else.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
