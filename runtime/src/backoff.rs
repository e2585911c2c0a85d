//! Waiting between looks at something that another thread or a device changes: a thread first
//! spins, then sleeps for delays that grow.

use std::time::Duration;

use crate::sync::bound;

/// The shortest sleep: a shorter one ends too late to be better than spinning. With a timer slack
/// of 1 µs, a sleep of 20 µs ended 27 µs late (median; a virtual machine with two processors,
/// 2026-11-29).
pub(crate) const SLEEP_MIN: Duration = Duration::from_micros(20);
/// The longest sleep between two looks, and so how late something is seen at most.
pub(crate) const SLEEP_MAX: Duration = Duration::from_micros(500);
/// Looks before the first sleep. They take about 20 µs together: what waking a thread costs.
pub(crate) const SPINS: u32 = bound(32, 1);
/// Spin hints before a look, at most.
const HINTS_MAX: u32 = bound(16, 1);

/// The delay before the next look at something that has been waited for this long: a 32nd of it,
/// so that a wait lasts 3 % too long.
pub(crate) fn delay_after(waited: Duration) -> Duration {
    (waited / 32).clamp(SLEEP_MIN, SLEEP_MAX)
}

/// How a thread waits between its looks.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    spins: u32,
    slept: Duration,
}

impl Backoff {
    /// True if the thread still spins.
    pub(crate) const fn is_spinning(&self) -> bool {
        self.spins < SPINS
    }

    /// Spins before the next look. False, at once, if the thread had better sleep.
    pub(crate) fn spin(&mut self) -> bool {
        if !self.is_spinning() {
            return false;
        }
        let hints = 1u32.checked_shl(self.spins).map_or(HINTS_MAX, |hints| hints.min(HINTS_MAX));
        (0..hints).for_each(|_| std::hint::spin_loop());
        self.spins += 1;
        true
    }

    /// The delay before the next look of a thread that sleeps.
    pub(crate) fn delay(&self) -> Duration {
        delay_after(self.slept)
    }

    /// Notes that the thread has slept.
    pub(crate) fn slept(&mut self, delay: Duration) {
        self.slept = self.slept.saturating_add(delay);
    }

    /// Has the delays begin anew: something was seen that is not urgent.
    pub(crate) const fn shorten(&mut self) {
        self.slept = Duration::ZERO;
    }

    /// Has the thread spin again: something was seen, and more will follow soon.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn a_thread_spins_then_sleeps_longer_and_longer() {
        let mut backoff = Backoff::default();
        assert_eq!((0..100).filter(|_| backoff.spin()).count(), SPINS as usize);
        assert_eq!(backoff.delay(), SLEEP_MIN);
        backoff.slept(US(3_200));
        assert_eq!(backoff.delay(), US(100));
        backoff.slept(Duration::from_secs(1));
        assert_eq!((backoff.delay(), backoff.is_spinning()), (SLEEP_MAX, false));
        backoff.shorten();
        assert_eq!((backoff.delay(), backoff.is_spinning()), (SLEEP_MIN, false));
        backoff.reset();
        assert!(backoff.spin());
    }

    #[test]
    fn looks_get_rarer_the_longer_a_wait_takes() {
        assert_eq!([0, 640, 3_200].map(|waited| delay_after(US(waited))), [20, 20, 100].map(US));
        assert_eq!(delay_after(Duration::from_secs(1)), SLEEP_MAX);
    }
}
