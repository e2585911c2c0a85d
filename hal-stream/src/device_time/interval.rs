//! Intervals between two events of a stream, by which its commands are charged.

use std::time::{Duration, Instant};

use super::is_little;

/// Commands, and what is known of the time that they will take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) commands: u32,
    /// Nanoseconds of device time, if each of them has an estimate.
    pub(crate) expected_ns: Option<u64>,
    /// The kind of the only command, if that is a sample.
    pub(crate) sample: Option<u32>,
    /// Nanoseconds for which the device waited for the launch of the sample.
    pub(crate) launching_ns: u64,
    /// The host was the slower one: the stream had nothing to run at some time.
    pub(crate) has_pauses: bool,
}

impl Default for Work {
    fn default() -> Self {
        let (commands, expected_ns) = (0, Some(0));
        Self { commands, expected_ns, sample: None, launching_ns: 0, has_pauses: false }
    }
}

impl Work {
    /// Adds commands that follow.
    pub(crate) fn add(&mut self, next: &Self) {
        self.sample = if self.commands == 0 { next.sample } else { None };
        self.commands = self.commands.saturating_add(next.commands);
        let both = self.expected_ns.zip(next.expected_ns);
        self.expected_ns = both.map(|(sum, ns)| sum.saturating_add(ns));
        self.launching_ns = self.launching_ns.saturating_add(next.launching_ns);
        self.has_pauses |= next.has_pauses;
    }

    /// Nanoseconds of the work if nothing measured it.
    pub(crate) fn predicted_ns(&self) -> u64 {
        self.expected_ns.unwrap_or(0)
    }

    /// Of a time that was measured, in nanoseconds, what was not the launch. The device begins a
    /// little later than the host is ready, so a quarter counts at least.
    pub(crate) fn without_launch(&self, elapsed_ns: u64) -> u64 {
        elapsed_ns.saturating_sub(self.launching_ns).max(elapsed_ns / 4)
    }
}

/// Where an interval begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin<E> {
    /// Where the one before ends, or before that.
    Before,
    /// At this event.
    At(E),
    /// Nowhere: an idle stream got the work without an event.
    Nowhere,
}

/// Commands that have completed and were not charged yet.
#[derive(Debug)]
pub(crate) struct Interval<E> {
    /// The event where it begins, if there is one.
    pub(crate) from: Option<E>,
    /// The event behind its last command.
    pub(crate) to: Option<E>,
    pub(crate) work: Work,
    /// Before then it did not begin.
    pub(crate) earliest: Option<Instant>,
}

impl<E> Default for Interval<E> {
    fn default() -> Self {
        Self { from: None, to: None, work: Work::default(), earliest: None }
    }
}

impl<E> Interval<E> {
    /// Tells whether the interval is to be charged now, though more of the stream's commands are in
    /// flight.
    pub(crate) fn is_to_end(&self) -> bool {
        let is_worth = self.work.sample.is_some() || !is_little(self.work.expected_ns);
        self.from.is_none() || self.to.is_some() && is_worth
    }

    /// Before when what follows did not begin, after an interval of this length.
    pub(crate) fn earliest_after(&self, elapsed_ns: u64) -> Option<Instant> {
        self.earliest.and_then(|at| at.checked_add(Duration::from_nanos(elapsed_ns)))
    }
}
