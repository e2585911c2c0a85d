//! The count of launches, by which the watch notices a blocked one, and a look at a closed gate one
//! that may not have seen that it was closed.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, fence};

/// Counts the begins and ends of launches: odd while a launch is under way. One thread at a time
/// launches.
#[derive(Debug)]
pub(crate) struct LaunchCounter {
    count: AtomicU64,
}

impl LaunchCounter {
    pub(crate) fn new() -> Self {
        Self { count: AtomicU64::new(0) }
    }

    /// Begins a launch, which ends when the guard is dropped. With the fence in
    /// [`LaunchCounter::is_between`], either the launch sees a gate that was closed before the
    /// look, or the look sees the launch.
    pub(crate) fn begin(&self) -> LaunchGuard<'_> {
        let count = self.count.load(Ordering::Relaxed) | 1;
        self.count.store(count, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        LaunchGuard { counter: self, count }
    }

    /// The number of the launch that is under way.
    pub(crate) fn under_way(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        (count % 2 == 1).then_some(count)
    }

    /// Whether no launch is under way. Then those that have ended are seen with all that they did,
    /// and those that begin later see what the caller saw before.
    pub(crate) fn is_between(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Acquire).is_multiple_of(2)
    }
}

/// A launch that is under way.
#[derive(Debug)]
pub(crate) struct LaunchGuard<'a> {
    counter: &'a LaunchCounter,
    count: u64,
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        // Release: see `is_between`.
        self.counter.count.store(self.count.wrapping_add(1), Ordering::Release);
    }
}
