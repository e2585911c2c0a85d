//! The lock around what a queue's threads share.
//!
//! It is held for some tens of nanoseconds, never across a call to a device or to the user's code,
//! and taken twice for each command; so releasing it is a plain store, and no thread is ever put on
//! a list. A thread that finds it taken spins, then yields, then sleeps for short spans: that lets
//! a holder go on that has lost its processor to a waiter of higher priority.
//!
//! In models it is loom's lock: how a thread spins and sleeps is not what they are about.

#[cfg(not(loom))]
use std::time::Duration;

#[cfg(loom)]
use crate::sync::Mutex;
#[cfg(loom)]
pub(crate) use crate::sync::MutexGuard as Guard;
#[cfg(not(loom))]
use spin::Mutex;
#[cfg(not(loom))]
pub(crate) use spin::MutexGuard as Guard;

/// Tries before yielding, and before sleeping.
#[cfg(not(loom))]
const SPINS: u32 = 64;
#[cfg(not(loom))]
const YIELDS: u32 = 128;
/// A sleep between tries after that.
#[cfg(not(loom))]
const SLEEP: Duration = Duration::from_micros(50);

/// A lock that is held for tens of nanoseconds, with a plain store as release.
#[derive(Debug)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
}

#[cfg(loom)]
impl<T> Lock<T> {
    /// The lock if no thread has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// The lock if no thread has it for long.
    pub(crate) fn try_lock_patiently(&self) -> Option<Guard<'_, T>> {
        self.try_lock()
    }

    /// True if its holder has lost its processor. In models none has.
    #[expect(clippy::unused_self, reason = "as outside of models")]
    pub(crate) const fn is_stuck(&self) -> bool {
        false
    }

    /// The lock, unless its holder has lost its processor. In models none has.
    pub(crate) fn lock_unless_stuck(&self) -> Option<Guard<'_, T>> {
        Some(self.lock())
    }

    /// The lock, sooner or later.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(not(loom))]
impl<T> Lock<T> {
    /// The lock if no thread has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock()
    }

    /// The lock if no thread has it for long.
    pub(crate) fn try_lock_patiently(&self) -> Option<Guard<'_, T>> {
        (0..SPINS).find_map(|_| {
            let guard = self.0.try_lock();
            if guard.is_none() {
                std::hint::spin_loop();
            }
            guard
        })
    }

    /// True if its holder has probably lost its processor. Leaves the memory with the holder.
    pub(crate) fn is_stuck(&self) -> bool {
        (0..SPINS).all(|_| {
            let taken = self.0.is_locked();
            if taken {
                std::hint::spin_loop();
            }
            taken
        })
    }

    /// The lock, unless its holder has probably lost its processor.
    pub(crate) fn lock_unless_stuck(&self) -> Option<Guard<'_, T>> {
        self.try_lock_patiently()
    }

    /// The lock, sooner or later.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    #[cold]
    fn lock_contended(&self) -> Guard<'_, T> {
        let mut tries = 0u32;
        loop {
            match tries {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(SLEEP),
            }
            tries = tries.saturating_add(1);
            // Looking leaves the memory with the holder, trying takes it away.
            if self.0.is_locked() {
                continue;
            }
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
        }
    }
}
