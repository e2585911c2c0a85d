//! Gates outside of the queues, which keep back launches of commands, and the beginning of
//! requests.

use std::fmt::Debug;

/// Answer to a task that wants to launch its next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Yes.
    Now,
    /// Not before this time; ask again then.
    At(u64),
    /// Not before [`LaunchGate::woken`] names the task.
    Later,
}

/// Decides when tasks launch and begin requests. The engine knows comparators only as this. Tasks
/// are numbered as in the scenario; times are in nanoseconds.
pub(crate) trait LaunchGate: Debug {
    /// The task has a command to launch; its request has this many that are not launched, this one
    /// included.
    fn admit(&mut self, now_ns: u64, task: usize, left: u64) -> Admit {
        let _ = (now_ns, task, left);
        Admit::Now
    }

    /// The task has launched a command with this much work.
    fn launched(&mut self, now_ns: u64, task: usize, work_ns: u64) {
        let _ = (now_ns, task, work_ns);
    }

    /// The host has seen that this many commands of the task are over.
    fn retired(&mut self, task: usize, commands: u64) {
        let _ = (task, commands);
    }

    /// A task to be asked again, if there is one for which there is room now.
    fn woken(&mut self) -> Option<usize> {
        None
    }

    /// True if the task may begin a request that arrived then.
    fn admit_request(&mut self, task: usize, arrived_ns: u64) -> bool {
        let _ = (task, arrived_ns);
        true
    }

    /// A request of the task is over.
    fn request_over(&mut self, task: usize) {
        let _ = task;
    }

    /// A task that may try to begin a request now, if there is one.
    fn next_request(&mut self) -> Option<usize> {
        None
    }
}
