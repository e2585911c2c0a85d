//! How long to sleep before looking at a device that does not notify its host.
//!
//! A processor that has been idle for long takes long to wake up, above all a virtual one. So no
//! delay is very long, and only the last moments are spent awake.

// Not those of the models, which cannot be in a static: it only decides how soon.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use xsched_core::time::Duration as Span;

use crate::backoff::{SLEEP_MAX, SLEEP_MIN};

/// How late sleeping threads wake up in this process: the worst that was seen lately, in
/// nanoseconds.
///
/// One estimate serves all delays: with a timer slack of 1 µs, sleeps of 20 to 150 µs ended 27 to
/// 37 µs late (medians), and those of 200 to 1,000 µs 38 to 51 µs (a virtual machine with two
/// processors, 2026-11-29).
#[derive(Debug)]
pub(crate) struct Lateness(AtomicU32);

/// Shared by all threads, since they run on the same processors.
pub(crate) static LATENESS: Lateness = Lateness::new(80_000);

impl Lateness {
    const fn new(ns: u32) -> Self {
        Self(AtomicU32::new(ns))
    }

    /// A sleep that was to take `asked` took `slept`. What is later than the longest delay was not
    /// the timer's doing.
    pub(crate) fn note(&self, asked: Duration, slept: Duration) {
        let Some(late) = slept.checked_sub(asked) else { return };
        let late = late.min(SLEEP_MAX).as_nanos() as u32;
        let before = self.0.load(Ordering::Relaxed);
        // Up at once, down slowly. A lost update is made up for by the next.
        let after = if late > before { late } else { before - (before - late) / 256 };
        self.0.store(after, Ordering::Relaxed);
    }

    /// Lateness to allow for: a quarter more, since the worst is yet to come.
    fn allowance(&self) -> Duration {
        Duration::from_nanos(u64::from(self.0.load(Ordering::Relaxed)) * 5 / 4)
    }

    /// Notes that a thread did not sleep because of it. Otherwise one very late sleep would keep
    /// all threads awake from then on.
    fn doubt(&self) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before - before / 64, Ordering::Relaxed);
    }
}

/// How long a thread may sleep that must be awake in `left`; zero if it had better stay awake. What
/// is overdue is probably held or delayed by other queues: then delays get longer.
pub(crate) fn until(left: Span, overdue: Span, lateness: &Lateness) -> Duration {
    let left = Duration::from_nanos(left.as_ns());
    let delay = match left.checked_sub(lateness.allowance()) {
        Some(delay) => delay.min(SLEEP_MAX),
        None => Duration::from_nanos(overdue.as_ns()) / 32,
    };
    if delay >= SLEEP_MIN {
        return delay;
    }
    if left >= SLEEP_MIN {
        lateness.doubt();
    }
    Duration::ZERO
}

/// How long a thread may sleep that must be awake before the device runs dry, which it does in
/// `left`: half of it, which leaves work for the time until the thread is awake.
pub(crate) fn before_dry(left: Span, overdue: Span, lateness: &Lateness) -> Duration {
    until(left.per(2), overdue, lateness)
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
    fn a_delay_allows_for_the_lateness_of_sleeps() {
        let lateness = Lateness::new(0);
        lateness.note(US_STD(100), US_STD(140));
        assert_eq!(until(US(2_000), US(0), &lateness), SLEEP_MAX);
        assert_eq!(until(US(300), US(0), &lateness), US_STD(250));
        assert_eq!(until(US(60), US(0), &lateness), Duration::ZERO);
        assert!(
            (0..100).any(|_| until(US(60), US(0), &lateness) > US_STD(20)),
            "it is tried again"
        );
        lateness.note(US_STD(100), US_STD(140));
        // It is forgotten in time.
        (0..10_000).for_each(|_| lateness.note(US_STD(1_000), US_STD(1_000)));
        assert!(until(US(300), US(0), &lateness) > US_STD(299));
    }

    #[test]
    fn a_thread_that_keeps_the_device_busy_sleeps_for_half_of_what_it_has() {
        let lateness = Lateness::new(0);
        assert_eq!(before_dry(US(600), US(0), &lateness), US_STD(300));
        assert_eq!(before_dry(US(16_000), US(0), &lateness), SLEEP_MAX);
    }

    #[test]
    fn what_is_long_overdue_is_waited_for_asleep() {
        let lateness = Lateness::new(50_000);
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
