//! The forms for models.
//!
//! Time does not pass in a model. A wait with a time limit of a millisecond or less ends at once,
//! after the other threads had a chance to run; a longer one does not end by itself, so nothing
//! that a model shows relies on such a limit.

use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::Duration;

pub(crate) use loom::sync::atomic;
pub(crate) use loom::thread_local;

/// Limits up to this end at once.
const SHORT: Duration = Duration::from_millis(1);

/// As loom's, with a guard that knows what it guards.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T: ?Sized>(loom::sync::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a loom::sync::Mutex<T>,
    /// Nothing only while a thread waits with it.
    guard: Option<loom::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(MutexGuard { mutex: &self.0, guard: self.0.lock().ok() })
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Ok(MutexGuard { mutex: &self.0, guard: Some(guard) }),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }
}

impl<T: ?Sized> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // infallible: a thread that waits with it has it back before it is used again
        self.guard.as_ref().expect("a guard")
    }
}

impl<T: ?Sized> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // infallible: a thread that waits with it has it back before it is used again
        self.guard.as_mut().expect("a guard")
    }
}

/// As loom's, with time limits as the module says.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
    ) -> LockResult<MutexGuard<'a, T>> {
        guard.guard = guard.guard.take().and_then(|inner| self.0.wait(inner).ok());
        Ok(guard)
    }

    /// Says as well whether the time limit ended it.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        at_most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        if at_most > SHORT {
            return Ok((
                self.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner),
                false,
            ));
        }
        drop(guard.guard.take());
        loom::thread::yield_now();
        guard.guard = guard.mutex.lock().ok();
        Ok((guard, true))
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Threads. Parking is made of a lock and a condition: loom's own would also wake a thread that
/// waits for a lock.
pub(crate) mod thread {
    use std::sync::{Arc, PoisonError};
    use std::time::Duration;

    pub(crate) use loom::thread::Builder;

    use super::{Condvar, Mutex};

    #[derive(Debug, Default)]
    struct Token {
        there: Mutex<bool>,
        changed: Condvar,
    }

    /// A thread that can be unparked.
    #[derive(Clone, Debug)]
    pub(crate) struct Thread(Arc<Token>);

    loom::thread_local!(static CURRENT: Thread = Thread(Arc::default()));

    pub(crate) fn current() -> Thread {
        CURRENT.with(Clone::clone)
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            *self.0.there.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.0.changed.notify_one();
        }
    }

    pub(crate) fn park() {
        let Thread(token) = current();
        let mut there = token.there.lock().unwrap_or_else(PoisonError::into_inner);
        while !*there {
            there = token.changed.wait(there).unwrap_or_else(PoisonError::into_inner);
        }
        *there = false;
    }

    /// Time does not pass, so it does not return by itself.
    pub(crate) fn park_timeout(_: Duration) {
        park();
    }
}

/// Channels: no thread of a model waits for these.
pub(crate) use std::sync::mpsc;
