//! Counts of what can stop streams.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Count of places in streams where a hold may stop those: see [`crate::timeline`].
#[derive(Debug, Default)]
pub(crate) struct Stops(AtomicU64);

impl Stops {
    /// Counts one that was put into a stream.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Returns how many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
