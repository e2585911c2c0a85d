//! Parts of the gate: atomics, the futex and the clock; or, with `--cfg loom`, forms of them
//! for the models in `models`. See `xtask/src/loom/mod.rs`.

#[cfg(loom)]
pub(crate) use modelled::{AtomicU32, AtomicU64, futex_wait, futex_wake, now_ns, signal_point};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(not(loom))]
pub(crate) use crate::sys::{futex_wait, futex_wake, now_ns};

/// In models, a place where the signal may come: before each look at the word. Elsewhere it comes
/// where it wants.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn signal_point() {}

#[cfg(loom)]
pub(crate) mod modelled {
    //! The forms for models. Time does not pass, so waiting does not end by itself.

    use std::cell::RefCell;
    use std::sync::{Arc, PoisonError};

    use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};
    use loom::sync::{Condvar, Mutex};

    pub(crate) fn now_ns() -> u64 {
        1
    }

    loom::lazy_static! {
        /// The kernel's list of sleepers, and its lock.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// Sleeps if the word has this value, looked at under the lock that wakers take.
    pub(crate) fn futex_wait(word: &AtomicU32, value: u32, _: Option<u64>) {
        let guard = SLEEPERS.0.lock().unwrap_or_else(PoisonError::into_inner);
        if word.load(Ordering::SeqCst) == value {
            drop(SLEEPERS.1.wait(guard));
        }
    }

    pub(crate) fn futex_wake(_: &AtomicU32) {
        let guard = SLEEPERS.0.lock().unwrap_or_else(PoisonError::into_inner);
        SLEEPERS.1.notify_all();
        drop(guard);
    }

    /// The signals of a thread.
    pub(crate) struct Signals {
        pub(crate) handler: Box<dyn Fn() + Send + Sync>,
        /// One has been sent and has not come.
        pub(crate) pending: AtomicBool,
    }

    loom::thread_local! {
        static HANDLER: RefCell<Option<Arc<Signals>>> = RefCell::new(None);
    }

    /// The handler is for this thread.
    pub(crate) fn handle_here(signals: &Arc<Signals>) {
        HANDLER.with(|handler| handler.replace(Some(Arc::clone(signals))));
    }

    /// Runs the handler if a signal is pending. It is not interrupted itself.
    pub(crate) fn signal_point() {
        let Some(signals) = HANDLER.with(RefCell::take) else { return };
        if signals.pending.swap(false, Ordering::AcqRel) {
            (signals.handler)();
        }
        handle_here(&signals);
    }
}
