//! Calls of the driver that are under way and may wait for a whole device.
//!
//! What such a call waits for may be held, and the thread that makes it be the one that the hold is
//! for. Most of these calls wait for nothing, so while nothing is held they are only counted,
//! and who comes to hold something opens it if a call does not return.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts of the calls of a process, which both of its libraries have.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
    holds: AtomicU64,
    /// The thread that has begun one last.
    thread: AtomicU32,
}

/// Calls of a process as another thread sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsView {
    /// Number of calls that had ended.
    pub ended: u64,
    /// Some were under way.
    pub is_any: bool,
    /// The thread that had begun one last, by its number below `/proc/self/task`.
    pub thread: u32,
}

impl Calls {
    /// None has begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            holds: AtomicU64::new(0),
            thread: AtomicU32::new(0),
        }
    }

    /// A thread begins a call. It ends it by [`Calls::end`].
    #[inline]
    pub fn begin(&self, thread: u32) {
        self.thread.store(thread, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// The call has returned.
    #[inline]
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether something of the process is held that a call which waits for the device may
    /// need, as far as the process knows. A hold that comes later is ended for a call that does not
    /// return.
    #[inline]
    pub fn is_any_held(&self) -> bool {
        self.holds.load(Ordering::Relaxed) > 0
    }

    /// Notes whether a stream was held, and whether it is now.
    pub fn count_hold(&self, was: bool, is: bool) {
        match (was, is) {
            (false, true) => _ = self.holds.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.holds.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Begins with none, in the child of a fork: those are the parent's.
    pub fn begin_anew(&self) {
        self.ended.store(self.begun.load(Ordering::Relaxed), Ordering::Relaxed);
        self.holds.store(0, Ordering::Relaxed);
    }

    /// Looks at the calls. One that is under way the whole time is seen.
    #[must_use]
    pub fn view(&self) -> CallsView {
        let ended = self.ended.load(Ordering::Relaxed);
        let is_any = self.begun.load(Ordering::Relaxed) > ended;
        CallsView { ended, is_any, thread: self.thread.load(Ordering::Relaxed) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_under_way_are_seen_and_a_parents_are_not() {
        let calls = Calls::new();
        assert!(!calls.view().is_any);
        calls.begin(6);
        calls.begin(7);
        calls.end();
        assert_eq!(calls.view(), CallsView { ended: 1, is_any: true, thread: 7 });
        calls.begin_anew();
        assert!(!calls.view().is_any);
    }
}
