//! Shared state and waiting of threads, from one place: the standard library's, or, with
//! `--cfg loom`, forms of it under which the models in `models` try the orders in which threads
//! can run. See `xtask/src/loom/mod.rs`.
//!
//! `Arc` and `Weak` are the standard ones everywhere, since no thread waits for them.

#[cfg(loom)]
mod modelled;

#[cfg(loom)]
pub(crate) use modelled::{Condvar, Mutex, MutexGuard, atomic, mpsc, thread, thread_local};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread, thread_local,
};

/// Locks. A lock whose holder panicked still guards data that each step leaves consistent.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A bound that decides how soon, never whether: in models a small one does, and leaves fewer
/// orders to try.
pub(crate) const fn bound(normal: u32, modelled: u32) -> u32 {
    if cfg!(loom) { modelled } else { normal }
}
