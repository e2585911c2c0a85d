//! How long to sleep before looking at a device that does not notify its host.
//!
//! A processor that has been idle for long takes long to wake up, above all a virtual one. So no
//! delay is very long, the last ones are short, and only the last moments are spent awake.

// Not those of the models, which cannot be in a static: it only decides how soon.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use xsched_core::time::Duration as Span;

/// Shorter than this, sleeping takes longer than it is worth.
pub(crate) const SHORTEST: Duration = Duration::from_micros(20);
/// A longer delay counts as long.
const SHORT: Duration = Duration::from_micros(150);
/// The longest delay.
const LONGEST: Duration = Duration::from_micros(400);
/// The longest delay of a thread that only keeps the device busy: completions are seen so much
/// later.
const LONGEST_REFILL: Duration = Duration::from_millis(1);
/// What is late by more than so many times its delay is not waited for awake.
const OVERDUE: u32 = 32;
/// Sleeps end so late at most, as far as this cares.
const LATE_MAX_NS: u32 = 600_000;

/// How late sleeping threads wake up in this process: the worst that was seen lately, for long
/// delays and for short ones.
#[derive(Debug)]
pub(crate) struct Lateness {
    long: Late,
    short: Late,
}

/// In nanoseconds.
#[derive(Debug)]
struct Late(AtomicU32);

/// Shared by all threads, since they run on the same processors.
pub(crate) static LATENESS: Lateness = Lateness::new(200_000, 80_000);

impl Late {
    fn note(&self, late: Duration) {
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

impl Lateness {
    const fn new(long_ns: u32, short_ns: u32) -> Self {
        Self { long: Late(AtomicU32::new(long_ns)), short: Late(AtomicU32::new(short_ns)) }
    }

    /// A sleep that was to take `asked` took `slept`.
    pub(crate) fn note(&self, asked: Duration, slept: Duration) {
        let Some(late) = slept.checked_sub(asked) else { return };
        if asked > SHORT { self.long.note(late) } else { self.short.note(late) }
    }
}

/// How long a thread may sleep that must be awake in `left`; zero if it had better stay awake. What
/// is overdue is probably held or delayed by other queues: then delays get longer.
pub(crate) fn until(left: Span, overdue: Span, lateness: &Lateness) -> Duration {
    let left = Duration::from_nanos(left.as_ns());
    let long = left.checked_sub(lateness.long.get()).filter(|delay| *delay > SHORT);
    let long = long.map(|delay| delay.min(LONGEST));
    let short = || left.checked_sub(lateness.short.get()).map(|delay| delay.min(SHORT));
    let late = || Duration::from_nanos(overdue.as_ns()) / OVERDUE;
    let delay = long.or_else(short).unwrap_or_else(late);
    if delay < SHORTEST { Duration::ZERO } else { delay }
}

/// How long a thread may sleep that must be awake before the device runs dry, which it does in
/// `left`: half of it, which leaves enough to be late.
pub(crate) fn before_dry(left: Span, overdue: Span, lateness: &Lateness) -> Duration {
    let half = Duration::from_nanos(left.as_ns()) / 2;
    let late = Duration::from_nanos(u64::from(LATE_MAX_NS));
    if half > late { half.min(LONGEST_REFILL) } else { until(left.per(2), overdue, lateness) }
}

/// Sleeps, by a timer that is as exact as the system has it, with what the closure does.
pub(crate) fn exactly<T>(sleep: impl FnOnce() -> T) -> T {
    #[cfg(all(target_os = "linux", not(loom)))]
    let before = rustix::thread::current_timer_slack().ok();
    #[cfg(all(target_os = "linux", not(loom)))]
    if before.is_some() {
        // Without it, sleeps are 50 µs late by design.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
    }
    let answer = sleep();
    #[cfg(all(target_os = "linux", not(loom)))]
    if let Some(slack) = before {
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(slack));
    }
    answer
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: fn(u64) -> Span = Span::from_us;
    const US_STD: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn a_long_delay_ends_early_and_short_ones_follow() {
        let lateness = Lateness::new(0, 0);
        lateness.note(US_STD(1_000), US_STD(1_400));
        lateness.note(US_STD(100), US_STD(120));
        assert_eq!(until(US(2_000), US(0), &lateness), LONGEST);
        assert_eq!(until(US(800), US(0), &lateness), US_STD(300));
        assert_eq!(until(US(500), US(0), &lateness), SHORT);
        assert_eq!(until(US(100), US(0), &lateness), US_STD(75));
        assert_eq!(until(US(40), US(0), &lateness), Duration::ZERO);
        // It is forgotten in time.
        (0..10_000).for_each(|_| lateness.note(US_STD(1_000), US_STD(1_000)));
        assert!(until(US(300), US(0), &lateness) > US_STD(299));
    }

    #[test]
    fn a_thread_that_keeps_the_device_busy_sleeps_for_half_of_what_it_has() {
        let lateness = Lateness::new(0, 0);
        assert_eq!(before_dry(US(1_600), US(0), &lateness), US_STD(800));
        assert_eq!(before_dry(US(16_000), US(0), &lateness), LONGEST_REFILL);
        assert_eq!(before_dry(US(1_000), US(0), &lateness), LONGEST);
    }

    #[test]
    fn what_is_long_overdue_is_waited_for_asleep() {
        let lateness = Lateness::new(50_000, 50_000);
        assert_eq!(until(US(0), US(100), &lateness), Duration::ZERO);
        assert_eq!(until(US(0), US(8_000), &lateness), US_STD(250));
    }

    #[test]
    fn the_timers_slack_is_as_it_was() {
        let slack = || rustix::thread::current_timer_slack().ok();
        let before = slack();
        let within = exactly(slack);
        assert_eq!((within.unwrap_or(0), slack()), (1_000, before));
    }
}
