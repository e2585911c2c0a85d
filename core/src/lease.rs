//! The lease that holds depend on: a scheduler that falls silent loses its power to hold queues.

use crate::time::{Duration, Instant};

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

    /// When it runs out unless it is renewed.
    #[must_use]
    pub fn expires(&self) -> Instant {
        self.renewed + self.length
    }

    /// Whether it has run out.
    #[must_use]
    pub fn expired(&self, now: Instant) -> bool {
        now >= self.expires()
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
}
