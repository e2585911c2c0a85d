//! Starts, stops and reloads of a daemon under faults of its surroundings, and descriptors whose
//! close waits.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{MemfdFlags, Mode, inotify, memfd_create, mkfifoat};
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open};
use xsched_daemon::config::{Config, Source};
use xsched_daemon::log::Log;
use xsched_daemon::metrics::Place;
use xsched_daemon::{Daemon, DaemonError};
use xsched_node::{Link, PageSource, Request, Wire};

mod node;
use node::{
    Honest, Killed, Node, PATIENCE, answers_at_once, attach, child, daemon_process, ends_soon,
    hello, lingering, role, settings, started, wait,
};

const LIMITED: &str = "[[tenant]]\nname = \"all\"\npriority_max = -100\n";

/// Owner that keeps a descriptor as it is.
type Kept = Box<dyn Any>;

fn keep(what: impl Any) -> Kept {
    Box::new(what)
}

/// Descriptors of all kinds that a process can have anywhere.
fn descriptors() -> Vec<(&'static str, OwnedFd, Kept)> {
    let none = || keep(());
    let opened = |path: &str| OwnedFd::from(File::open(path).expect("a file"));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let (other_reader, other_writer) = std::io::pipe().expect("a pipe");
    let (one, two) = UnixStream::pair().expect("two sockets");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let memory = |flags| memfd_create("page", flags).expect("a memory file");
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("this process");
    let (socket, end) = lingering();
    vec![
        ("a socket whose close waits", socket, keep(end)),
        ("a file", tempfile::tempfile().expect("a file").into(), none()),
        ("a folder", opened("/"), none()),
        ("a device", opened("/dev/zero"), none()),
        ("a device that is full", opened("/dev/full"), none()),
        ("a terminal", opened("/dev/ptmx"), none()),
        ("the memory of a process", opened("/proc/self/mem"), none()),
        ("a file of the kernel", opened("/proc/self/status"), none()),
        ("the end of a pipe to read", reader.into(), keep(writer)),
        ("the end of a pipe to write", other_writer.into(), keep(other_reader)),
        ("a socket of a pair", one.into(), keep(two)),
        ("a socket for datagrams", datagrams.into(), none()),
        ("an eventfd", eventfd(0, EventfdFlags::empty()).expect("an eventfd"), none()),
        ("an epoll", epoll::create(epoll::CreateFlags::empty()).expect("an epoll"), none()),
        ("a process", own, none()),
        ("watched files", inotify::init(inotify::CreateFlags::empty()).expect("watches"), none()),
        ("memory without seals", memory(MemfdFlags::empty()), none()),
        ("memory without a size", memory(MemfdFlags::ALLOW_SEALING), none()),
    ]
}

/// A request with the last copy of a descriptor. The process leaves before or after the answer.
fn hand_over(socket: &Path, request: &Request, fd: OwnedFd, is_answered: bool) {
    let wire = Wire::connect(socket, PATIENCE).expect("a connection");
    let _ = wire.send(request, Some(fd.as_fd()));
    drop(fd);
    if is_answered {
        let _ = wire.receive::<xsched_node::Answer>();
    }
}

#[test]
fn descriptors_of_all_kinds_delay_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut daemon = daemon_process(&socket, 1_024);
    let honest = Honest::new(&socket);
    let (mut longest, mut kept) = (BTreeMap::new(), Vec::new());
    for request in [hello(1), attach("gpu"), Request::Status] {
        for is_answered in [true, false] {
            for (kind, fd, keeper) in descriptors() {
                hand_over(&socket, &request, fd, is_answered);
                kept.push(keeper);
                let took = longest.entry(kind).or_insert(Duration::ZERO);
                *took = answers_at_once(&socket).max(*took);
            }
        }
    }
    for (kind, took) in &longest {
        println!("{kind}: {:.2} ms at most", took.as_secs_f64() * 1e3);
    }
    honest.is_scheduled(&socket);
    ends_soon(&mut daemon);
}

#[test]
fn files_where_a_daemon_shall_listen_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), b"precious").expect("a file");
    symlink(path("file"), path("link")).expect("a link");
    let _taken = UnixListener::bind(path("taken")).expect("a socket");
    let socket = path("socket");
    for name in ["file", "link", "taken", "socket"] {
        let place = Place::Unix(path(name));
        let config = || {
            let text = format!("[metrics]\nlisten = \"unix:{}\"\n", path(name).display());
            Config::parse(&text, Path::new("x")).expect("a configuration")
        };
        assert_eq!(config().metrics, Some(place));
        let started = Daemon::start_with_config(&settings(&socket), config(), Source::default());
        assert!(matches!(started, Err(DaemonError::Metrics(_))), "{name}: {started:?}");
        let is_file = ["file", "link"].contains(&name);
        assert_eq!(Daemon::check_paths(&config()).is_err(), is_file, "{name}");
    }
    assert_eq!(fs::read(path("file")).expect("it is there"), b"precious");
    assert!(path("link").is_symlink() && path("taken").exists());
}

/// A daemon whose file limits all, and that file.
fn limited(folder: &Path) -> (Daemon, PathBuf, PathBuf) {
    let (socket, file) = (folder.join("socket"), folder.join("conf/xschedd.toml"));
    fs::create_dir(folder.join("conf")).expect("a folder");
    fs::write(&file, LIMITED).expect("a file");
    let source = Source { file: Some(file.clone()), is_optional: true, ..Source::default() };
    let config = source.read().expect("it is fine");
    let daemon = Daemon::start_with_config(&settings(&socket), config, source).expect("a daemon");
    (daemon, socket, file)
}

#[test]
fn a_reload_that_would_lose_limits_is_refused() {
    type Fault = fn(&Path);
    let faults: [(&str, Fault); 7] = [
        ("gone", |file| fs::remove_file(file).expect("it is there")),
        ("empty", |file| fs::write(file, "\n").expect("written")),
        ("no tenants", |file| fs::write(file, "[watch]\ndrivers = false\n").expect("written")),
        ("a pipe", |file| {
            fs::remove_file(file).expect("it is there");
            mkfifoat(rustix::fs::CWD, file, Mode::RWXU).expect("a pipe");
        }),
        ("a folder", |file| {
            fs::remove_file(file).expect("it is there");
            fs::create_dir(file).expect("a folder");
        }),
        ("no folder", |file| {
            let folder = file.parent().expect("a folder");
            fs::remove_dir_all(folder).expect("it is there");
            fs::write(folder, "").expect("a file");
        }),
        ("a circle", |file| {
            fs::remove_file(file).expect("it is there");
            symlink(file, file).expect("a link");
        }),
    ];
    for (fault, make) in faults {
        let folder = tempfile::tempdir().expect("a folder");
        let (daemon, socket, file) = limited(folder.path());
        make(&file);
        let reloaded = daemon.reload();
        assert!(reloaded.is_err(), "{fault}");
        let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
        assert!(wire.ask(&Request::Reload, None).is_err(), "{fault}");
        wire.ask(&hello(xsched_node::VERSION), None).expect("a welcome");
        assert_eq!(wire.status().expect("a status").clients[0].tenant, "all", "{fault}");
    }
}

#[test]
fn a_file_that_is_no_utf_8_is_refused_with_its_line() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"[watch]\ndrivers = \"\xff\"\n").expect("written");
    let error = Config::read(file.path()).expect_err("no text").to_string();
    assert!(error.contains(":2: ") && error.contains("UTF-8"), "{error}");
}

fn daemon_with_log(socket: &Path, log: impl Into<Stdio>) -> Killed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xschedd"));
    command.arg("--socket").arg(socket).stderr(log);
    let daemon = Killed(command.spawn().expect("a daemon"));
    wait("it does not listen", || Wire::connect(socket, PATIENCE).is_ok());
    daemon
}

#[test]
fn a_log_that_cannot_be_written_stops_no_daemon() {
    let full = || File::options().write(true).open("/dev/full").expect("a device").into();
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    let (_unread, mut stuck) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&stuck, true).expect("a flag");
    while stuck.write(&[b'x'; 4_096]).is_ok() {}
    rustix::io::ioctl_fionbio(&stuck, false).expect("a flag");
    let logs: [(&str, Stdio); 3] = [
        ("/dev/full", full()),
        ("no reader", closed.into()),
        ("a reader that waits", stuck.into()),
    ];
    for (log, stdio) in logs {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mut daemon = daemon_with_log(&socket, stdio);
        let honest = Honest::new(&socket);
        for _ in 0..3 {
            let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
            wire.ask(&Request::Reload, None).unwrap_or_else(|error| panic!("{log}: {error}"));
            answers_at_once(&socket);
        }
        honest.is_scheduled(&socket);
        ends_soon(&mut daemon);
    }
}

/// Standard error, for lines of all threads but one, which panics when it has one.
struct Panics(&'static str);

impl Write for Panics {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let is_it = thread::current().name() == Some(self.0);
        assert!(!is_it, "the thread {} of the daemon", self.0);
        std::io::stderr().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a child of `a_panic_of_any_thread_ends_the_process` does: it is a daemon, of which a thread
/// panics once it says something, or which has one more thread.
#[test]
fn as_a_child() {
    let Some((role, socket)) = role() else { return };
    let panics = if role == "log" { "log" } else { "none" };
    let log = Log::start(Panics(panics)).expect("a thread");
    log.end_on_panic();
    if role == "control" {
        tracing_subscriber::fmt().with_writer(|| Panics("control")).init();
    }
    let _daemon = Daemon::start(&settings(&socket)).expect("a daemon");
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
    if role == "log" {
        writeln!(&log, "a line").expect("it never fails");
    } else if role == "own" {
        let _thread = thread::spawn(|| panic!("the thread own of the daemon"));
    }
    thread::sleep(PATIENCE);
}

#[test]
fn a_panic_of_any_thread_ends_the_process() {
    for thread in ["own", "control", "log"] {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mut command = child(thread, &socket);
        command.stderr(Stdio::piped());
        let mut ended = started(command);
        let honest = Honest::new(&socket);
        let batch = Link::open(socket.clone(), "batch", -200, None).expect("a link");
        let unit = batch.unit("gpu".to_owned());
        let page = unit.page().expect("a page");
        unit.note(true);
        wait("it is not held", || page.is_closed(0));
        // The thread of the connections says that it has read the configuration again.
        let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
        wire.send(&Request::Reload, None).expect("sent");
        ended.0.stdin.take().expect("its input").write_all(b"\n").expect("written");
        let mut text = String::new();
        ended.0.stderr.take().expect("its log").read_to_string(&mut text).expect("text");
        let status = ended.0.wait().expect("a child");
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{thread}, {status}: {text}");
        // That of the log cannot tell.
        assert!(thread == "log" || text.contains(&format!("the thread {thread} of")), "{text}");
        wait("a hold does not end", || !page.is_closed(0));
        drop((wire, honest));
    }
}

#[test]
fn one_of_many_daemons_that_start_at_the_same_time_listens() {
    const STARTS: usize = 8;
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(&folder.path().join("below/socket"));
        let together = Barrier::new(STARTS);
        let started = thread::scope(|scope| {
            let start = || {
                together.wait();
                Daemon::start(&settings)
            };
            let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
            starts.into_iter().map(|start| start.join().expect("no panic")).collect::<Vec<_>>()
        });
        let running: Vec<_> = started.iter().filter(|started| started.is_ok()).collect();
        assert_eq!(running.len(), 1, "{started:?}");
        answers_at_once(&settings.socket);
    }
}

#[test]
fn a_daemon_whose_socket_was_replaced_leaves_the_other_alone() {
    let mut node = Node::new();
    fs::remove_file(&node.socket).expect("it is there");
    let _other = UnixListener::bind(&node.socket).expect("a socket");
    drop(node.daemon.take());
    assert!(node.socket.exists());
}

#[test]
fn the_umask_keeps_no_user_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("below/socket");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" --socket \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_xschedd")).arg(&socket).stderr(Stdio::null());
    let _daemon = Killed(command.spawn().expect("a daemon"));
    wait("it does not listen", || Wire::connect(&socket, PATIENCE).is_ok());
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().expect("a folder"))), (0o666, 0o755));
}

#[test]
fn a_daemon_starts_at_once_behind_one_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    for _ in 0..10 {
        let mut killed = daemon_process(&socket, 1_024);
        killed.0.kill().expect("a process");
        // It may be on its way out.
        let mut next = daemon_process(&socket, 1_024);
        ends_soon(&mut next);
        let _ = killed.0.wait();
    }
}
