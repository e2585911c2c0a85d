//! The forms for models.
//!
//! Time does not pass in a model. A wait with a time limit of a millisecond or less ends at once,
//! after others had a chance to run; a longer one does not end by itself, so nothing that a model
//! shows relies on such a limit.

use std::sync::{LockResult, OnceLock, TryLockError, TryLockResult};
use std::time::Duration;

pub(crate) use loom::sync::atomic;
pub(crate) use loom::thread_local;

/// Limits up to this end at once.
const SHORT: Duration = Duration::from_millis(1);

/// Whether this deliberate defect was asked for, in the environment variable `XSCHED_MUTANT`.
pub(crate) fn mutant(name: &str) -> bool {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    NAME.get_or_init(|| std::env::var("XSCHED_MUTANT").ok()).as_deref() == Some(name)
}

/// As loom's, with a guard that knows what it guards.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T: ?Sized>(loom::sync::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a loom::sync::Mutex<T>,
    /// Nothing only while somebody waits with it.
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
        // infallible: whoever waits with it has it back before it is used again
        self.guard.as_ref().expect("a guard")
    }
}

impl<T: ?Sized> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // infallible: whoever waits with it has it back before it is used again
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
        bell: Condvar,
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
            self.0.bell.notify_one();
        }
    }

    pub(crate) fn park() {
        let Thread(token) = current();
        let mut there = token.there.lock().unwrap_or_else(PoisonError::into_inner);
        while !*there {
            there = token.bell.wait(there).unwrap_or_else(PoisonError::into_inner);
        }
        *there = false;
    }

    /// Time does not pass, so it does not return by itself.
    pub(crate) fn park_timeout(_: Duration) {
        park();
    }
}

/// Channels, as far as answers need them.
pub(crate) mod mpsc {
    pub(crate) use std::sync::mpsc::RecvTimeoutError;
    use std::sync::{Arc, PoisonError};
    use std::time::Duration;

    // Nobody in a model waits for these.
    pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};

    use super::{Condvar, Mutex};

    #[derive(Debug)]
    struct Channel<T> {
        /// A message, and whether there may be one.
        state: Mutex<(Option<T>, bool)>,
        bell: Condvar,
    }

    #[derive(Debug)]
    pub(crate) struct SyncSender<T>(Arc<Channel<T>>);

    #[derive(Debug)]
    pub(crate) struct SyncReceiver<T>(Arc<Channel<T>>);

    /// A channel for one message.
    pub(crate) fn sync_channel<T>(room: usize) -> (SyncSender<T>, SyncReceiver<T>) {
        assert_eq!(room, 1, "models know channels for one message only");
        let state = Mutex::new((None, true));
        let channel = Arc::new(Channel { state, bell: Condvar::new() });
        (SyncSender(Arc::clone(&channel)), SyncReceiver(channel))
    }

    impl<T> SyncSender<T> {
        pub(crate) fn send(&self, message: T) -> Result<(), T> {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(message);
            self.0.bell.notify_one();
            Ok(())
        }
    }

    impl<T> Drop for SyncSender<T> {
        fn drop(&mut self) {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).1 = false;
            self.0.bell.notify_one();
        }
    }

    impl<T> SyncReceiver<T> {
        /// Ends with a message, or when there is no sender any more.
        pub(crate) fn recv_timeout(&self, _: Duration) -> Result<T, RecvTimeoutError> {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if let Some(message) = state.0.take() {
                    return Ok(message);
                }
                if !state.1 {
                    return Err(RecvTimeoutError::Disconnected);
                }
                state = self.0.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
