//! The thread that accepts connections and answers messages.

mod manage;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use xsched_core::hint::{Hints, Priority};
use xsched_hal_stream::SharedPage;
use xsched_node::{Answer, NodeError, Request, Status, VERSION, Wire};
use xsched_policies::Any;

use crate::config::{Config, Source};
use crate::desk::Desk;
use crate::metrics::{Metrics, MetricsError};
use crate::scheduler::{By, Change, Client, Driver, Op, hints, new_eventfd};
use crate::tenant::{Asker, Party, tenant_of};
use crate::watch::{Drivers, Watch, Watched};
use crate::who::{process_of, who};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// For how long another daemon at the socket is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const RELOAD: u64 = 2;

/// How the daemon is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub socket: PathBuf,
    /// The policy at first.
    pub policy: Any,
    /// All users may connect, and not its own alone.
    pub is_open: bool,
}

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The socket cannot be had.
    #[error("cannot listen at {}: {source}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a daemon at this socket.
    #[error("another daemon listens at {}; stop it, or choose another socket", .0.display())]
    Running(PathBuf),
    /// Scrapes for metrics cannot be answered.
    #[error("metrics: {0}")]
    Metrics(#[from] MetricsError),
    /// The system refuses a thread or a file descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for DaemonError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.into())
    }
}

/// A daemon that runs. Dropped, it ends: all gates open, and the socket goes.
#[derive(Debug)]
pub struct Daemon {
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    path: PathBuf,
    reload: Arc<OwnedFd>,
    reloads: Sender<Reload>,
}

/// Where to answer that the configuration was read again, or why not.
type Reload = Sender<Result<(), String>>;

impl Daemon {
    /// Starts both threads.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start(settings: &Settings) -> Result<Self, DaemonError> {
        Self::start_with_config(settings, Config::default(), Source::default())
    }

    /// Starts both threads with a configuration, and where it can be read again. The socket's path
    /// and the policy are those of the settings. No driver is asked what runs past the daemon.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start_with_config(
        settings: &Settings,
        config: Config,
        source: Source,
    ) -> Result<Self, DaemonError> {
        Self::start_watching(settings, config, source, None)
    }

    /// As [`Daemon::start_with_config`], and asks drivers what runs past the daemon, if the
    /// configuration has it do so.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start_watching(
        settings: &Settings,
        config: Config,
        source: Source,
        drivers: Option<fn() -> Drivers>,
    ) -> Result<Self, DaemonError> {
        let path = settings.socket.clone();
        let listener = open_socket(&path, settings.is_open, &config)?;
        let (ops, taken) = channel();
        let driver = Driver::new(settings.policy.clone(), taken)?;
        let waker = driver.waker();
        let stop = Arc::new(new_eventfd()?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &*stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let reload = Arc::new(new_eventfd()?);
        epoll::add(&epoll, &*reload, EventData::new_u64(RELOAD), EventFlags::IN)?;
        let (reloads, asked) = channel();
        let mut control = Control {
            listener,
            epoll,
            peers: HashMap::new(),
            next: RELOAD + 1,
            desk: Desk::new(ops, waker),
            watched: Watched::default(),
            metrics: None,
            watch: None,
            drivers,
            config,
            source,
            socket: path.clone(),
            mode: mode_of(settings.is_open),
            policy_by: None,
            drained: None,
            reload: Arc::clone(&reload),
            reloads: asked,
        };
        control.begin_to_tell()?;
        let driver = thread::Builder::new().name("scheduler".to_owned()).spawn(|| driver.run())?;
        let control = thread::Builder::new().name("control".to_owned()).spawn(|| control.run())?;
        Ok(Self { stop, threads: vec![control, driver], path, reload, reloads })
    }

    /// Reads the configuration again, whole or not at all.
    ///
    /// # Errors
    /// What is wrong with the file, with the line. What counted before counts on.
    pub fn reload(&self) -> Result<(), String> {
        let (answer, answered) = channel();
        let ended = |_| "the daemon has ended".to_owned();
        self.reloads.send(answer).map_err(|error| ended(error.to_string()))?;
        let _ = rustix::io::write(&self.reload, &1_u64.to_ne_bytes());
        answered.recv().map_err(|error| ended(error.to_string()))?
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Now, or it could be that of a daemon which has started meanwhile.
        let _ = fs::remove_file(&self.path);
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the daemon panicked");
            }
        }
    }
}

fn open_socket(path: &Path, is_open: bool, config: &Config) -> Result<OwnedFd, DaemonError> {
    let failed = |source: io::Error| DaemonError::Listen { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        let mode = if is_open { 0o755 } else { 0o700 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(folder).map_err(failed)?;
    }
    if Wire::connect(path, PATIENCE).is_ok() {
        return Err(DaemonError::Running(path.to_owned()));
    }
    // That of a daemon that was killed.
    let _ = fs::remove_file(path);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = || -> rustix::io::Result<OwnedFd> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // No process can connect before the socket has its mode and its group.
        Ok(socket)
    };
    let socket = made().map_err(|errno| failed(errno.into()))?;
    set_access(path, mode_of(is_open), config).map_err(failed)?;
    listen(&socket, BACKLOG).map_err(|errno| failed(errno.into()))?;
    Ok(socket)
}

/// The socket's mode where the configuration has none.
const fn mode_of(is_open: bool) -> u32 {
    if is_open { 0o666 } else { 0o600 }
}

/// Gives the socket the mode and the group of the configuration, or this mode.
fn set_access(path: &Path, mode: u32, config: &Config) -> io::Result<()> {
    if let Some(gid) = config.socket.gid {
        std::os::unix::fs::chown(path, None, Some(gid))?;
    }
    let mode = config.socket.mode.unwrap_or(mode);
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// A connection.
#[derive(Debug)]
struct Peer {
    wire: Wire,
    pid: i32,
    party: Party,
    /// Readable once the process has ended, though a child of it may have the connection; `None`
    /// where the daemon cannot see the process.
    process: Option<OwnedFd>,
    /// It has said what it is.
    is_known: bool,
    /// It has begun a record.
    is_recorder: bool,
}

/// Set in the number of an event that a process has ended.
const ENDED: u64 = 1 << 63;

struct Control {
    listener: OwnedFd,
    epoll: OwnedFd,
    peers: HashMap<u64, Peer>,
    next: u64,
    desk: Desk,
    watched: Watched,
    metrics: Option<Metrics>,
    watch: Option<Watch>,
    /// The drivers that are asked what runs past the daemon, if any may be.
    drivers: Option<fn() -> Drivers>,
    config: Config,
    source: Source,
    /// Where the socket is.
    socket: PathBuf,
    /// Its mode where the configuration has none.
    mode: u32,
    /// The policy is not the file's, by this user.
    policy_by: Option<By>,
    /// No new processes are taken.
    drained: Option<By>,
    reload: Arc<OwnedFd>,
    reloads: Receiver<Reload>,
}

impl Control {
    fn run(mut self) {
        loop {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
            let space = rustix::buffer::spare_capacity(&mut events);
            if epoll::wait(&self.epoll, space, None).is_err() {
                continue;
            }
            for event in events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    STOP => {
                        self.send(Op::End);
                        return;
                    }
                    RELOAD => self.take_reloads(),
                    id if id & ENDED != 0 => self.end(id & !ENDED),
                    id => self.serve(id),
                }
            }
        }
    }

    fn send(&self, op: Op) {
        self.desk.send(op);
    }

    fn accept(&mut self) {
        let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        else {
            return;
        };
        // A process that this one cannot see has the number 0.
        let Ok(credentials) = getsockopt(&socket, sockopt::PeerCredentials) else { return };
        let (pid, uid) = (credentials.pid(), credentials.uid());
        let of_user = self.peers.values().filter(|peer| peer.party.who.uid == uid).count();
        let process = process_of(socket.as_fd(), pid);
        let who = who(pid, uid, credentials.gid(), process.as_ref());
        let wire = Wire::new(socket);
        let limits = self.config.limits;
        if self.peers.len() >= limits.clients as usize || of_user >= limits.clients_of_user as usize
        {
            let why = "too many processes are connected".to_owned();
            let _ = wire.send(&Answer::Refused { why }, None);
            self.desk.counts.note_refused();
            return;
        }
        let id = self.next;
        let data = EventData::new_u64(id);
        if epoll::add(&self.epoll, &wire, data, EventFlags::IN | EventFlags::RDHUP).is_ok() {
            let process = process.and_then(|process| self.watch_process(id, process));
            let tenant = tenant_of(&self.config.tenants, &who);
            let party = Party { who: Arc::new(who), tenant };
            self.peers.insert(
                id,
                Peer { wire, pid, party, process, is_known: false, is_recorder: false },
            );
            self.next += 1;
            self.desk.counts.note_connections(self.peers.len());
        }
    }

    /// Has the end of a process be told.
    fn watch_process(&self, id: u64, process: OwnedFd) -> Option<OwnedFd> {
        let data = EventData::new_u64(id | ENDED);
        epoll::add(&self.epoll, &process, data, EventFlags::IN).ok().map(|()| process)
    }

    /// Answers a message of a connection, or ends it.
    fn serve(&mut self, id: u64) {
        let Some(peer) = self.peers.get(&id) else { return };
        let answered = match peer.wire.receive::<Request>() {
            Ok((request, fds)) => {
                let answer = self.answer(id, request, fds);
                self.reply(id, answer)
            }
            Err(NodeError::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(NodeError::Closed) => Err(NodeError::Closed),
            Err(error) => {
                tracing::info!(%error, "a connection is ended");
                let _ = self.reply(id, Err(error.to_string()));
                Err(error)
            }
        };
        if answered.is_err() {
            self.end(id);
        }
    }

    fn end(&mut self, id: u64) {
        if let Some(peer) = self.peers.remove(&id) {
            self.desk.counts.note_connections(self.peers.len());
            let _ = epoll::delete(&self.epoll, &peer.wire);
            let _ = peer.process.as_ref().map(|process| epoll::delete(&self.epoll, process));
            if peer.is_recorder {
                self.send(Op::EndRecord(id));
            }
            if peer.is_known {
                self.send(Op::Leave(id));
            }
        }
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
        let by = By::now(asker.party.who.uid);
        match request {
            Request::Hello { version, name, priority, share } => {
                if is_known {
                    return Err("the process has said already what it is".to_owned());
                }
                check_version(version)?;
                self.greet(id, name, priority, share)
            }
            Request::Attach { device } => {
                if !is_known {
                    return Err("say hello first".to_owned());
                }
                let page = fds.into_iter().next().ok_or("the page is missing")?;
                self.attach(id, device, page)
            }
            Request::Hints { priority, share } => {
                let priority = checked_priority(priority)?;
                check_share(share)?;
                let hints = hints(priority, share);
                self.send(Op::Hints { client: id, hints });
                Ok((lowered(&asker.party, hints).unwrap_or(Answer::Done), None))
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
        name: String,
        priority: i32,
        share: Option<u8>,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        let priority = checked_priority(priority)?;
        check_share(share)?;
        self.check_room(id)?;
        let failed = |error: rustix::io::Errno| format!("no eventfd: {error}");
        let doorbell = new_eventfd().map_err(failed)?;
        let for_client = rustix::io::dup(&doorbell).map_err(failed)?;
        let peer = self.peers.get_mut(&id).ok_or("not connected")?;
        peer.is_known = true;
        let name = name.chars().filter(|c| !c.is_control()).take(64).collect();
        let hints = hints(priority, share);
        let answer = lowered(&peer.party, hints).unwrap_or(Answer::Welcome { version: VERSION });
        let client = Client::new(peer.pid, peer.party.clone(), name, hints, doorbell);
        self.send(Op::Join(id, client));
        Ok((answer, Some(for_client)))
    }

    fn attach(
        &self,
        id: u64,
        device: String,
        page: OwnedFd,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        let page = SharedPage::from_file(page.into()).map_err(|error| error.to_string())?;
        self.ask(|answer| Op::Page { client: id, device, page, answer })??;
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
        self.desk.ask(op).ok_or_else(|| "the scheduler does not answer".to_owned())
    }
}

fn told(status: Status) -> (Answer, Option<OwnedFd>) {
    (Answer::Status(status), None)
}

fn done((): ()) -> (Answer, Option<OwnedFd>) {
    (Answer::Done, None)
}

/// What to answer a process that asks for more than its tenant may have.
fn lowered(party: &Party, asked: Hints) -> Option<Answer> {
    let granted = party.tenant.granted(asked);
    let has_asked = asked.priority != Priority::DEFAULT;
    let is_lower =
        has_asked && granted.priority < asked.priority || granted.utilization < asked.utilization;
    is_lower.then(|| Answer::Lowered {
        tenant: party.tenant.name.clone(),
        priority: granted.priority.get().into(),
        share: granted.utilization,
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

fn check_share(share: Option<u8>) -> Result<(), String> {
    match share {
        Some(101..) => Err("a share is 0 to 100 percent".to_owned()),
        _ => Ok(()),
    }
}
