//! A daemon, and processes that connect to it.
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use xsched_daemon::config::{Config, Source};
use xsched_daemon::{Daemon, Settings};
use xsched_node::{
    Answer, Link, NodeError, PageSource, Request, SharedPage, Status, Unit, VERSION, Wire,
};
use xsched_policies::Any;

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Writes into a page from this byte on, as a process does that keeps to no layout.
pub(crate) fn write(page: &SharedPage, offset: u64, bytes: &[u8]) {
    assert_eq!(rustix::io::pwrite(page, bytes, offset), Ok(bytes.len()));
}

#[derive(Debug)]
pub(crate) struct Node {
    pub daemon: Option<Daemon>,
    pub socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::of("hpf", false)
    }

    /// A daemon with this policy, for its own user or for all.
    pub(crate) fn of(policy: &str, is_open: bool) -> Self {
        let folder = folder(if is_open { 0o755 } else { 0o700 });
        let socket = folder.path().join("below/socket");
        let policy = policy.parse::<Any>().expect("a policy");
        let settings = Settings { policy, is_open, ..settings(&socket) };
        let daemon = Some(Daemon::start(&settings).expect("a daemon"));
        Self { daemon, socket, _folder: folder }
    }

    /// A daemon for those whom this configuration lets in.
    pub(crate) fn configured(config: Config) -> Self {
        let folder = folder(0o755);
        let socket = folder.path().join("socket");
        let daemon = Daemon::start_with_config(&settings(&socket), config, Source::default());
        Self { daemon: Some(daemon.expect("a daemon")), socket, _folder: folder }
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(&self.socket, PATIENCE).expect("a connection")
    }

    /// A connection that has said what it is.
    pub(crate) fn greeted(&self) -> Wire {
        let wire = self.connect();
        let (answer, doorbell) = wire.ask(&hello(VERSION), None).expect("a welcome");
        assert_eq!(answer, Answer::Welcome { version: VERSION });
        assert!(doorbell.is_some());
        wire
    }

    /// The daemon still works, and what it says. A user of which very many connections have just
    /// ended gets no service until they are closed.
    pub(crate) fn status(&self) -> Status {
        let start = Instant::now();
        loop {
            match self.connect().status() {
                Ok(status) => return status,
                Err(error) => assert!(start.elapsed() < PATIENCE, "a status: {error}"),
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn until(&self, what: &str, done: impl Fn(&Status) -> bool) {
        let start = Instant::now();
        while !done(&self.status()) {
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", self.status());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn folder(mode: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(folder.path(), mode).expect("a mode");
    folder
}

pub(crate) fn settings(socket: &Path) -> Settings {
    let policy = "hpf".parse::<Any>().expect("a policy");
    Settings { socket: socket.to_owned(), policy, is_open: false }
}

pub(crate) fn hello(version: u32) -> Request {
    Request::Hello {
        version,
        name: "hostile\u{1b}[2J".to_owned(),
        priority: 0,
        share: None,
        gang: None,
    }
}

pub(crate) fn attach(device: &str) -> Request {
    Request::Attach { device: device.to_owned(), side_by_side: false }
}

pub(crate) fn refusal(answer: Result<(Answer, Option<OwnedFd>), NodeError>) -> String {
    match answer {
        Err(NodeError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// A socket that sends bytes as they are.
pub(crate) fn raw(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.expect("a socket");
    let to = SocketAddrUnix::new(path).expect("a path");
    rustix::net::connect(&socket, &to).expect("a connection");
    socket
}

/// An honest process with work, the most urgent one of its GPU, whose gates stay open.
#[derive(Debug)]
pub(crate) struct Honest {
    device: &'static str,
    link: Arc<Link>,
    unit: Arc<Unit>,
    page: Arc<SharedPage>,
}

impl Honest {
    pub(crate) fn new(socket: &Path) -> Self {
        Self::on("gpu", socket)
    }

    pub(crate) fn on(device: &'static str, socket: &Path) -> Self {
        let link = Link::open(socket.to_owned(), "honest", 200, None).expect("a link");
        let unit = link.unit(device.to_owned());
        let page = unit.page().expect("a page");
        unit.note(true);
        Self { device, link, unit, page }
    }

    /// Checks that the process is scheduled: a less urgent one is held while it has work, and only
    /// then.
    pub(crate) fn is_scheduled(&self, socket: &Path) {
        let batch = Link::open(socket.to_owned(), "batch", -200, None).expect("a link");
        let unit = batch.unit(self.device.to_owned());
        let page = unit.page().expect("a page");
        unit.note(true);
        let is_closed = || page.is_closed(0);
        wait("the honest process is not preferred", is_closed);
        assert!(!self.page.is_closed(0), "the honest process is held");
        self.unit.note(false);
        wait("a hold does not end", || !is_closed());
        self.unit.note(true);
        self.link.set_hints(200, Some(10));
        self.link.set_hints(200, None);
    }
}

/// Starts a daemon as a process that may open `files` files.
pub(crate) fn daemon_process(socket: &Path, files: u32) -> Killed {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n $2; exec \"$0\" --socket \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_xschedd")).arg(socket).arg(files.to_string());
    let daemon = Killed(command.stderr(Stdio::null()).spawn().expect("a daemon"));
    wait("it does not listen", || Wire::connect(socket, PATIENCE).is_ok());
    daemon
}

/// Tells threads that go on until then that it is over, also where a test fails.
#[derive(Debug)]
pub(crate) struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn wait(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Names of variables for a child's role, the daemon and the process that the child is about.
const ROLE: &str = "XSCHED_TEST_ROLE";
const SOCKET: &str = "XSCHED_TEST_SOCKET";
const OTHER: &str = "XSCHED_TEST_OTHER";

/// Runs the test `as_a_child` of this program, which does something else with a role.
pub(crate) fn child(role: &str, socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "as_a_child", "--nocapture"]);
    command.env(ROLE, role).env(SOCKET, socket).env(OTHER, std::process::id().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Role of this process and the daemon that it is about, if it is a child.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var_os(SOCKET).expect("a socket").into()))
}

/// The process that a child is about.
pub(crate) fn other() -> i32 {
    std::env::var(OTHER).expect("a process").parse().expect("a number")
}

/// Child as by [`child`], about another process than this one.
pub(crate) fn child_about(role: &str, socket: &Path, pid: u32) -> Command {
    let mut command = child(role, socket);
    command.env(OTHER, pid.to_string());
    command
}

/// A process that does not outlive its test.
#[derive(Debug)]
pub(crate) struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn started(mut command: Command) -> Killed {
    let mut child = Killed(command.spawn().expect("a process"));
    let mut lines = BufReader::new(child.0.stdout.as_mut().expect("its output")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "ready")), "it does not start");
    child
}

/// A TCP socket whose close waits for a minute, as the other end reads nothing.
pub(crate) fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut socket =
        TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let (other, _) = listener.accept().expect("its other end");
    socket.set_nonblocking(true).expect("a flag");
    while socket.write(&[0; 65_536]).is_ok() {}
    socket.set_nonblocking(false).expect("a flag");
    set_socket_linger(&socket, Some(Duration::from_secs(60))).expect("an option");
    (socket.into(), other)
}

/// Time of an answer at most on a machine that is not busy.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(100);

/// The shortest of some times, up to the first that is short enough: one that is stuck is stuck
/// each time.
pub(crate) fn soonest(time: impl Fn() -> Duration) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        shortest = shortest.min(time());
        if shortest < AT_ONCE {
            break;
        }
    }
    shortest
}

/// The daemon answers, and how long that takes.
pub(crate) fn answers_at_once(socket: &Path) -> Duration {
    let shortest = soonest(|| {
        let begin = Instant::now();
        Wire::connect(socket, PATIENCE).and_then(|wire| wire.status()).expect("a status");
        begin.elapsed()
    });
    assert!(shortest < AT_ONCE, "{shortest:?}");
    shortest
}

pub(crate) fn ends_soon(daemon: &mut Killed) {
    let pid = Pid::from_child(&daemon.0);
    kill_process(pid, Signal::TERM).expect("it is there");
    let begin = Instant::now();
    while daemon.0.try_wait().expect("a child").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(3), "it does not end");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A process with work on this GPU, in this gang.
pub(crate) fn join(socket: &Path, gpu: &str, gang: Option<String>) -> (Wire, OwnedFd, SharedPage) {
    let wire = Wire::connect(socket, PATIENCE).expect("a connection");
    let name = "crowd".to_owned();
    let hello = Request::Hello { version: VERSION, name, priority: 0, share: None, gang };
    let doorbell = wire.ask(&hello, None).expect("a welcome").1.expect("an eventfd");
    let page = SharedPage::create().expect("a page");
    page.header().loaded_queues.store(1, Ordering::SeqCst);
    wire.ask(&attach(gpu), Some(page.as_fd())).expect("attached");
    rustix::io::write(&doorbell, &1_u64.to_ne_bytes()).expect("rung");
    (wire, doorbell, page)
}

/// Processor time of all threads of a process so far.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let of = |task: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of).sum())
}
