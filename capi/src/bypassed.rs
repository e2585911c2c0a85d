//! How many launches of the process went past XQueues, by its interposers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A process has one interposer for each vendor.
const COUNTS_MAX: usize = 8;

static COUNTS: Mutex<Vec<&'static AtomicU64>> = Mutex::new(Vec::new());

/// An interposer counts here. Those beyond 8 do not count.
pub(crate) fn add(count: &'static AtomicU64) {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = counts.iter().any(|known| std::ptr::eq(*known, count));
    if !is_known && counts.len() < COUNTS_MAX {
        counts.push(count);
    }
}

/// Counts of all interposers; `None` without any.
pub(crate) fn all() -> Option<u64> {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let sum = |sum: u64, count: &&AtomicU64| sum.wrapping_add(count.load(Ordering::Relaxed));
    (!counts.is_empty()).then(|| counts.iter().fold(0, sum))
}
