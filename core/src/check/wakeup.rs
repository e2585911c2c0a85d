use super::{Invariant, Verdict, require};
use crate::time::{Duration, Instant};

/// Invariant 5 for one queue: as long as it may run and has work, it makes progress at least every
/// `patience`. What is patient enough depends on how long commands run and how many queues share
/// the device; the driver says.
#[derive(Clone, Copy, Debug)]
pub struct WakeupCheck {
    patience: Duration,
    /// Since when it may run, has work, and has not retired anything.
    since: Option<Instant>,
    retired: u64,
}

impl WakeupCheck {
    /// A checker with this patience.
    #[must_use]
    pub const fn new(patience: Duration) -> Self {
        Self { patience, since: None, retired: 0 }
    }

    /// Changes the patience, for a driver that learns on the way how long commands are.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// How things stand: whether the queue may run, what was submitted and retired.
    ///
    /// # Errors
    /// If nothing has retired for longer than the patience.
    pub fn look(&mut self, now: Instant, may_run: bool, submitted: u64, retired: u64) -> Verdict {
        if !may_run || submitted == retired || retired != self.retired {
            self.since = None;
            self.retired = retired;
        }
        if may_run && submitted > retired {
            let since = *self.since.get_or_insert(now);
            let stuck = now.since(since) > self.patience;
            return require(
                !stuck,
                Invariant::Wakeup,
                "a runnable queue is stuck",
                retired,
                submitted,
            );
        }
        Ok(())
    }

    /// Nothing more will happen: what may run must have retired.
    ///
    /// # Errors
    /// If it has not.
    pub fn ended(may_run: bool, submitted: u64, retired: u64) -> Verdict {
        let done = !may_run || submitted == retired;
        require(done, Invariant::Wakeup, "submitted commands never retired", retired, submitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_stuck_is_noticed_and_being_held_is_not() {
        let mut check = WakeupCheck::new(Duration::from_us(10));
        let at = |us| Instant::ZERO + Duration::from_us(us);
        assert!(check.look(at(0), true, 5, 0).is_ok());
        assert!(check.look(at(9), true, 5, 1).is_ok());
        assert!(check.look(at(18), true, 5, 1).is_ok());
        assert!(check.look(at(20), true, 5, 1).is_err());
        let mut held = WakeupCheck::new(Duration::from_us(10));
        assert!(held.look(at(0), false, 5, 1).is_ok());
        assert!(held.look(at(99), false, 5, 1).is_ok());
        assert!(WakeupCheck::ended(true, 2, 1).is_err());
    }
}
