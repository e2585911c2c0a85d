//! How far the device probably is in a stream's work.

use std::time::{Duration, Instant};

/// Where in its work the device probably is. Completions may be seen long after they happened.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// When what has not completed yet probably began.
    pub(crate) begin: Option<Instant>,
    /// When it was last seen not to have completed.
    pub(crate) looked_at: Option<Instant>,
    /// Before then it did not begin.
    pub(crate) earliest: Option<Instant>,
}

impl Progress {
    /// Something has completed by `now` that was predicted to take `expected_ns`, and was launched
    /// at `launched` if the queue was idle. The gate was last opened at `opened`, probably before
    /// the work began: the work may have completed before a hold, and be seen after it.
    pub(crate) fn completed(
        &mut self,
        launched: Option<Instant>,
        opened: Option<Instant>,
        expected_ns: u64,
        now: Instant,
    ) {
        let begin = self.begin.max(launched).max(opened).unwrap_or(now);
        let end = begin.checked_add(Duration::from_nanos(expected_ns));
        self.earliest = self.earliest.max(launched).max(self.looked_at);
        let least = self.looked_at.take().unwrap_or(begin).min(now);
        self.begin = Some(end.unwrap_or(now).clamp(least, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_that_is_seen_late_is_taken_to_have_been_in_time() {
        let ns = Duration::from_nanos;
        let start = Instant::now();
        let mut progress = Progress::default();
        progress.completed(Some(start), None, 100, start + ns(900));
        assert_eq!(progress.begin, Some(start + ns(100)));
        // Seen running at 600, and over at 650.
        progress.looked_at = Some(start + ns(600));
        progress.completed(None, None, 100, start + ns(650));
        assert_eq!(progress.begin, Some(start + ns(600)));
        // Faster than predicted.
        progress.completed(None, None, 500, start + ns(700));
        assert_eq!(progress.begin, Some(start + ns(700)));
        // After a pause.
        progress.completed(Some(start + ns(2_000)), None, 100, start + ns(2_500));
        assert_eq!(progress.begin, Some(start + ns(2_100)));
        assert_eq!(progress.earliest, Some(start + ns(2_000)), "of the last, too");
    }

    #[test]
    fn what_is_seen_after_a_hold_may_have_completed_before() {
        let ns = Duration::from_nanos;
        let start = Instant::now();
        let mut progress = Progress::default();
        progress.completed(Some(start), None, 100, start + ns(100));
        // Held from 250 to 900. What completed at 200 is seen at 950, and what ran at the hold
        // began at 200.
        progress.completed(None, Some(start + ns(900)), 100, start + ns(950));
        assert_eq!(progress.earliest, Some(start));
        // What is seen not to have completed after the hold has.
        progress.looked_at = Some(start + ns(960));
        progress.completed(None, Some(start + ns(900)), 100, start + ns(1_000));
        assert_eq!(progress.earliest, Some(start + ns(960)));
    }
}
