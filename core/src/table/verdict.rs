//! Decision of a policy about a queue.

use crate::time::Duration;

/// How soon a held queue must be off the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency(Duration);

impl Urgency {
    /// As soon as the device can.
    pub const NOW: Self = Self(Duration::ZERO);
    /// Whenever it has finished what is in flight.
    pub const WHENEVER: Self = Self(Duration::MAX);

    /// Within this time, by the cheapest level that makes it.
    #[must_use]
    pub const fn within(span: Duration) -> Self {
        Self(span)
    }

    /// The time.
    #[must_use]
    pub const fn span(self) -> Duration {
        self.0
    }
}

/// Decision of a policy about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The queue should run.
    Run,
    /// The queue should hold.
    Hold(Urgency),
}
