//! Launches that are under way, so that one that is blocked is noticed.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Counts launches entered and left: odd while one is under way. One thread at a time launches.
#[derive(Debug)]
pub(crate) struct Entries {
    count: AtomicU64,
}

impl Entries {
    pub(crate) fn new() -> Self {
        Self { count: AtomicU64::new(0) }
    }

    /// A launch is about to be entered; it has been left when the answer is dropped.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let count = self.count.load(Ordering::Relaxed) | 1;
        self.count.store(count, Ordering::Relaxed);
        Inside { entries: self, count }
    }

    /// The number of the launch that is under way.
    pub(crate) fn inside(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        (count % 2 == 1).then_some(count)
    }
}

/// A launch that is under way.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    entries: &'a Entries,
    count: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.entries.count.store(self.count.wrapping_add(1), Ordering::Relaxed);
    }
}
