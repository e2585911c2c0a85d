use heapless::Deque;

use super::{Invariant, Verdict, require};
use crate::fault::Fault;
use crate::id::CmdId;

/// Failed commands that are remembered per queue; more of them at once make the check blind to the
/// oldest.
const FAILED_MAX: usize = 32;

/// Invariant 4 for one queue: a wait returns neither early nor with the wrong outcome.
#[derive(Debug, Default)]
pub struct WaitCheck {
    finished: u64,
    failed: Deque<(u64, Fault), FAILED_MAX>,
}

impl WaitCheck {
    /// What really happened: the command ended, on the device or before it got there.
    pub fn finished(&mut self, cmd: CmdId, fault: Option<Fault>) {
        self.finished = self.finished.max(cmd.count());
        if let Some(fault) = fault {
            if self.failed.is_full() {
                self.failed.pop_front();
            }
            // Just made room.
            let _ = self.failed.push_back((cmd.0, fault));
        }
    }

    /// The device is lost: everything counts as ended.
    pub fn lost(&mut self) {
        self.finished = u64::MAX;
    }

    /// A wait for the command returned with this outcome.
    ///
    /// # Errors
    /// If the command has not ended, or ended otherwise.
    pub fn returned(&self, cmd: CmdId, outcome: Option<Fault>) -> Verdict {
        let ended = cmd.0 < self.finished;
        require(ended, Invariant::Wait, "a wait returned early", cmd.0, self.finished)?;
        let known = self.failed.iter().find(|(n, _)| *n == cmd.0).map(|(_, fault)| *fault);
        let right = self.finished == u64::MAX || outcome.is_some() == known.is_some();
        require(right, Invariant::Wait, "a wait returned the wrong outcome", cmd.0, cmd.0)
    }

    /// Nothing more will happen, and a wait for the command has not returned.
    ///
    /// # Errors
    /// If the command has ended.
    pub fn still_waiting(&self, cmd: CmdId) -> Verdict {
        let open = cmd.0 >= self.finished;
        require(open, Invariant::Wait, "a wait did not return", cmd.0, self.finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_late_and_wrong_returns_are_noticed() {
        let mut check = WaitCheck::default();
        assert!(check.returned(CmdId(0), None).is_err());
        check.finished(CmdId(0), None);
        assert!(check.returned(CmdId(0), None).is_ok());
        assert!(check.still_waiting(CmdId(0)).is_err());
        check.finished(CmdId(1), Some(Fault::Execution));
        assert!(check.returned(CmdId(1), None).is_err());
        assert!(check.returned(CmdId(1), Some(Fault::Execution)).is_ok());
        assert!(check.returned(CmdId(0), Some(Fault::Execution)).is_err());
    }
}
