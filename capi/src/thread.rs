//! Numbers of threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number for this thread that is not 0, and no other thread's.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(u64::MAX)
}
