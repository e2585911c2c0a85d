//! Time for which the scheduler's thread looks for events again at once, before it sleeps.
//!
//! A thread that sleeps takes some 100 µs to wake in a virtual machine, and 300 µs at its 99th
//! percentile. What is to be held runs on meanwhile.

use xsched_core::time::{Duration as Span, Instant};

/// Time after an event that comes alone: two wake-ups of such a thread.
const AFTER_ONE: Span = Span::from_us(200);

/// The time up to which it looks.
#[derive(Debug)]
pub(crate) struct Spin {
    /// Time after an event, if the one before was no longer ago.
    most: Span,
    until: Instant,
    /// The last event.
    event: Instant,
}

impl Spin {
    /// Looks for this time after an event at most.
    pub(crate) const fn new(most: Span) -> Self {
        Self { most, until: Instant::ZERO, event: Instant::ZERO }
    }

    /// Notes that the work of a process has changed for which others may have to be held.
    pub(crate) fn note(&mut self, now: Instant) {
        let is_often = now.since(std::mem::replace(&mut self.event, now)) <= self.most;
        let time = if is_often { self.most } else { self.most.min(AFTER_ONE) };
        self.until = self.until.max(now + time);
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
        let mut spin = Spin::new(Span::from_ms(20));
        spin.note(at(100));
        assert_eq!(spin.until(), at(100) + AFTER_ONE);
        spin.note(at(120));
        assert_eq!(spin.until(), at(140));
        let mut spin = Spin::new(Span::ZERO);
        spin.note(at(125));
        assert_eq!(spin.until(), at(125));
    }
}
