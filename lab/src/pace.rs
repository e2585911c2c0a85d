//! How far a bench has got, and whether it has time left for more samples.

use std::fmt;
use std::time::{Duration, Instant};

/// Samples that are taken however slow the device is.
pub(crate) const SAMPLES_MIN: usize = 3;

/// Where a bench says how far it has got, and the time in which it should end.
pub(crate) struct Pace<'a> {
    show: &'a dyn Fn(f64),
    began: Instant,
    within: Option<Duration>,
}

impl fmt::Debug for Pace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("within", &self.within).finish_non_exhaustive()
    }
}

impl Pace<'static> {
    /// For benches that may take as long as they do, and say nothing.
    #[cfg(test)]
    pub(crate) fn free() -> Self {
        Self::new(&|_| {}, None)
    }
}

impl<'a> Pace<'a> {
    /// Begins now. `show` gets the share that is done. Without a time it is never late.
    pub(crate) fn new(show: &'a dyn Fn(f64), within: Option<Duration>) -> Self {
        Self { show, began: Instant::now(), within }
    }

    /// Says that this share of the whole is done, from 0 to 1.
    pub(crate) fn show(&self, part: f64) {
        (self.show)(part);
    }

    /// Returns whether more than this share of the time has passed, so that no more samples should
    /// be taken for what belongs to it.
    pub(crate) fn is_late(&self, part: f64) -> bool {
        self.within.is_some_and(|within| self.began.elapsed() > within.mul_f64(part.max(0.0)))
    }

    /// Returns whether to go on after `taken` samples of what ends with this share of the whole.
    pub(crate) fn wants_more(&self, taken: usize, part: f64) -> bool {
        taken < SAMPLES_MIN || !self.is_late(part)
    }

    /// When this share of the time will have passed, if there is a limit.
    pub(crate) fn until(&self, part: f64) -> Option<Instant> {
        self.began.checked_add(self.within?.mul_f64(part.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_limit_is_never_late() {
        let pace = Pace::free();
        pace.show(0.5);
        assert!(!pace.is_late(0.0) && pace.wants_more(1_000_000, 0.0) && pace.until(1.0).is_none());
    }

    #[test]
    fn a_share_of_the_time_that_has_passed_ends_what_belongs_to_it_after_a_few_samples() {
        let hour = Duration::from_secs(3_600);
        let mut pace = Pace::new(&|_| {}, Some(hour));
        assert!(pace.wants_more(100, 0.5) && !pace.is_late(0.01));
        pace.within = Some(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        assert!(pace.is_late(1.0) && !pace.wants_more(SAMPLES_MIN, 1.0));
        assert!(pace.wants_more(SAMPLES_MIN - 1, 1.0), "a few there always are");
        assert!(pace.until(1.0) == Some(pace.began));
    }
}
