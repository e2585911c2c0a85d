//! Handles that all sequences share, and what is known of callbacks.

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use preempt::types::{HwQueueHandle, XResult, XResultValue};
use preempt::xqueue::{
    HwCommandDestroy, HwQueueDestroy, HwQueueSynchronize, XQueueDestroy, XQueueSubmit,
};

/// Handles of a kind that are kept.
const KEPT_MAX: usize = 8;
const COMMANDS_MAX: usize = 64;

/// The handles that all sequences share, and what is known of callbacks.
#[derive(Debug, Default)]
pub(super) struct Pool {
    handles: Mutex<Handles>,
    /// Callbacks that were created and not called yet.
    waiting: Mutex<HashSet<u64>>,
    next: AtomicU64,
    called_twice: AtomicBool,
}

#[derive(Debug, Default)]
struct Handles {
    hwqs: Vec<u64>,
    xqs: Vec<u64>,
    commands: Vec<u64>,
}

/// A kind of handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    HwQueue,
    XQueue,
    Command,
}

impl Handles {
    fn of(&mut self, of: Of) -> &mut Vec<u64> {
        match of {
            Of::HwQueue => &mut self.hwqs,
            Of::XQueue => &mut self.xqs,
            Of::Command => &mut self.commands,
        }
    }
}

/// The one of this process.
pub(super) fn pool() -> &'static Pool {
    static POOL: std::sync::LazyLock<Pool> = std::sync::LazyLock::new(Pool::default);
    &POOL
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// True if there is room for one more. Another thread may take it, which does no harm.
    pub(super) fn has_room(&self, of: Of) -> bool {
        let max = if of == Of::Command { COMMANDS_MAX } else { KEPT_MAX };
        lock(&self.handles).of(of).len() < max
    }

    pub(super) fn keep(&self, of: Of, handle: u64) {
        let mut handles = lock(&self.handles);
        let kept = handles.of(of);
        // `XQueueCreate` answers the handle that there is.
        if !kept.contains(&handle) {
            kept.push(handle);
        }
    }

    pub(super) fn forget(&self, of: Of, handle: u64) {
        lock(&self.handles).of(of).retain(|kept| *kept != handle);
    }

    /// One of them; 0 if there is none.
    pub(super) fn pick(&self, of: Of, which: u8) -> u64 {
        let mut handles = lock(&self.handles);
        let kept = handles.of(of);
        let at = usize::from(which) % kept.len().max(1);
        kept.get(at).copied().unwrap_or(0)
    }

    pub(super) fn all_xqs(&self) -> Vec<u64> {
        lock(&self.handles).xqs.clone()
    }

    /// Data for a callback that has not been called.
    pub(super) fn callback(&self) -> *mut c_void {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.waiting).insert(number);
        std::ptr::without_provenance_mut(number as usize)
    }

    /// Fails if a callback was called twice.
    pub(super) fn check(&self) {
        assert!(!self.called_twice.load(Ordering::Relaxed), "a callback was called twice");
    }

    /// Destroys everything, with all that is in it.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.handles));
        for xq in all.xqs {
            // Another thread may have been told of it while one destroyed it.
            XQueueDestroy(xq);
            assert_eq!(XQueueSubmit(xq, 0), XResult::kXSchedErrorNotFound);
        }
        for command in all.commands {
            // It may have been submitted, or forgotten since.
            HwCommandDestroy(command);
        }
        for hwq in all.hwqs {
            assert_eq!(HwQueueSynchronize(hwq), XResult::kXSchedSuccess);
            assert_eq!(HwQueueDestroy(hwq), XResult::kXSchedSuccess, "it has no XQueue now");
        }
        self.check();
    }
}

/// A callback, which submits nothing and fails now and then.
///
/// # Safety
/// None: the data is a number.
// SAFETY: it only looks at its arguments.
pub(super) unsafe extern "C" fn callback(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
    let number = data.addr() as u64;
    if !lock(&pool().waiting).remove(&number) {
        pool().called_twice.store(true, Ordering::Relaxed);
    }
    if number.is_multiple_of(17) { 4 } else { 0 }
}
