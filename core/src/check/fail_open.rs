use super::{Invariant, Verdict, require};
use crate::time::{Duration, Instant};

/// Invariant 7: once the scheduler has been silent for its lease, and a watchdog had time to act,
/// no queue obeys a hold of it. User holds stay.
#[derive(Clone, Copy, Debug)]
pub struct FailOpenCheck {
    grace: Duration,
}

impl FailOpenCheck {
    /// A checker that allows `grace` after the lease has run out.
    #[must_use]
    pub const fn new(grace: Duration) -> Self {
        Self { grace }
    }

    /// How things stand: when the lease ran out (if it has), and how many queues are held by the
    /// scheduler all the same.
    ///
    /// # Errors
    /// If there are any after the grace.
    pub fn look(&self, now: Instant, expired: Option<Instant>, held: u64) -> Verdict {
        let late = expired.is_some_and(|at| now.since(at) > self.grace);
        let what = "queues are held by a silent scheduler";
        require(!late || held == 0, Invariant::FailOpen, what, held, 0)
    }

    /// A user hold must survive, whatever the scheduler does.
    ///
    /// # Errors
    /// If it did not.
    pub fn suspended(asked: bool, in_effect: bool) -> Verdict {
        let what = "a user hold was ended by somebody else";
        require(!asked || in_effect, Invariant::FailOpen, what, 0, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_by_the_dead_is_noticed() {
        let check = FailOpenCheck::new(Duration::from_us(1));
        let at = Instant::from_ns;
        assert!(check.look(at(5_000), None, 3).is_ok());
        assert!(check.look(at(5_000), Some(at(4_500)), 3).is_ok());
        assert!(check.look(at(5_600), Some(at(4_500)), 3).is_err());
        assert!(check.look(at(5_600), Some(at(4_500)), 0).is_ok());
        assert!(FailOpenCheck::suspended(true, false).is_err());
    }
}
