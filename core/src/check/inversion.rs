use super::{Invariant, Verdict, require};
use crate::time::{Duration, Instant};

/// Invariant 6 for one waiting queue: while it may run itself, what it waits for may run too, but
/// for the time that orders need to arrive.
#[derive(Clone, Copy, Debug)]
pub struct InversionCheck {
    grace: Duration,
    since: Option<Instant>,
}

impl InversionCheck {
    /// A checker that allows `grace` for messages to arrive.
    #[must_use]
    pub const fn new(grace: Duration) -> Self {
        Self { grace, since: None }
    }

    /// How things stand for a queue that waits: whether it may run itself, and whether the queue
    /// that it waits for is kept from running by the scheduler (a user hold does not count).
    ///
    /// # Errors
    /// If that has lasted longer than the grace.
    pub fn look(&mut self, now: Instant, may_run: bool, target_held: bool) -> Verdict {
        if !(may_run && target_held) {
            self.since = None;
            return Ok(());
        }
        let since = *self.since.get_or_insert(now);
        let fine = now.since(since) <= self.grace;
        let what = "a runnable queue waits for a held one, for ns";
        require(fine, Invariant::Inversion, what, now.since(since).as_ns(), self.grace.as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_inversion_is_noticed() {
        let mut check = InversionCheck::new(Duration::from_us(1));
        assert!(check.look(Instant::from_ns(0), true, true).is_ok());
        assert!(check.look(Instant::from_ns(900), true, false).is_ok());
        assert!(check.look(Instant::from_ns(1_000), true, true).is_ok());
        assert!(check.look(Instant::from_ns(2_001), true, true).is_err());
    }
}
