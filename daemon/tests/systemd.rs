//! The daemon as a service of systemd, whose part these tests play.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xsched_node::{Answer, NodeError, Request, Wire};

/// For how long anything that has to come is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Makes standard input the descriptor that systemd would hand over, and becomes the daemon.
const HAND_OVER: &str = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$0" "$@""#;

/// systemd, as the daemon sees it.
struct Manager {
    folder: TempDir,
    told: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let told = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        told.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let manager = Self { folder, told };
        manager.configure("");
        manager
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("xschedd.toml")
    }

    fn configure(&self, text: &str) {
        fs::write(self.config(), text).expect("a file");
    }

    /// The daemon, to be started with its own socket or with one that is handed over.
    fn daemon(&self, handed_over: Option<&OwnedFd>) -> Command {
        let program = env!("CARGO_BIN_EXE_xschedd");
        let mut command = match handed_over {
            None => Command::new(program),
            Some(socket) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", HAND_OVER, program]).env("LISTEN_FDS", "1");
                shell.stdin(socket.try_clone().expect("a descriptor"));
                shell
            }
        };
        command.stderr(Stdio::piped()).env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        for name in ["WATCHDOG_PID", "WATCHDOG_USEC", "XSCHED_SOCKET"] {
            command.env_remove(name);
        }
        command.arg("--config").arg(self.config());
        command
    }

    fn start(&self, handed_over: Option<&OwnedFd>) -> Daemon {
        let mut command = self.daemon(handed_over);
        if handed_over.is_none() {
            command.arg("--socket").arg(self.path());
        }
        Daemon(command.spawn().expect("the daemon"))
    }

    /// The next message, or `None` if there is none in time.
    fn message(&self) -> Option<String> {
        let mut text = [0; 4_096];
        let length = loop {
            match self.told.recv(&mut text) {
                Ok(length) => break length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        };
        Some(String::from_utf8_lossy(&text[..length]).trim_end().to_owned())
    }

    /// The next message that begins like this.
    fn until(&self, start: &str) -> String {
        loop {
            let message = self.message().unwrap_or_else(|| panic!("there is no {start}"));
            if message.starts_with(start) {
                return message;
            }
        }
    }

    /// Returns whether a message that begins like this comes within a time.
    fn comes(&self, start: &str, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut found = false;
        while !found && Instant::now() < end {
            let left = (end - Instant::now()).max(Duration::from_millis(1));
            self.told.set_read_timeout(Some(left)).expect("a timeout");
            found = self.message().is_some_and(|message| message.starts_with(start));
        }
        self.told.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        found
    }
}

/// A daemon that is killed with the test.
struct Daemon(Child);

impl Daemon {
    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a process number")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a process number");
        kill_process(pid, signal).expect("it is there");
    }

    /// How it ended, and what it said.
    fn ended(&mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        let said = self.0.stderr.as_mut().expect("its standard error");
        said.read_to_string(&mut text).expect("text");
        (self.0.wait().expect("it ends"), text)
    }

    /// The number of its thread with this name.
    fn thread(&self, name: &str) -> nix::unistd::Pid {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads");
        let mut threads = threads.map(|entry| entry.expect("a thread"));
        let is_it = |path: PathBuf| fs::read_to_string(path.join("comm")).expect("its name");
        let found = threads.find(|entry| is_it(entry.path()).trim_end() == name);
        let found = found.expect("the thread").file_name();
        nix::unistd::Pid::from_raw(found.to_string_lossy().parse().expect("a number"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A socket as systemd makes it.
fn bound(path: &std::path::Path, kind: SocketType) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
    let socket = socket.expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("bound");
    socket
}

fn listening(path: &std::path::Path) -> OwnedFd {
    let socket = bound(path, SocketType::SEQPACKET);
    listen(&socket, 128).expect("it listens");
    socket
}

fn policy(answer: Result<Answer, NodeError>) -> String {
    match answer {
        Ok(Answer::Status(status)) => status.policy,
        other => panic!("{other:?}"),
    }
}

fn ask(wire: &Wire) -> String {
    policy(wire.ask(&Request::Status, None).map(|(answer, _)| answer))
}

#[test]
fn systemd_is_told_of_each_step() {
    let manager = Manager::new();
    let mut daemon = manager.start(None);
    assert_eq!(manager.message().as_deref(), Some("READY=1"));
    assert_eq!(ask(&Wire::connect(&manager.path(), PATIENCE).expect("it listens")), "hpf");
    assert_eq!(manager.message().as_deref(), Some("STATUS=policy hpf, processes: 0"));
    daemon.signal(Signal::HUP);
    let message = manager.message().expect("a message");
    let time = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a time");
    assert!(time.parse::<u64>().expect("a number") > 0);
    assert_eq!(manager.message().as_deref(), Some("READY=1"));
    daemon.signal(Signal::TERM);
    assert_eq!(manager.message().as_deref(), Some("STOPPING=1"));
    let (status, said) = daemon.ended();
    assert!(status.success(), "{said}");
    assert!(!manager.path().exists());
}

#[test]
fn a_configuration_that_is_wrong_is_told_until_it_is_read() {
    let manager = Manager::new();
    let socket = listening(&manager.path());
    let mode = || fs::metadata(manager.path()).expect("the socket").permissions().mode();
    let before = mode();
    // What counts only for a socket of the daemon's own is no mistake.
    manager.configure("socket = { path = '/nowhere/socket', mode = '0600' }\npolicy.name = 'up'");
    let mut command = manager.daemon(Some(&socket));
    let mut daemon = Daemon(command.env("WATCHDOG_USEC", "300000").spawn().expect("the daemon"));
    assert_eq!(manager.until("STATUS="), "STATUS=policy up, processes: 0");
    let steps = [
        ("policy.name = 'none'", "policy up, processes: 0; configuration not read: "),
        ("policy.name = 'wfq'\nsocket.mode = '0640'", "policy wfq, processes: 0"),
    ];
    for (text, status) in steps {
        manager.configure(text);
        daemon.signal(Signal::HUP);
        manager.until("RELOADING=1");
        manager.until("READY=1");
        let told = manager.until("STATUS=");
        assert!(told.starts_with(&format!("STATUS={status}")), "{told}");
        assert_eq!(told.contains("xschedd.toml:1: "), status.ends_with(": "), "{told}");
    }
    assert_eq!(mode(), before);
    daemon.signal(Signal::TERM);
    let (status, said) = daemon.ended();
    assert!(status.success() && said.contains("SocketMode="), "{said}");
}

#[test]
fn without_systemd_the_daemon_says_nothing() {
    let manager = Manager::new();
    let mut command = manager.daemon(None);
    let child = command.env_remove("NOTIFY_SOCKET").env("WATCHDOG_USEC", "1000").arg("--socket");
    let mut daemon = Daemon(child.arg(manager.path()).spawn().expect("the daemon"));
    let start = Instant::now();
    while Wire::connect(&manager.path(), PATIENCE).is_err() {
        assert!(start.elapsed() < PATIENCE, "it does not listen");
        thread::sleep(Duration::from_millis(2));
    }
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().0.success());
    manager.told.set_nonblocking(true).expect("set");
    assert_eq!(manager.message(), None);
}

/// Both threads have to answer before systemd is told that the daemon is alive.
#[test]
fn a_daemon_with_a_thread_that_stands_still_is_not_alive() {
    let manager = Manager::new();
    let mut command = manager.daemon(None);
    let child = command.env("WATCHDOG_USEC", "300000").arg("--socket").arg(manager.path());
    let daemon = Daemon(child.spawn().expect("the daemon"));
    for name in ["scheduler", "control"] {
        manager.until("WATCHDOG=1");
        manager.until("WATCHDOG=1");
        let thread = daemon.thread(name);
        ptrace::seize(thread, ptrace::Options::empty()).expect("traced");
        ptrace::interrupt(thread).expect("stopped");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it has stopped");
        // What it had answered before.
        manager.comes("WATCHDOG=1", Duration::from_millis(200));
        assert!(!manager.comes("WATCHDOG=1", Duration::from_secs(1)), "{name}");
        ptrace::detach(thread, None).expect("it runs on");
    }
    manager.until("WATCHDOG=1");
}

#[test]
fn a_socket_that_is_handed_over_is_served_and_stays() {
    let manager = Manager::new();
    let socket = listening(&manager.path());
    // Before there is a daemon.
    let early = Wire::connect(&manager.path(), PATIENCE).expect("it listens");
    early.send(&Request::Status, None).expect("sent");
    let mut daemon = manager.start(Some(&socket));
    manager.until("READY=1");
    assert_eq!(policy(early.receive().map(|(answer, _)| answer)), "hpf");
    assert_eq!(ask(&Wire::connect(&manager.path(), PATIENCE).expect("a connection")), "hpf");
    daemon.signal(Signal::TERM);
    let (status, said) = daemon.ended();
    assert!(status.success(), "{said}");
    assert!(said.contains(&format!("{}", manager.path().display())), "{said}");
    assert!(manager.path().exists());
}

#[test]
fn metrics_move_with_the_configuration_beside_a_socket_that_stays() {
    let manager = Manager::new();
    let socket = listening(&manager.path());
    let place = |name: &str| manager.folder.path().join(name);
    let listen = |name: &str| {
        manager.configure(&format!("metrics.listen = 'unix:{}'", place(name).display()));
    };
    let scrape = |name: &str| {
        let mut stream = UnixStream::connect(place(name)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        Some(text)
    };
    listen("first");
    let mut command = manager.daemon(Some(&socket));
    let daemon = Daemon(command.env("WATCHDOG_USEC", "300000").spawn().expect("the daemon"));
    manager.until("READY=1");
    assert!(scrape("first").is_some_and(|text| text.contains("\n# EOF")));
    listen("second");
    daemon.signal(Signal::HUP);
    manager.until("RELOADING=1");
    manager.until("READY=1");
    assert!(scrape("second").is_some_and(|text| text.contains("\n# EOF")));
    assert_eq!(scrape("first"), None);
    assert_eq!(ask(&Wire::connect(&manager.path(), PATIENCE).expect("a connection")), "hpf");
    manager.until("WATCHDOG=1");
}

#[test]
fn what_is_handed_over_for_another_process_is_left_alone() {
    let manager = Manager::new();
    let socket = listening(&manager.folder.path().join("other"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_xschedd"));
    command.stdin(socket).env("LISTEN_FDS", "1").env("LISTEN_PID", "1").stderr(Stdio::piped());
    command.arg("--config").arg(manager.config());
    command.env("NOTIFY_SOCKET", manager.folder.path().join("notify"));
    let _daemon = Daemon(command.arg("--socket").arg(manager.path()).spawn().expect("the daemon"));
    manager.until("READY=1");
    assert_eq!(ask(&Wire::connect(&manager.path(), PATIENCE).expect("a connection")), "hpf");
}

#[test]
fn what_is_no_socket_for_it_is_refused() {
    let manager = Manager::new();
    let place = |name: &str| manager.folder.path().join(name);
    let stream = UnixListener::bind(place("stream")).expect("a socket");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let (file, _) = tempfile::NamedTempFile::new().expect("a file").into_parts();
    let silent = bound(&place("silent"), SocketType::SEQPACKET);
    let wrong: [(OwnedFd, &str); 4] = [
        (stream.into(), "not a valid Unix socket for sequenced packets"),
        (tcp.into(), "not a valid Unix socket for sequenced packets"),
        (file.into(), "not a socket"),
        (silent, "it does not listen"),
    ];
    for (socket, why) in &wrong {
        let (status, said) = manager.start(Some(socket)).ended();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(why) && said.contains("ListenSequentialPacket="), "{said}");
    }
    let socket = listening(&place("socket"));
    for number in ["2", "0", "", "many", "99999999999999999999"] {
        let mut command = manager.daemon(Some(&socket));
        let child = command.env("LISTEN_FDS", number).spawn().expect("the daemon");
        let (status, said) = Daemon(child).ended();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("`{number}` sockets")), "{said}");
    }
}

#[test]
fn a_restart_loses_no_connection() {
    let manager = Manager::new();
    let socket = listening(&manager.path());
    let mut first = manager.start(Some(&socket));
    manager.until("READY=1");
    let path = manager.path();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = std::sync::mpsc::channel();
    let connecting = thread::spawn(move || {
        while stopped.try_recv().is_err() {
            Wire::connect(&path, PATIENCE).expect("a connection that is not refused");
            begun.send(()).expect("the test goes on");
            thread::sleep(Duration::from_millis(1));
        }
    });
    begins.recv_timeout(PATIENCE).expect("it connects");
    first.signal(Signal::TERM);
    manager.until("STOPPING=1");
    let (status, said) = first.ended();
    assert!(status.success(), "{said}");
    // Nothing accepts it, and it is not lost.
    let between = Wire::connect(&manager.path(), PATIENCE).expect("a connection");
    between.send(&Request::Status, None).expect("sent");
    let _second = manager.start(Some(&socket));
    manager.until("READY=1");
    assert_eq!(policy(between.receive().map(|(answer, _)| answer)), "hpf");
    stop.send(()).expect("it connects");
    connecting.join().expect("no refusal");
}
