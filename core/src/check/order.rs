use super::{Invariant, Verdict, require};
use crate::id::CmdId;

/// Invariant 1 for one queue: launches go up one by one (with gaps only for commands that need no
/// device), and the device starts exactly what was launched, in that order.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderCheck {
    launches: u64,
    starts: u64,
    /// One past the last launched, and one past the last started command.
    next_launch: u64,
    next_start: u64,
}

impl OrderCheck {
    /// The queue launched a command.
    ///
    /// # Errors
    /// If it is not after the previous one.
    #[inline]
    pub fn launched(&mut self, cmd: CmdId) -> Verdict {
        let expected = self.next_launch;
        self.next_launch = self.next_launch.max(cmd.count());
        self.launches += 1;
        require(cmd.0 >= expected, Invariant::Order, "launched out of order", cmd.0, expected)
    }

    /// The device forgot everything from `first` on; it will be launched again.
    pub fn replayed(&mut self, first: CmdId, forgotten: u64) {
        self.launches = self.launches.saturating_sub(forgotten);
        self.next_launch = self.next_launch.min(first.0);
        self.next_start = self.next_start.min(first.0);
    }

    /// The device refused a launch.
    pub fn refused(&mut self) {
        self.launches = self.launches.saturating_sub(1);
    }

    /// The device started a command (not: continued it).
    ///
    /// # Errors
    /// If it is not after the previous one, or was not launched.
    #[inline]
    pub fn started(&mut self, cmd: CmdId) -> Verdict {
        let expected = self.next_start;
        self.next_start = self.next_start.max(cmd.count());
        self.starts += 1;
        require(cmd.0 >= expected, Invariant::Order, "started out of order", cmd.0, expected)?;
        let launched = cmd.0 < self.next_launch && self.starts <= self.launches;
        require(launched, Invariant::Order, "started without launch", cmd.0, self.next_launch)
    }

    /// The device is empty: everything launched must have started.
    ///
    /// # Errors
    /// If a launched command never started.
    pub fn drained(&self) -> Verdict {
        let same = self.starts == self.launches;
        require(same, Invariant::Order, "launched commands never ran", self.starts, self.launches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_repeated_and_lost_commands_are_noticed() {
        let mut check = OrderCheck::default();
        assert!(check.launched(CmdId(0)).is_ok());
        assert!(check.launched(CmdId(2)).is_ok(), "a wait may lie between");
        assert!(check.launched(CmdId(1)).is_err());

        let mut check = OrderCheck::default();
        check.launched(CmdId(0)).unwrap();
        check.launched(CmdId(1)).unwrap();
        assert!(check.started(CmdId(1)).is_ok());
        assert!(check.started(CmdId(0)).is_err());
        assert!(check.started(CmdId(1)).is_err());

        let mut check = OrderCheck::default();
        check.launched(CmdId(0)).unwrap();
        assert!(check.drained().is_err());
    }
}
