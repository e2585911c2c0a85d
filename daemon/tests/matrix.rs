//! Starts, reloads and ends of a daemon under each fault of its surroundings, as a table.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, mkfifoat};
use xsched_node::{Request, VERSION, Wire};

mod node;
use node::{Killed, PATIENCE, answers_at_once, ends_soon, hello};

/// Where a fault is.
#[derive(Clone, Copy)]
enum Where {
    /// What scrapes are answered at, by the file: it becomes this.
    Metrics(fn(&Path)),
    /// The file.
    File(fn(&Path)),
    /// Standard error.
    Log(fn() -> Stdio),
    /// Socket that the daemon listens at, before it starts.
    Socket(fn(&Path)),
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Runs,
    Refuses,
}

use Does::{Refuses, Runs};
use Where::{Log, Metrics, Socket};

struct Fault {
    name: &'static str,
    place: Where,
    start: Does,
    reload: Does,
}

const fn fault(name: &'static str, place: Where, start: Does, reload: Does) -> Fault {
    Fault { name, place, start, reload }
}

/// A socket that another process listens at as long as this one lives.
fn listened(path: &Path) {
    std::mem::forget(UnixListener::bind(path).expect("a socket"));
}

fn full_pipe() -> Stdio {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("a flag");
    while writer.write(&[b'x'; 4_096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("a flag");
    std::mem::forget(reader);
    writer.into()
}

const PRECIOUS: &[u8] = b"precious";

/// Without a file the defaults count where a daemon starts, and nothing does where it goes on.
const FAULTS: [Fault; 20] = [
    fault("metrics: a file", Metrics(|path| write(path, PRECIOUS)), Refuses, Refuses),
    fault("metrics: a link to a file", Metrics(link_to_file), Refuses, Refuses),
    fault("metrics: a folder", Metrics(mkdir), Refuses, Refuses),
    fault("metrics: another's socket", Metrics(listened), Refuses, Refuses),
    fault("metrics: the daemon's socket", Metrics(|_| {}), Refuses, Refuses),
    fault("file: gone", Where::File(|_| {}), Runs, Refuses),
    fault("file: empty", Where::File(|path| write(path, b"\n")), Runs, Refuses),
    fault("file: no tenants", Where::File(|path| write(path, b"[watch]\n")), Runs, Refuses),
    fault("file: no UTF-8", Where::File(|path| write(path, b"\xff")), Refuses, Refuses),
    fault("file: cannot be read", Where::File(to_memory), Refuses, Refuses),
    fault("file: a pipe", Where::File(pipe), Refuses, Refuses),
    fault("file: a folder", Where::File(mkdir), Refuses, Refuses),
    fault("file: a circle", Where::File(|path| link(path, path)), Refuses, Refuses),
    fault("file: below a file", Where::File(below_file), Refuses, Refuses),
    fault("log: /dev/full", Log(|| full().into()), Runs, Runs),
    fault("log: no reader", Log(|| std::io::pipe().expect("a pipe").1.into()), Runs, Runs),
    fault("log: a full pipe", Log(full_pipe), Runs, Runs),
    fault("socket: of one that was killed", Socket(|path| drop(bind(path))), Runs, Runs),
    fault("socket: a link", Socket(link_to_file), Refuses, Runs),
    fault("socket: in a folder of all", Socket(folder_of_all), Refuses, Runs),
];

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
}

fn mkdir(path: &Path) {
    fs::create_dir(path).expect("a folder");
}

fn link(to: &Path, path: &Path) {
    symlink(to, path).expect("a link");
}

fn bind(path: &Path) -> UnixListener {
    UnixListener::bind(path).expect("a socket")
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("a device")
}

/// The link's target is in another folder than the link.
fn link_to_file(path: &Path) {
    let folder = path.parent().and_then(Path::parent).expect("a folder");
    write(&folder.join("target"), PRECIOUS);
    link(&folder.join("target"), path);
}

/// A regular file of which no byte can be read.
fn to_memory(path: &Path) {
    link(Path::new("/proc/self/mem"), path);
}

fn pipe(path: &Path) {
    mkfifoat(rustix::fs::CWD, path, Mode::RWXU).expect("a pipe");
}

fn below_file(path: &Path) {
    let folder = path.parent().expect("a folder");
    fs::remove_dir(folder).expect("it is empty");
    write(folder, PRECIOUS);
}

fn folder_of_all(path: &Path) {
    let folder = path.parent().expect("a folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("a mode");
}

/// A node, in a folder of its own.
struct Rig {
    socket: PathBuf,
    file: PathBuf,
    metrics: PathBuf,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        ["run", "xsched", "metrics"].iter().for_each(|name| mkdir(&path(name)));
        let file = path("xsched/xschedd.toml");
        write(&file, b"[[tenant]]\nname = \"all\"\npriority_max = -100\n");
        Self { socket: path("run/socket"), file, metrics: path("metrics/place"), folder }
    }

    /// Puts a fault in place. What is there stays then.
    fn make(&self, fault: &Fault) -> Vec<(PathBuf, (u64, u64, u64))> {
        let place = match fault.place {
            Metrics(make) => {
                make(&self.metrics);
                let is_own = !self.metrics.is_symlink() && !self.metrics.exists();
                let place = if is_own { &self.socket } else { &self.metrics };
                let mut text = fs::read_to_string(&self.file).expect("it is there");
                write!(text, "[metrics]\nlisten = \"unix:{}\"\n", place.display()).expect("text");
                write(&self.file, text.as_bytes());
                &self.metrics
            }
            Where::File(make) => {
                fs::remove_file(&self.file).expect("it is there");
                make(&self.file);
                &self.file
            }
            Socket(make) => {
                make(&self.socket);
                &self.socket
            }
            Log(_) => return Vec::new(),
        };
        let all = [place.clone(), self.folder.path().join("target")];
        let is_unused = fault.start == Runs && matches!(fault.place, Socket(_));
        let there = all.into_iter().filter_map(|path| Some((path.clone(), id(&path)?)));
        there.filter(|_| !is_unused).collect()
    }

    fn start(&self, fault: &Fault) -> Killed {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xschedd"));
        command.arg("--user").arg("--socket").arg(&self.socket);
        command.env("XDG_CONFIG_HOME", self.folder.path());
        command.stderr(if let Log(log) = fault.place { log() } else { Stdio::piped() });
        Killed(command.spawn().expect("a daemon"))
    }

    fn is_up(&self) -> bool {
        Wire::connect(&self.socket, PATIENCE).is_ok_and(|wire| wire.status().is_ok())
    }

    /// Result of a start, with the reason where it is refused.
    fn comes_of(&self, daemon: &mut Killed) -> (Does, String) {
        let begin = Instant::now();
        loop {
            if daemon.0.try_wait().expect("a child").is_some() {
                let mut text = String::new();
                let log = daemon.0.stderr.take();
                log.map(|mut log| log.read_to_string(&mut text).expect("text"));
                return (Refuses, text);
            }
            if self.is_up() {
                return (Runs, String::new());
            }
            assert!(begin.elapsed() < PATIENCE, "it neither runs nor ends");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The tenant that a new process gets.
    fn tenant(&self) -> String {
        let wire = Wire::connect(&self.socket, PATIENCE).expect("a connection");
        wire.ask(&hello(VERSION), None).expect("a welcome");
        wire.status().expect("a status").clients[0].tenant.clone()
    }
}

fn id(path: &Path) -> Option<(u64, u64, u64)> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.len()))
}

fn check_kept(fault: &Fault, kept: &[(PathBuf, (u64, u64, u64))]) {
    for (path, before) in kept {
        assert_eq!(id(path), Some(*before), "{}: {} is another", fault.name, path.display());
    }
}

/// Starts with the fault in place, and what the end takes with it if it runs.
fn start_cell(fault: &Fault) -> String {
    let rig = Rig::new();
    let kept = rig.make(fault);
    let begin = Instant::now();
    let mut daemon = rig.start(fault);
    let (does, text) = rig.comes_of(&mut daemon);
    let took_ms = begin.elapsed().as_millis();
    assert_eq!(does, fault.start, "{}: {text}", fault.name);
    assert!(does == Runs || text.contains("error: "), "{}: `{text}`", fault.name);
    if does == Runs {
        ends_soon(&mut daemon);
        assert!(!rig.socket.exists(), "{}: its socket stays", fault.name);
    }
    check_kept(fault, &kept);
    format!("{does:?} ({took_ms} ms)")
}

/// Starts without the fault, reads again and ends with it.
fn reload_and_end_cells(fault: &Fault) -> [String; 2] {
    let rig = Rig::new();
    let mut daemon = rig.start(fault);
    assert_eq!(rig.comes_of(&mut daemon).0, Runs, "{}", fault.name);
    let wire = Wire::connect(&rig.socket, PATIENCE).expect("a connection");
    let is_at_socket = matches!(fault.place, Socket(_));
    if is_at_socket {
        // Another one takes its place, and who is connected goes on.
        fs::remove_file(&rig.socket).expect("it is there");
    }
    let mut kept = rig.make(fault);
    if is_at_socket {
        if id(&rig.socket).is_none() {
            listened(&rig.socket);
        }
        kept.extend(id(&rig.socket).map(|id| (rig.socket.clone(), id)));
    }
    let begin = Instant::now();
    let reloaded = wire.ask(&Request::Reload, None);
    let took_ms = begin.elapsed().as_millis();
    let does = if reloaded.is_ok() { Runs } else { Refuses };
    assert_eq!(does, fault.reload, "{}: {reloaded:?}", fault.name);
    if !is_at_socket {
        answers_at_once(&rig.socket);
        assert_eq!(rig.tenant(), "all", "{}: limits are lost", fault.name);
    }
    let begin = Instant::now();
    ends_soon(&mut daemon);
    let ended_ms = begin.elapsed().as_millis();
    assert!(is_at_socket || !rig.socket.exists(), "{}: its socket stays", fault.name);
    check_kept(fault, &kept);
    [format!("{does:?} ({took_ms} ms)"), format!("ends ({ended_ms} ms)")]
}

#[test]
fn starts_reloads_and_ends_are_right_under_each_fault() {
    println!("{:32} {:20} {:20} end", "fault", "start", "reload");
    for fault in &FAULTS {
        let start = start_cell(fault);
        let [reload, end] = reload_and_end_cells(fault);
        println!("{:32} {start:20} {reload:20} {end}", fault.name);
    }
}

#[test]
fn of_two_that_start_at_one_socket_the_second_refuses() {
    let rig = Rig::new();
    let none = fault("none", Where::File(|_| {}), Runs, Runs);
    let mut first = rig.start(&none);
    assert_eq!(rig.comes_of(&mut first).0, Runs);
    let mut second = rig.start(&none);
    let mut text = String::new();
    second.0.stderr.take().expect("its log").read_to_string(&mut text).expect("text");
    assert!(!second.0.wait().expect("a child").success());
    assert!(text.contains("another daemon listens at"), "{text}");
    assert_eq!(rig.tenant(), "all");
    ends_soon(&mut first);
}
