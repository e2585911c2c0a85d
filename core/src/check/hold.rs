use super::{Invariant, Verdict, require};
use crate::id::CmdId;
use crate::level::Level;

/// Invariant 3 for one queue: what a hold promised once it was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldCheck {
    held: Option<Level>,
    running: bool,
}

impl HoldCheck {
    /// The queue says that a hold is in effect, this deep.
    ///
    /// # Errors
    /// At Lv3, if a command runs.
    #[inline]
    pub fn acknowledged(&mut self, level: Level) -> Verdict {
        self.held = Some(level);
        let quiet = level < Level::Interrupt || !self.running;
        require(quiet, Invariant::Hold, "a command runs although interrupted", 1, 0)
    }

    /// The queue may run again.
    #[inline]
    pub fn released(&mut self) {
        self.held = None;
    }

    /// The queue launched a command.
    ///
    /// # Errors
    /// If a hold is in effect.
    #[inline]
    pub fn launched(&self, cmd: CmdId) -> Verdict {
        require(self.held.is_none(), Invariant::Hold, "launched while held", cmd.0, 0)
    }

    /// A command started or continued; `gated` if a gate is in front of it.
    ///
    /// # Errors
    /// At Lv3 for any command, at Lv2 for a gated one.
    #[inline]
    pub fn started(&mut self, cmd: CmdId, gated: bool) -> Verdict {
        self.running = true;
        let allowed = match self.held {
            None | Some(Level::Block) => true,
            Some(Level::Deactivate) => !gated,
            Some(Level::Interrupt) => false,
        };
        require(allowed, Invariant::Hold, "started while held", cmd.0, 0)
    }

    /// The running command finished or was stopped.
    #[inline]
    pub fn stopped(&mut self) {
        self.running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_forbids_what_it_promises() {
        let mut check = HoldCheck::default();
        check.acknowledged(Level::Block).unwrap();
        assert!(check.started(CmdId(0), true).is_ok());
        assert!(check.launched(CmdId(1)).is_err());
        assert!(check.acknowledged(Level::Interrupt).is_err(), "it runs");
        check.stopped();
        check.acknowledged(Level::Deactivate).unwrap();
        assert!(check.started(CmdId(1), false).is_ok());
        assert!(check.started(CmdId(2), true).is_err());
        check.stopped();
        check.acknowledged(Level::Interrupt).unwrap();
        assert!(check.started(CmdId(3), false).is_err());
        check.released();
        assert!(check.started(CmdId(4), true).is_ok());
    }
}
