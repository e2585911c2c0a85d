//! The failures of a queue, kept for waits that begin when the ring has forgotten the command.

use std::collections::VecDeque;

use xsched_core::fault::Fault;
use xsched_core::id::CmdId;
use xsched_core::queue::{CommandSlot, Queue, Status};

use crate::completion::Outcome;
use crate::error::WaitError;

/// Runs of failures that are kept, about 1.5 MiB. Beyond that the oldest run goes, and with it the
/// outcomes of all commands up to its end.
const RUNS_MAX: usize = 1 << 16;

/// The failures of a queue. A command that has retired and is not among them has succeeded, so
/// successes take no memory.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Neighbours that failed alike are one run.
    runs: VecDeque<Run>,
    /// Commands below this have retired and been looked at.
    seen: u64,
    /// Failures among them.
    found: u64,
    /// Outcomes of commands below this are forgotten.
    kept_from: u64,
}

/// Commands from `first` on, and before `end`.
#[derive(Debug)]
struct Run {
    first: u64,
    end: u64,
    fault: Fault,
}

impl Failures {
    /// Keeps the failures among what has retired. To be called in the step in which commands
    /// retire, since the ring may forget them after it.
    #[inline]
    pub(super) fn keep(&mut self, machine: &Queue<Box<[CommandSlot]>>) {
        let retired = machine.retired();
        if machine.failures() == self.found {
            self.seen = retired;
        } else {
            self.look_through(machine, retired);
        }
    }

    #[cold]
    fn look_through(&mut self, machine: &Queue<Box<[CommandSlot]>>, retired: u64) {
        for n in self.seen..retired {
            if let Status::Failed(fault) = machine.status(CmdId(n)) {
                self.found += 1;
                self.put(n, fault);
            }
        }
        self.seen = retired;
    }

    fn put(&mut self, n: u64, fault: Fault) {
        if let Some(last) = self.runs.back_mut().filter(|run| run.end == n && run.fault == fault) {
            last.end = n + 1;
            return;
        }
        if self.runs.len() == RUNS_MAX {
            self.kept_from = self.runs.pop_front().map_or(self.kept_from, |run| run.end);
        }
        self.runs.push_back(Run { first: n, end: n + 1, fault });
    }

    /// The outcome of a command that the ring has forgotten.
    pub(super) fn outcome(&self, cmd: CmdId) -> Outcome {
        if cmd.0 < self.kept_from {
            return Err(WaitError::Forgotten);
        }
        let at = self.runs.partition_point(|run| run.end <= cmd.0);
        match self.runs.get(at).filter(|run| run.first <= cmd.0) {
            Some(run) => Err(WaitError::Failed(run.fault)),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn successes_are_known_between_failures() {
        let mut failures = Failures::default();
        for n in [3, 4, 9] {
            failures.put(n, Fault::Execution);
        }
        failures.put(10, Fault::Cancelled);
        assert_eq!(failures.runs.len(), 3);
        let failed: Vec<_> = (0..12).filter(|&n| failures.outcome(CmdId(n)).is_err()).collect();
        assert_eq!(failed, [3, 4, 9, 10]);
        assert_eq!(failures.outcome(CmdId(10)), Err(WaitError::Failed(Fault::Cancelled)));
    }

    #[test]
    fn beyond_the_bound_the_oldest_outcomes_are_forgotten() {
        let mut failures = Failures::default();
        for n in 0..=RUNS_MAX as u64 {
            failures.put(2 * n, Fault::Execution);
        }
        assert_eq!(failures.runs.len(), RUNS_MAX);
        assert_eq!(failures.outcome(CmdId(0)), Err(WaitError::Forgotten));
        assert_eq!(failures.outcome(CmdId(1)), Ok(()));
        assert_eq!(failures.outcome(CmdId(2)), Err(WaitError::Failed(Fault::Execution)));
    }
}
