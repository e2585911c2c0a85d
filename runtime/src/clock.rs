//! The clock of the runtime: monotonic nanoseconds since the process first asked.

#[cfg(not(loom))]
use std::sync::OnceLock;

use xsched_core::time::Instant;

/// Now. All runtimes of a process share the clock.
#[cfg(not(loom))]
pub(crate) fn now() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    // 584 years fit; one more nanosecond so that zero stays "never".
    Instant::from_ns(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX - 1) + 1)
}

/// Time stands still in models, so that each run of one is the same.
#[cfg(loom)]
pub(crate) fn now() -> Instant {
    Instant::from_ns(1)
}
