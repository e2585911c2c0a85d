//! The count of launches, by which the watch notices a blocked one.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

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

    /// Begins a launch, which ends when the guard is dropped.
    pub(crate) fn begin(&self) -> LaunchGuard<'_> {
        let count = self.count.load(Ordering::Relaxed) | 1;
        self.count.store(count, Ordering::Relaxed);
        LaunchGuard { counter: self, count }
    }

    /// The number of the launch that is under way.
    pub(crate) fn under_way(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        (count % 2 == 1).then_some(count)
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
        self.counter.count.store(self.count.wrapping_add(1), Ordering::Relaxed);
    }
}
