//! Causes for which a process is held.

/// A cause for which a process is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HoldCause {
    /// The scheduler's last order.
    Order = 1,
    /// A user's wish.
    User = 2,
    /// The gang of the process, which does not run.
    Gang = 4,
}

/// Set of the causes for which a process is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldCauses(u8);

impl HoldCauses {
    /// Returns whether nothing holds the process.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether this cause holds the process.
    #[must_use]
    pub const fn contains(self, cause: HoldCause) -> bool {
        self.0 & cause as u8 != 0
    }

    /// Adds a cause, or takes it out.
    pub const fn set(&mut self, cause: HoldCause, holds: bool) {
        self.0 = if holds { self.0 | cause as u8 } else { self.0 & !(cause as u8) };
    }
}

/// State of a process by its gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GangState {
    /// The process runs if the scheduler lets it.
    #[default]
    Runnable,
    /// The process is held until the gang runs, and keeps its claim to the GPU.
    Held,
    /// The process is held, and claims nothing.
    Yielding,
}
