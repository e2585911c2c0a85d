use heapless::Deque;

use super::{Invariant, Verdict, require};
use crate::fault::Fault;
use crate::id::CmdId;

/// Ranges of failed commands that are remembered per queue; older ones are forgotten, and what
/// comes before their ends is no longer judged.
const FAILED_MAX: usize = 64;

/// Invariant 4 for one queue: a wait returns neither early nor with the wrong outcome.
#[derive(Debug, Default)]
pub struct WaitCheck {
    finished: u64,
    /// First, one past the last, why.
    failed: Deque<(u64, u64, Fault), FAILED_MAX>,
    /// One past the last command of a range that was forgotten.
    blind: u64,
}

impl WaitCheck {
    /// Notes that the command ended on the device.
    #[inline]
    pub fn finished(&mut self, cmd: CmdId) {
        self.finished = self.finished.max(cmd.count());
    }

    /// Notes that commands from `from` up to, not including, `to` failed, or never got to the
    /// device.
    pub fn failed(&mut self, from: CmdId, to: CmdId, fault: Fault) {
        if self.failed.is_full()
            && let Some((_, end, _)) = self.failed.pop_front()
        {
            self.blind = self.blind.max(end);
        }
        // There is room by now.
        let _ = self.failed.push_back((from.0, to.0, fault));
    }

    fn fault_of(&self, cmd: CmdId) -> Option<Fault> {
        let mut ranges = self.failed.iter();
        ranges.find(|(from, to, _)| (*from..*to).contains(&cmd.0)).map(|(.., fault)| *fault)
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
        if cmd.0 < self.blind {
            return Ok(());
        }
        let known = self.fault_of(cmd);
        let ended = cmd.0 < self.finished || known.is_some();
        require(ended, Invariant::Wait, "a wait returned early", cmd.0, self.finished)?;
        let right = self.finished == u64::MAX || outcome.is_some() == known.is_some();
        require(right, Invariant::Wait, "a wait returned the wrong outcome", cmd.0, cmd.0)
    }

    /// Nothing more will happen, and a wait for the command has not returned.
    ///
    /// # Errors
    /// If the command has ended.
    pub fn still_waiting(&self, cmd: CmdId) -> Verdict {
        let open = cmd.0 >= self.finished && self.fault_of(cmd).is_none();
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
        check.finished(CmdId(0));
        assert!(check.returned(CmdId(0), None).is_ok());
        assert!(check.still_waiting(CmdId(0)).is_err());
        check.failed(CmdId(1), CmdId(2), Fault::Execution);
        assert!(check.returned(CmdId(1), None).is_err());
        assert!(check.returned(CmdId(1), Some(Fault::Execution)).is_ok());
        assert!(check.returned(CmdId(0), Some(Fault::Execution)).is_err());
    }

    #[test]
    fn a_failure_too_old_to_be_remembered_is_not_judged() {
        let mut check = WaitCheck::default();
        for cmd in 0..=FAILED_MAX as u64 {
            check.failed(CmdId(cmd), CmdId(cmd + 1), Fault::Launch);
        }
        assert!(check.returned(CmdId(0), Some(Fault::Launch)).is_ok());
        assert!(check.returned(CmdId(1), Some(Fault::Launch)).is_ok());
        assert!(check.returned(CmdId(1), None).is_err());
    }
}
