//! The lease that holds depend on: a scheduler that falls silent loses its power to hold queues.
//!
//! [`is_silent`] is the rule. A scheduler with a clock of its own keeps a [`Lease`]; a watchdog
//! that sees only since when the scheduler has been busy keeps a [`Watchdog`]. Both go by the rule.

use crate::time::{Duration, Instant};

/// Returns whether a scheduler counts as silent: it has worked on one round since `busy_since`, and
/// that took `lease` or longer. A scheduler that rests (`None`) is never silent.
#[must_use]
pub fn is_silent(busy_since: Option<Instant>, lease: Duration, now: Instant) -> bool {
    busy_since.is_some_and(|since| now.since(since) >= lease)
}

/// A promise that has to be renewed. The scheduler renews it whenever it has done a round of work;
/// a watchdog that finds it expired lets all held queues run (fail open) without asking the
/// scheduler for anything, not even a lock.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    renewed: Instant,
    length: Duration,
}

impl Lease {
    /// A lease of `length` that starts now.
    #[must_use]
    pub const fn new(now: Instant, length: Duration) -> Self {
        Self { renewed: now, length }
    }

    /// The scheduler is alive.
    pub fn renew(&mut self, now: Instant) {
        self.renewed = self.renewed.max(now);
    }

    /// How long it lasts from each renewal.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// When it runs out unless it is renewed.
    #[must_use]
    pub fn expires(&self) -> Instant {
        self.renewed + self.length
    }

    /// Returns whether the lease has run out: see [`is_silent`].
    #[must_use]
    pub fn expired(&self, now: Instant) -> bool {
        is_silent(Some(self.renewed), self.length, now)
    }
}

/// State of the scheduler as a [`Watchdog`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The scheduler rests, or its round is within the lease.
    Alive,
    /// The scheduler is silent in a round that was in order at the last look. All holds end, and
    /// the failure counts.
    Silent,
    /// The scheduler is silent in a round that was found too long before. It may have woken up,
    /// ordered another hold and fallen silent again, so all holds end; the failure counts once.
    StillSilent,
}

/// State that a watchdog keeps from one look at the scheduler to the next.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog {
    lease: Duration,
    /// The start of the round that was found too long.
    blamed: Option<Instant>,
}

impl Watchdog {
    /// A watchdog of a scheduler whose rounds may take as long as `lease`.
    #[must_use]
    pub const fn new(lease: Duration) -> Self {
        Self { lease, blamed: None }
    }

    /// Looks at a scheduler that has been busy with one round since `busy_since`, or that rests.
    pub fn look(&mut self, now: Instant, busy_since: Option<Instant>) -> Liveness {
        if !is_silent(busy_since, self.lease, now) {
            return Liveness::Alive;
        }
        if self.blamed == busy_since {
            return Liveness::StillSilent;
        }
        self.blamed = busy_since;
        Liveness::Silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewing_moves_the_end_forward_only() {
        let mut lease = Lease::new(Instant::ZERO, Duration::from_us(5));
        lease.renew(Instant::from_ns(2_000));
        lease.renew(Instant::from_ns(1_000));
        assert_eq!(lease.expires(), Instant::from_ns(7_000));
        assert!(!lease.expired(Instant::from_ns(6_999)));
        assert!(lease.expired(Instant::from_ns(7_000)));
    }

    #[test]
    fn a_resting_scheduler_is_never_silent() {
        let lease = Duration::from_us(5);
        assert!(!is_silent(None, lease, Instant::from_ns(u64::MAX)));
        assert!(!is_silent(Some(Instant::from_ns(10)), lease, Instant::from_ns(5_009)));
        assert!(is_silent(Some(Instant::from_ns(10)), lease, Instant::from_ns(5_010)));
    }

    #[test]
    fn a_watchdog_blames_each_round_once() {
        let mut watchdog = Watchdog::new(Duration::from_us(5));
        let mut look = |now, since: u64| {
            watchdog.look(Instant::from_ns(now), (since > 0).then(|| Instant::from_ns(since)))
        };
        assert_eq!(look(5_000, 1), Liveness::Alive);
        assert_eq!(look(5_001, 1), Liveness::Silent);
        assert_eq!(look(9_000, 1), Liveness::StillSilent);
        assert_eq!(look(90_000, 0), Liveness::Alive);
        assert_eq!(look(90_001, 90_000), Liveness::Alive);
        assert_eq!(look(99_000, 90_000), Liveness::Silent);
    }
}
