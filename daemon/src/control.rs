//! The thread that accepts connections and answers messages.

mod accept;
mod daemon;
mod grants;
mod manage;
#[cfg(any(test, feature = "fuzzing"))]
mod test_control;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use xsched_core::hint::{Hints, Priority};
use xsched_node::{Answer, NodeError, PageError, Request, SharedPage, Status, VERSION, Wire};

use crate::closer::Closer;
use crate::config::{Config, Source};
use crate::grants::Grants;
use crate::listen::BoundPath;
use crate::liveness::{Checked, Pulse};
use crate::metrics::Metrics;
use crate::scheduler::{Change, ChangedBy, Client, Gpu, Op, hints};
use crate::scheduler_client::SchedulerClient;
use crate::subordinates::Subordinates;
use crate::tenant::{Asker, Party};
use crate::text::{cleaned, is_name_of_device, is_name_of_gang};
use crate::users::{Pages, User};
use crate::waker::new_eventfd;
use crate::watch::{Drivers, Watch, Watched};
pub use daemon::{Daemon, DaemonError, Settings};

/// Connections that are accepted, and messages of a user that are answered, before it is another's
/// turn. The first is no more than the second, since each connection also ends.
const SERVED_AT_A_TIME: usize = 16;
/// Time between looks whether grants have ended, and how many are looked at each time.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const LOOKED_AT: usize = 64;
/// A turn ends with the message that takes it to this.
const TURN: Duration = Duration::from_micros(200);
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const RELOAD: u64 = 2;
const CHECK: u64 = 3;

/// Where to answer that the configuration was read again, or why not.
type Reload = Sender<Result<(), String>>;

/// A connection.
#[derive(Debug)]
struct Peer {
    wire: Wire,
    pid: i32,
    party: Party,
    /// User whose limits count; see [`Subordinates`].
    person: u32,
    /// Readable once the process has ended, though a child of it may have the connection; `None`
    /// where the daemon cannot see the process.
    process: Option<OwnedFd>,
    /// Set once the process has said what it is.
    is_known: bool,
    /// Set once the connection has begun a record.
    is_recorder: bool,
    pages: Pages,
    gang: Option<String>,
}

/// Set in the number of an event that a process has ended.
const ENDED: u64 = 1 << 63;
/// Set in the number of an event that a user's connections have something to say.
const USER: u64 = 1 << 62;

/// State of the thread of the connections.
#[derive(Debug)]
pub(crate) struct Control {
    listener: OwnedFd,
    epoll: OwnedFd,
    peers: HashMap<u64, Peer>,
    /// By their numbers, those of one person together.
    users: HashMap<u32, User>,
    subordinates: Subordinates,
    closer: Closer,
    /// Pages of all connections.
    pages: usize,
    next: u64,
    scheduler: SchedulerClient,
    watched: Watched,
    metrics: Option<Metrics>,
    watch: Option<Watch>,
    /// The drivers that are asked what runs past the daemon, if any may be.
    drivers: Option<fn() -> Drivers>,
    /// A file descriptor that is given up to refuse a connection when there is no other.
    spare: Option<OwnedFd>,
    /// Until then nothing is accepted, because the system refuses.
    paused: Option<Instant>,
    /// All users may connect unless the configuration says otherwise.
    is_open: bool,
    config: Config,
    grants: Grants,
    /// When grants were looked at last.
    looked: Instant,
    source: Source,
    /// Where the socket is.
    socket: PathBuf,
    /// Path of a socket of the daemon's own, with the mode of the configuration.
    path: Option<Arc<BoundPath>>,
    /// The policy is not the file's, by this user.
    policy_by: Option<ChangedBy>,
    /// No new processes are taken.
    drained: Option<ChangedBy>,
    reload: Arc<OwnedFd>,
    reloads: Receiver<Reload>,
    checked: Checked,
    pulse: Pulse,
}

impl Control {
    fn run(mut self) {
        loop {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
            let space = rustix::buffer::spare_capacity(&mut events);
            let time = self.end_of_pause().into_iter().chain(self.next_look()).min();
            self.pulse.note_idle();
            if epoll::wait(&self.epoll, space, time.as_ref()).is_err() {
                continue;
            }
            self.pulse.note_busy();
            self.look_at_grants();
            for event in events {
                self.pulse.note_busy();
                match event.data.u64() {
                    LISTENER => self.accept(),
                    STOP => return,
                    RELOAD => self.take_reloads(),
                    CHECK => self.checked.answer(|| self.ask(|answer| Op::Check { answer })),
                    id if id & ENDED != 0 => self.end(id & !ENDED),
                    user => self.serve_user((user & !USER) as u32),
                }
            }
        }
    }

    fn send(&self, op: Op) {
        self.scheduler.send(op);
    }

    /// Answers some messages of a user, whose connections take turns. Users take turns as well.
    fn serve_user(&mut self, person: u32) {
        let start = Instant::now();
        for _ in 0..SERVED_AT_A_TIME {
            // One at a time: those that a turn has no time for stay in front.
            let mut event = Vec::with_capacity(1);
            let Some(user) = self.users.get(&person) else { return };
            let space = rustix::buffer::spare_capacity(&mut event);
            let _ = epoll::wait(&user.epoll, space, Some(&Timespec::default()));
            let Some(event) = event.first() else { return };
            let (id, flags) = (event.data.u64(), event.flags);
            if flags.contains(EventFlags::HUP) {
                // No process would hear an answer.
                self.end(id);
            } else {
                self.serve(id);
            }
            if start.elapsed() > TURN {
                return;
            }
        }
    }

    /// Answers a message of a connection, or ends it.
    pub(crate) fn serve(&mut self, id: u64) {
        let Some(peer) = self.peers.get(&id) else { return };
        let person = peer.person;
        if self.closer.is_behind(person) {
            return self.end(id);
        }
        let mut fds = Vec::new();
        let received = peer.wire.receive_with::<Request>(&mut fds);
        let (in_memory, foreign): (Vec<_>, Vec<_>) =
            fds.into_iter().partition(|fd| SharedPage::is_in_memory(fd));
        let is_foreign = !foreign.is_empty();
        self.closer.close(person, foreign);
        let Some(peer) = self.peers.get(&id) else { return };
        let answered = match received {
            Ok(_) if is_foreign => self.reply(id, Err(PageError::NotSealed.to_string())),
            Ok(request) => {
                let answer = self.answer(id, request, in_memory);
                self.reply(id, answer)
            }
            Err(NodeError::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(NodeError::Closed) => Err(NodeError::Closed),
            Err(error @ NodeError::Descriptors) => self.reply(id, Err(error.to_string())),
            Err(error) => {
                // Not in the log by default, which a process could fill otherwise.
                tracing::debug!(pid = peer.pid, ?error, "a connection is ended");
                let _ = self.reply(id, Err(error.to_string()));
                Err(error)
            }
        };
        if answered.is_err() {
            self.end(id);
        }
    }

    pub(crate) fn end(&mut self, id: u64) {
        if let Some(peer) = self.peers.remove(&id) {
            self.scheduler.counts.note_connections(self.peers.len());
            if let Some(user) = self.users.get(&peer.person) {
                let _ = epoll::delete(&user.epoll, &peer.wire);
            }
            if let Some((gang, user)) = peer.gang.as_ref().zip(self.users.get_mut(&peer.person)) {
                user.leave_gang(gang);
            }
            self.disconnect(peer.person, &peer.pages);
            let _ = peer.process.as_ref().map(|process| epoll::delete(&self.epoll, process));
            if peer.is_recorder {
                self.send(Op::EndRecord(id));
            }
            if peer.is_known {
                self.send(Op::Leave(id));
            }
            self.close(peer.person, peer.wire);
        }
    }

    /// Ends a connection of a user. The process learns of it at once.
    fn close(&mut self, person: u32, wire: Wire) {
        wire.end();
        self.closer.close(person, [wire.into()]);
    }

    fn reply(
        &self,
        id: u64,
        answer: Result<(Answer, Option<OwnedFd>), String>,
    ) -> Result<(), NodeError> {
        let peer = self.peers.get(&id).ok_or(NodeError::Closed)?;
        let (answer, fd) = answer.unwrap_or_else(|why| (Answer::Refused { why }, None));
        peer.wire.send(&answer, fd.as_ref().map(AsFd::as_fd))
    }

    fn answer(
        &mut self,
        id: u64,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        let peer = self.peers.get(&id).ok_or("not connected")?;
        let (is_known, asker) = (peer.is_known, self.asker(&peer.party));
        let by = ChangedBy::now(asker.party.who.uid);
        match request {
            Request::Hello { version, name, priority, share, gang } => {
                if is_known {
                    return Err("the process has said already what it is".to_owned());
                }
                check_version(version)?;
                self.greet(id, (name, gang), priority, share)
            }
            Request::Attach { device, side_by_side } => {
                if !is_known {
                    return Err("say hello first".to_owned());
                }
                let page = fds.into_iter().next().ok_or("the page is missing")?;
                self.attach(id, Gpu { name: device, is_concurrent: side_by_side }, page)
            }
            Request::PageBelow { device, at } => {
                let at = at as usize;
                let below = self.ask(|answer| Op::PageBelow { client: id, device, at, answer })?;
                Ok(below.map_or((Answer::Done, None), |(generation, page)| {
                    (Answer::PageBelow { generation }, Some(page))
                }))
            }
            Request::Hints { priority, share } => {
                let priority = checked_priority(priority)?;
                check_share(share)?;
                if !is_known {
                    return Err("say hello first".to_owned());
                }
                let hints = hints(priority, share);
                // Answered, so that no process sends more of them than are taken.
                let granted = self.ask(|answer| Op::Hints { client: id, hints, answer })?;
                Ok((lowered(&asker.party, hints, granted).unwrap_or(Answer::Done), None))
            }
            Request::Status => self.status(asker, None).map(told),
            Request::StatusFrom(place) => self.status(asker, Some(place)).map(told),
            Request::Policy { name } => self.set_policy(&asker, &name).map(done),
            Request::Reload => self.reload_for(&asker).map(done),
            Request::Drain { undo } => self.drain(&asker, undo).map(done),
            Request::Set { pid, priority, share, active } => {
                let priority = priority.map(checked_priority).transpose()?;
                check_share(share)?;
                let change = Change { priority, share, active, by, ..Change::default() };
                self.set(pid, asker, change)
            }
            Request::Reset { pid } => {
                self.set(pid, asker, Change { is_reset: true, by, ..Change::default() })
            }
            Request::Hold { pid } => self.set(pid, asker, Change::of_hold(true, by)),
            Request::Release { pid } => self.set(pid, asker, Change::of_hold(false, by)),
            Request::Grant(grant) => self.grant(&asker, grant).map(done),
            Request::Revoke { name } => self.revoke(&asker, &name).map(done),
            Request::Record { bytes_max } => self.record(id, &asker, bytes_max),
            Request::EndRecord => {
                self.send(Op::EndRecord(id));
                Ok(done(()))
            }
        }
    }

    fn greet(
        &mut self,
        id: u64,
        (name, gang): (String, Option<String>),
        priority: i32,
        share: Option<u8>,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        let priority = checked_priority(priority)?;
        check_share(share)?;
        check_gang(gang.as_deref())?;
        self.check_room(id)?;
        let failed = |error: Errno| format!("no eventfd: {error}");
        let doorbell = new_eventfd().map_err(failed)?;
        let for_client = rustix::io::dup(&doorbell).map_err(failed)?;
        let peer = self.peers.get_mut(&id).ok_or("not connected")?;
        let gang = gang.or_else(|| peer.party.tenant.gang.clone());
        let user = self.users.get_mut(&peer.person).ok_or("not connected")?;
        gang.iter().try_for_each(|gang| user.join_gang(gang))?;
        (peer.is_known, peer.gang) = (true, gang.clone());
        let name = cleaned(&name);
        let hints = hints(priority, share);
        let granted = peer.party.tenant.granted(hints);
        let answer = lowered(&peer.party, hints, granted);
        let answer = answer.unwrap_or(Answer::Welcome { version: VERSION });
        let mut client = Client::new(peer.pid, peer.party.clone(), name, hints, doorbell);
        client.gang = gang;
        self.send(Op::Join(id, client));
        Ok((answer, Some(for_client)))
    }

    fn attach(
        &mut self,
        id: u64,
        gpu: Gpu,
        page: OwnedFd,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        if !is_name_of_device(&gpu.name) {
            let why = "a GPU has a name of 1 to 128 letters, digits and signs, without spaces";
            return Err(why.to_owned());
        }
        let peer = self.peers.get(&id).ok_or("not connected")?;
        let user = self.users.get(&peer.person).ok_or("not connected")?;
        user.may_attach(self.pages, &peer.pages, &gpu.name)?;
        let page = SharedPage::from_file(page.into()).map_err(|error| error.to_string())?;
        let name = gpu.name.clone();
        self.ask(|answer| Op::Page { client: id, gpu, page, answer })??;
        let peer = self.peers.get_mut(&id).ok_or("not connected")?;
        let user = self.users.get_mut(&peer.person).ok_or("not connected")?;
        user.attach(&mut peer.pages, name);
        self.pages += 1;
        Ok((Answer::Done, None))
    }

    fn set(
        &self,
        pid: i32,
        asker: Asker,
        change: Change,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        match self.ask(|answer| Op::Set { pid, asker, change, answer })?? {
            0 => Err(format!("no process {pid} is connected, or it is another user's")),
            _ => Ok((Answer::Done, None)),
        }
    }

    /// Asks the scheduler's thread.
    fn ask<T>(&self, op: impl FnOnce(Sender<T>) -> Op) -> Result<T, String> {
        self.scheduler.ask(op).ok_or_else(|| "the scheduler does not answer".to_owned())
    }
}

fn told(status: Status) -> (Answer, Option<OwnedFd>) {
    (Answer::Status(status), None)
}

fn done((): ()) -> (Answer, Option<OwnedFd>) {
    (Answer::Done, None)
}

/// The answer to a process that asks for more than its tenant may have: what it has.
fn lowered(party: &Party, asked: Hints, has: Hints) -> Option<Answer> {
    let granted = party.tenant.granted(asked);
    let has_asked = asked.priority != Priority::DEFAULT;
    let is_lower =
        has_asked && granted.priority < asked.priority || granted.utilization < asked.utilization;
    is_lower.then(|| Answer::Lowered {
        tenant: party.tenant.name.clone(),
        priority: has.priority.get().into(),
        share: has.utilization,
    })
}

fn check_version(version: u32) -> Result<(), String> {
    if version == VERSION {
        return Ok(());
    }
    Err(format!("the daemon has version {VERSION} of the messages, the process {version}"))
}

fn checked_priority(priority: i32) -> Result<Priority, String> {
    Priority::new(priority).map_err(|error| error.to_string())
}

fn check_gang(gang: Option<&str>) -> Result<(), String> {
    if gang.is_none_or(is_name_of_gang) {
        return Ok(());
    }
    Err("a gang has a name of 1 to 64 characters, without control characters".to_owned())
}

fn check_share(share: Option<u8>) -> Result<(), String> {
    match share {
        Some(101..) => Err("a share is 0 to 100 percent".to_owned()),
        _ => Ok(()),
    }
}
