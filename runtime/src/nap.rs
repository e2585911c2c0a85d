//! How long to sleep before looking at a device that wakes nobody.

// Not those of the models, which cannot be in a static: it only decides how soon.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use xsched_core::time::Duration as Span;

/// Shorter than this, sleeping takes longer than it is worth.
pub(crate) const SHORTEST: Duration = Duration::from_micros(20);
/// What is late by more than so many times its nap is not waited for awake.
const OVERDUE: u32 = 8;
/// Sleeps end so late at most, as far as this cares.
const LATE_MAX_NS: u32 = 400_000;

/// How late sleeping threads wake up in this process, in nanoseconds: the worst that was seen
/// lately.
#[derive(Debug)]
pub(crate) struct Lateness(AtomicU32);

/// Shared by all threads, since they run on the same processors.
pub(crate) static LATENESS: Lateness = Lateness(AtomicU32::new(80_000));

impl Lateness {
    /// A sleep that was to take `asked` took `slept`.
    pub(crate) fn note(&self, asked: Duration, slept: Duration) {
        let Some(late) = slept.checked_sub(asked) else { return };
        let late = u32::try_from(late.as_nanos()).unwrap_or(u32::MAX).min(LATE_MAX_NS);
        let before = self.0.load(Ordering::Relaxed);
        // Up at once, down slowly. A lost update is made up for by the next.
        let after = if late > before { late } else { before - (before - late) / 256 };
        self.0.store(after, Ordering::Relaxed);
    }

    /// What is allowed for: a quarter more, since the worst is yet to come.
    fn get(&self) -> Duration {
        Duration::from_nanos(u64::from(self.0.load(Ordering::Relaxed)) * 5 / 4)
    }
}

/// How long somebody may sleep who wants to be awake in `left`; zero if he had better stay awake.
/// What is overdue is probably held or delayed by others: then naps get longer.
pub(crate) fn until(left: Span, overdue: Span, lateness: &Lateness) -> Duration {
    let left = Duration::from_nanos(left.as_ns());
    let nap = match left.checked_sub(lateness.get()) {
        Some(nap) => nap,
        None => Duration::from_nanos(overdue.as_ns()) / OVERDUE,
    };
    if nap < SHORTEST { Duration::ZERO } else { nap }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: fn(u64) -> Span = Span::from_us;

    #[test]
    fn a_nap_ends_early_enough_for_a_late_waking() {
        let lateness = Lateness(AtomicU32::new(0));
        lateness.note(Duration::from_micros(100), Duration::from_micros(160));
        assert_eq!(until(US(500), US(0), &lateness), Duration::from_micros(425));
        assert_eq!(until(US(90), US(0), &lateness), Duration::ZERO);
        // It is forgotten in time.
        (0..10_000).for_each(|_| lateness.note(Duration::from_micros(100), US100));
        assert!(until(US(500), US(0), &lateness) > Duration::from_micros(499));
    }

    const US100: Duration = Duration::from_micros(100);

    #[test]
    fn what_is_long_overdue_is_waited_for_asleep() {
        let lateness = Lateness(AtomicU32::new(50_000));
        assert_eq!(until(US(0), US(100), &lateness), Duration::ZERO);
        assert_eq!(until(US(0), US(8_000), &lateness), Duration::from_millis(1));
    }
}
