//! Work that the scheduler of the node, `xschedd`, sees run past it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use xsched_node::{NodeError, Outsider, SocketPath, Status};

use super::problem::Problem;
use crate::node;

/// The scheduler of the node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Daemon {
    /// The first path at which programs find something, or else the last.
    pub(super) socket: PathBuf,
    /// All paths at which they look for it.
    pub(super) sockets: String,
    /// Policy in charge; `None` if the daemon does not answer.
    pub(super) policy: Option<String>,
    /// Why it does not answer, if its socket is there.
    pub(super) why: Option<String>,
    /// How many processes of those that this user may see it schedules on GPUs.
    pub(super) processes: usize,
    /// Processes on GPUs that it does not schedule, by the drivers' lists.
    pub(super) not_scheduled: Vec<Outsider>,
    /// Processes that it schedules and that use clearly more of a GPU than they report.
    pub(super) understated: Vec<i32>,
    /// Facts that it does not know about that, and why.
    pub(super) not_known: Vec<String>,
}

impl Daemon {
    /// Asks it.
    pub(super) fn here(at: &SocketPath) -> Self {
        let answer = node::status(at);
        Self { sockets: at.to_string(), ..Self::from_answer(at.found(), answer) }
    }

    /// One that answers this.
    #[cfg(test)]
    pub(super) fn answering(answer: Result<Status, NodeError>) -> Self {
        Self::from_answer("/nowhere/socket".into(), answer)
    }

    fn from_answer(socket: PathBuf, answer: Result<Status, NodeError>) -> Self {
        let is_there = socket.exists();
        let (status, why) = match answer {
            Ok(status) => (status, None),
            Err(error) => {
                let why = match error {
                    NodeError::Socket(error) => error.to_string(),
                    error => error.to_string(),
                };
                (Status::default(), Some(why).filter(|_| is_there))
            }
        };
        let is_gone = status.schema == 0;
        let more = status.clients.iter().filter(|client| client.is_understated);
        Self {
            sockets: display(&socket),
            socket,
            policy: (!is_gone).then_some(status.policy),
            why,
            processes: status.clients.iter().filter(|client| !client.device.is_empty()).count(),
            understated: more.map(|client| client.pid).collect(),
            not_scheduled: status.outsiders,
            not_known: status.outsiders_unknown,
        }
    }

    /// Lists the problems.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let past = self.not_scheduled.iter().map(|one| {
            let (pid, name, gpu) = (one.pid, node::plain(&one.name), node::plain(&one.device));
            let what = format!("process {pid} ({name}) uses {gpu} and is not scheduled");
            Problem::new(what, "start it by `xsched run`")
        });
        let more = self.understated.iter().map(|pid| {
            let what = format!("process {pid} uses clearly more of a GPU than it reports");
            let action = "see which of its launches go past with `xsched doctor -- PROGRAM`";
            Problem::new(what, action)
        });
        let silent = self.why.iter().map(|why| {
            Problem::new(
                format!("the socket is there, and {why}"),
                "start xschedd, or ask its administrator for access",
            )
        });
        past.chain(more).chain(silent).collect()
    }

    /// The path of the socket that does not answer, or else all at which programs look for it.
    pub(super) fn place(&self) -> String {
        self.why.as_ref().map_or_else(|| self.sockets.clone(), |_| display(&self.socket))
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use xsched_node::ClientStatus;

    use super::*;

    #[test]
    fn what_runs_past_it_is_a_problem_and_no_daemon_is_none() {
        let gone = Daemon::from_answer("/nowhere/socket".into(), Err(NodeError::Closed));
        assert_eq!((&gone.policy, gone.problems()), (&None, vec![]));
        let silent = Daemon::from_answer("/".into(), Err(NodeError::Closed));
        assert_eq!(silent.problems().len(), 1);
        let outsider = Outsider { pid: 9, name: "a\u{1b}b".to_owned(), ..Outsider::default() };
        let client = |pid, is_understated| ClientStatus {
            pid,
            device: "gpu".to_owned(),
            is_understated,
            ..ClientStatus::default()
        };
        let status = Status {
            schema: 2,
            policy: "hpf".to_owned(),
            clients: vec![client(1, false), client(2, true), ClientStatus::default()],
            outsiders: vec![outsider],
            ..Status::default()
        };
        let daemon = Daemon::from_answer("/nowhere/socket".into(), Ok(status));
        assert_eq!((daemon.policy.as_deref(), daemon.processes), (Some("hpf"), 2));
        let problems: Vec<_> = daemon.problems().into_iter().map(|problem| problem.what).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("process 9 (ab)") && problems[1].contains("process 2 "));
    }
}
