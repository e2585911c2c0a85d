//! For how long the scheduler's thread looks for events again at once, before it sleeps.
//!
//! A thread that sleeps takes some 100 µs to wake in a virtual machine, and 300 µs at its 99th
//! percentile. For so long what is to be held runs on.

use xsched_core::time::{Duration as Span, Instant};

/// After an event, unless events come often.
const SHORT: Span = Span::from_us(200);
/// After the work of a process that others are held for, if its last pause took no longer.
const LONG: Span = Span::from_ms(500);

/// Until when it looks.
#[derive(Debug)]
pub(crate) struct Spin {
    /// After an event, if the one before was no longer ago.
    most: Span,
    until: Instant,
    /// When the last event was.
    event: Instant,
    /// When work last ended of a process that others are held for, on any GPU.
    ended: Option<Instant>,
    /// How long that was ago when such work last began.
    pause: Option<Span>,
}

impl Default for Spin {
    fn default() -> Self {
        let (until, event) = (Instant::ZERO, Instant::ZERO);
        Self { most: SHORT, until, event, ended: None, pause: None }
    }
}

impl Spin {
    /// Looks for so long after an event at most.
    pub(crate) fn set_most(&mut self, most: Span) {
        *self = Self { most, event: self.event, ..Self::default() };
    }

    /// A process for which others may have to be held has said that its work has changed.
    pub(crate) fn note(&mut self, now: Instant) {
        let is_often = now.since(std::mem::replace(&mut self.event, now)) <= self.most;
        self.extend(now, if is_often { self.most } else { self.most.min(SHORT) });
    }

    /// A process that others with work are held for has work from now on, or none.
    pub(crate) fn note_first(&mut self, now: Instant, has_work: bool) {
        if has_work {
            self.pause = self.ended.map(|ended| now.since(ended));
            return;
        }
        self.ended = Some(now);
        // With few processors there is none to spare.
        if self.most > SHORT && self.pause.is_some_and(|pause| pause <= LONG) {
            self.extend(now, LONG);
        }
    }

    fn extend(&mut self, now: Instant, by: Span) {
        self.until = self.until.max(now + by);
    }

    pub(crate) const fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn it_looks_for_long_only_while_events_come_often() {
        let mut spin = Spin::default();
        spin.set_most(Span::from_ms(20));
        spin.note(at(100));
        assert_eq!(spin.until(), at(100) + SHORT);
        spin.note(at(120));
        assert_eq!(spin.until(), at(140));
        spin.set_most(Span::ZERO);
        spin.note(at(125));
        assert_eq!(spin.until(), at(125));
    }

    #[test]
    fn it_waits_for_several_on_gpus_of_their_own() {
        let mut spin = Spin::default();
        spin.set_most(Span::from_ms(20));
        // One ends, the other one begins, so does the first, and both end.
        for (ms, has_work) in [(100, false), (110, true), (120, true), (130, false), (140, false)] {
            spin.note_first(at(ms), has_work);
        }
        assert_eq!(spin.until(), at(140) + LONG);
    }

    #[test]
    fn it_waits_for_one_that_others_are_held_for_if_its_last_pause_was_no_longer() {
        let mut spin = Spin::default();
        spin.set_most(Span::from_ms(20));
        for (begin, waits) in [(1_000, false), (1_400, true), (1_910, false), (2_000, true)] {
            spin.note_first(at(begin), true);
            spin.note_first(at(begin + 5), false);
            assert_eq!(spin.until() == at(begin + 5) + LONG, waits, "{begin}");
        }
        spin.set_most(SHORT);
        spin.note_first(at(2_100), true);
        spin.note_first(at(2_105), false);
        spin.note_first(at(2_200), true);
        spin.note_first(at(2_205), false);
        assert_eq!(spin.until(), Instant::ZERO, "there are few processors");
    }
}
