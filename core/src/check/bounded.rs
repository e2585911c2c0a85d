use super::{Invariant, Verdict, require};

/// Invariant 8: what a buffer holds, and the most it ever held.
#[derive(Clone, Copy, Debug)]
pub struct BoundedCheck {
    capacity: u64,
    most: u64,
}

impl BoundedCheck {
    /// A checker for a buffer with this capacity.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { capacity, most: 0 }
    }

    /// Checks the number of items that the buffer holds now.
    ///
    /// # Errors
    /// If that is more than its capacity.
    #[inline]
    pub fn look(&mut self, holds: u64) -> Verdict {
        self.most = self.most.max(holds);
        let what = "a buffer holds more than its capacity";
        require(holds <= self.capacity, Invariant::Bounded, what, holds, self.capacity)
    }

    /// The most it ever held.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_noticed() {
        let mut check = BoundedCheck::new(2);
        assert!(check.look(2).is_ok());
        assert!(check.look(3).is_err());
        assert_eq!(check.most(), 3);
    }
}
