//! Asks the daemon, on a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};
use xsched_node::{Answer, NodeError, Request, SocketPath, Status, Wire};

use crate::node::plain;

/// For how long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Requests and updates that may wait.
const WAITING_MAX: usize = 64;

/// Update of what is known.
#[derive(Debug)]
pub(super) enum Update {
    /// Status of the daemon, and the names of the users in it.
    Status(Box<Status>, BTreeMap<u32, String>),
    /// The daemon does not answer.
    Gone(String),
    /// The request was carried out.
    Done(Request),
    /// The request was refused.
    Refused(String),
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Source {
    requests: SyncSender<Request>,
    updates: Receiver<Update>,
}

impl Source {
    /// Starts to ask the daemon at one of these paths, with this pause after each answer.
    ///
    /// # Errors
    /// If there is no thread.
    pub(super) fn start(at: SocketPath, interval: Duration) -> io::Result<Self> {
        let (requests, asked) = sync_channel(WAITING_MAX);
        let (send, updates) = sync_channel(WAITING_MAX);
        let asker = Asker { at, wire: None, users: BTreeMap::new() };
        thread::Builder::new()
            .name("ask".to_owned())
            .spawn(move || asker.run(&asked, &send, interval))?;
        Ok(Self { requests, updates })
    }

    /// Returns the updates since the last call, one by one.
    pub(super) fn next(&self) -> Option<Update> {
        self.updates.try_recv().ok()
    }

    /// Asks for something. The answer is an update.
    pub(super) fn ask(&self, request: Request) {
        // It is full only if the user asks faster than the daemon fails to answer.
        let _ = self.requests.try_send(request);
    }
}

/// Asks once.
pub(super) fn ask_once(at: &SocketPath, request: &Request) -> Result<Update, NodeError> {
    Asker { at: at.clone(), wire: None, users: BTreeMap::new() }.ask(request)
}

struct Asker {
    at: SocketPath,
    wire: Option<Wire>,
    users: BTreeMap<u32, String>,
}

impl Asker {
    fn run(mut self, asked: &Receiver<Request>, send: &SyncSender<Update>, interval: Duration) {
        let mut due = Instant::now();
        loop {
            let request = match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => Request::Status,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let update = self.ask(&request).unwrap_or_else(|error| match error {
                NodeError::Refused(why) => Update::Refused(plain(&why)),
                other => Update::Gone(plain(&format!("at {}: {other}", self.at))),
            });
            if let Err(TrySendError::Disconnected(_)) = send.try_send(update) {
                return;
            }
            // After a change, what it did is shown at once.
            let is_status = matches!(request, Request::Status);
            due = Instant::now() + if is_status { interval } else { Duration::ZERO };
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Update, NodeError> {
        let wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.at.connect(PATIENCE)?,
        };
        let answer = match request {
            Request::Status => wire.status().map(Answer::Status),
            other => wire.ask(other, None).map(|(answer, _)| answer),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(NodeError::Refused(why)) => {
                self.wire = Some(wire);
                return Err(NodeError::Refused(why));
            }
            // Its answer might come later, to another request.
            Err(error) => return Err(error),
        };
        self.wire = Some(wire);
        match answer {
            Answer::Status(status) => {
                let users = self.users_of(&status);
                Ok(Update::Status(Box::new(status), users))
            }
            Answer::Done => Ok(Update::Done(request.clone())),
            _ => Err(NodeError::Unexpected),
        }
    }

    fn users_of(&mut self, status: &Status) -> BTreeMap<u32, String> {
        let outsiders = status.outsiders.iter().filter_map(|outsider| outsider.uid);
        for uid in status.clients.iter().map(|client| client.uid).chain(outsiders) {
            self.users.entry(uid).or_insert_with(|| {
                let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
                user.map_or_else(|| uid.to_string(), |user| user.name)
            });
        }
        self.users.clone()
    }
}
