use super::{Invariant, Verdict, require};

/// Invariant 2 for one queue: counts what was launched and what the device has said to be retired,
/// by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowCheck {
    in_flight: u64,
}

impl WindowCheck {
    /// A command was launched while `limit` commands may be in flight.
    ///
    /// # Errors
    /// If that is one too many.
    #[inline]
    pub fn launched(&mut self, limit: u64) -> Verdict {
        self.in_flight += 1;
        let what = "more in flight than the window allows";
        require(self.in_flight <= limit, Invariant::Window, what, self.in_flight, limit)
    }

    /// The host has learnt that commands retired, or that a launch was refused, or that the device
    /// forgot some.
    #[inline]
    pub fn retired(&mut self, commands: u64) {
        self.in_flight = self.in_flight.saturating_sub(commands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_noticed() {
        let mut check = WindowCheck::default();
        assert!(check.launched(2).is_ok());
        assert!(check.launched(2).is_ok());
        assert!(check.launched(2).is_err());
        check.retired(2);
        assert!(check.launched(2).is_ok());
    }
}
