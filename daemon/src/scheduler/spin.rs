//! Time for which the scheduler's thread polls for events after one, before it sleeps.
//!
//! A thread that sleeps takes some 100 µs to wake in a virtual machine, and 300 µs at its 99th
//! percentile. To poll for about as long before a sleep costs twice the best that could be known
//! beforehand, at most. What is to be held at once is held by the processes themselves meanwhile,
//! see [`direct`](super::driver).

use xsched_core::time::{Duration as Span, Instant};

/// The time over which polling is limited to a part of a processor.
const WINDOW: Span = Span::from_ms(1_000);

/// The time up to which the thread polls.
#[derive(Debug)]
pub(crate) struct Spin {
    /// Time after an event.
    most: Span,
    /// Part of a processor for polling, in percent.
    percent: u8,
    /// Time that it may still poll, and up to when that is counted.
    credit: Span,
    credited: Instant,
    until: Instant,
}

impl Spin {
    /// Polls for this time after an event at most, and for this part of all time, in percent.
    pub(crate) const fn new(most: Span, percent: u8) -> Self {
        let (credited, until) = (Instant::ZERO, Instant::ZERO);
        Self { most, percent, credit: Span::ZERO, credited, until }
    }

    /// The part of a time for which it may poll.
    const fn part(&self, of: Span) -> Span {
        Span::from_ns(of.as_ns() / 100 * self.percent as u64)
    }

    /// Notes that the work of a process has changed for which others may have to be held.
    pub(crate) fn note(&mut self, now: Instant) {
        let passed = now.since(std::mem::replace(&mut self.credited, now)).min(WINDOW);
        self.credit = (self.credit + self.part(passed)).min(self.part(WINDOW));
        self.until = self.until.max(now + self.most.min(self.credit));
    }

    /// Notes that the thread has polled for this time.
    pub(crate) fn spend(&mut self, polled: Span) {
        self.credit = self.credit - polled.min(self.credit);
    }

    pub(crate) const fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Span::from_us(us)
    }

    #[test]
    fn it_polls_for_a_part_of_the_time_however_often_events_come() {
        for (every_us, most_us) in [(10_000, 20_000), (1_000, 50_000), (50, 50_000)] {
            let mut spin = Spin::new(Span::from_us(200), 5);
            let (mut polled, mut now) = (Span::ZERO, at(2_000_000));
            spin.note(now);
            assert_eq!(spin.until(), at(2_000_200));
            spin.spend(Span::from_ms(50));
            while now < at(3_000_000) {
                spin.note(now);
                let spun = spin.until().since(now).min(Span::from_us(every_us));
                spin.spend(spun);
                polled += spun;
                now += Span::from_us(every_us);
            }
            let us = polled.as_ns() / 1_000;
            assert!((most_us * 9 / 10..=most_us + 200).contains(&us), "{us} of {most_us} us");
        }
    }

    #[test]
    fn without_time_or_a_part_of_a_processor_it_sleeps_at_once() {
        for (most, percent) in [(Span::ZERO, 100), (Span::from_ms(20), 0)] {
            let mut spin = Spin::new(most, percent);
            spin.note(at(500_000));
            assert_eq!(spin.until(), at(500_000));
        }
    }
}
