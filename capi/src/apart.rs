//! Whether anything tells the streams of the process apart.
//!
//! While nothing does, the scheduler has no reason to hold one stream and not another, so an
//! interposer makes launches at once. Once it is told, it stays: the environment tells at the start
//! ([`Env::tells_apart`](crate::env::Env::tells_apart)), and later a stream with another priority
//! than the first one's, a scheduler that the program chooses, or an XQueue that the program makes
//! or asks for, since hints, suspensions and commands of its own need the XQueue's handle.

use std::sync::atomic::{AtomicU32, Ordering};

/// 0, or 1 for ever.
static APART: AtomicU32 = AtomicU32::new(0);

/// From now on streams are scheduled one by one. A launch that an interposer is about to make on
/// another thread may still be made at once.
pub(crate) fn tell() {
    // The line stays shared by the threads that launch.
    if !is_told() {
        APART.store(1, Ordering::Release);
    }
}

/// Whether streams are scheduled one by one.
pub(crate) fn is_told() -> bool {
    APART.load(Ordering::Acquire) != 0
}

/// Where interposers read it.
pub(crate) const fn address() -> *const u32 {
    APART.as_ptr()
}
