//! Sequences, drawn at random, of what hostile processes and the surroundings do to a daemon:
//! after each act it answers at once, schedules others and tells them where they stand.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use xsched_core::rng::SplitMix64;
use xsched_daemon::{Daemon, DaemonError};
use xsched_node::{
    Answer, Link, NodeRank, PageSource, Request, SharedPage, Status, Unit, VERSION, Wire,
};

mod node;
use node::{
    AT_ONCE, Honest, Killed, PATIENCE, attach, ends_soon, hello, join, lingering, processor_time,
    settings, soonest, wait,
};

/// Sequences, unless the variable says otherwise.
const SEQUENCES: u64 = 4;
const VARIABLE: &str = "XSCHED_TEST_SEQUENCES";
const ACTS: u32 = 12;
/// Processes of the hostile user at a time, with three descriptors each in the daemon.
const CROWD_MAX: usize = 256;

/// A standard error that cannot be written, or not now.
fn broken_log(rng: &mut SplitMix64) -> Stdio {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    match rng.below(4) {
        0 => File::options().write(true).open("/dev/full").expect("a device").into(),
        1 => {
            drop(reader);
            writer.into()
        }
        2 => {
            rustix::io::ioctl_fionbio(&writer, true).expect("a flag");
            while writer.write(&[b'x'; 4_096]).is_ok() {}
            rustix::io::ioctl_fionbio(&writer, false).expect("a flag");
            // It has a reader, which never reads.
            std::mem::forget(reader);
            writer.into()
        }
        _ => Stdio::null(),
    }
}

/// A daemon of this user at this socket, with the file that is below this folder.
fn start(folder: &Path, socket: &Path, rng: &mut SplitMix64) -> Killed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xschedd"));
    command.arg("--user").arg("--socket").arg(socket).stderr(broken_log(rng));
    Killed(command.env("XDG_CONFIG_HOME", folder).spawn().expect("a daemon"))
}

/// The one of daemons that start at the same time which goes on.
fn only_one_of(started: [Killed; 3]) -> Killed {
    let mut running = Vec::from(started);
    let begin = Instant::now();
    while running.len() > 1 && begin.elapsed() < PATIENCE {
        running.retain_mut(|daemon| daemon.0.try_wait().expect("a child").is_none());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(running.len(), 1, "daemons at one socket");
    running.remove(0)
}

/// A process whose standing is looked at.
struct Observed {
    link: Arc<Link>,
    _unit: Arc<Unit>,
    page: Arc<SharedPage>,
    priority: i32,
}

/// Processes beside the crowd.
const KNOWN: usize = 3;
const OBSERVED_GPU: &str = "observed";

impl Observed {
    fn new(socket: &Path, priority: i32) -> Self {
        let link = Link::open(socket.to_owned(), "observed", priority, None).expect("a link");
        let unit = link.unit(OBSERVED_GPU.to_owned());
        let page = unit.page().expect("a page");
        Self { link, _unit: unit, page, priority }
    }

    /// Rank that the process is to be told beside another one, with this limit of both.
    fn expected(&self, other: &Self, priority_max: i32) -> NodeRank {
        match self.priority.min(priority_max).cmp(&other.priority.min(priority_max)) {
            std::cmp::Ordering::Less => NodeRank::Outranked,
            std::cmp::Ordering::Equal => NodeRank::Contended,
            std::cmp::Ordering::Greater => NodeRank::Highest,
        }
    }
}

/// A daemon, those who use it, and what is done to it.
struct Rig {
    rng: SplitMix64,
    daemon: Killed,
    socket: PathBuf,
    file: PathBuf,
    priority_max: i32,
    honest: Honest,
    observed: [Observed; 2],
    crowd: Vec<(Wire, OwnedFd, SharedPage)>,
    /// The other ends of sockets whose close waits.
    ends: Vec<TcpStream>,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let file = folder.path().join("xsched/xschedd.toml");
        fs::create_dir(folder.path().join("xsched")).expect("a folder");
        fs::write(&file, limits(0)).expect("a file");
        let started = [(); 3].map(|()| start(folder.path(), &socket, &mut rng));
        let daemon = only_one_of(started);
        wait("it does not listen", || Wire::connect(&socket, PATIENCE).is_ok());
        let honest = Honest::new(&socket);
        let observed = [1, 0].map(|priority| Observed::new(&socket, priority));
        Self {
            rng,
            daemon,
            file,
            priority_max: 0,
            honest,
            observed,
            crowd: Vec::new(),
            ends: Vec::new(),
            socket,
            folder,
        }
    }

    fn ask(&self, request: &Request) -> Result<Answer, String> {
        let wire = Wire::connect(&self.socket, PATIENCE).expect("a connection");
        wire.ask(request, None).map(|(answer, _)| answer).map_err(|error| error.to_string())
    }

    fn act(&mut self) -> &'static str {
        match self.rng.below(10) {
            8 => self.listen_elsewhere(),
            9 => self.crash(),
            0 => self.send_lingering(),
            1 | 2 => self.crowd_comes(),
            3 => self.crowd_goes(),
            4 => self.start_again(),
            5 => self.lose_file(),
            6 => self.change_limits(),
            _ => self.change_hints(),
        }
    }

    /// Hands over a descriptor whose close waits, and may have left before it is read.
    fn send_lingering(&mut self) -> &'static str {
        let (lingering, end) = lingering();
        self.ends.push(end);
        let request =
            [hello(1), attach("gpu"), Request::Status][self.rng.below(3) as usize].clone();
        let wire = Wire::connect(&self.socket, PATIENCE).expect("a connection");
        // It reads this when no other process has the descriptor.
        let daemon = Pid::from_child(&self.daemon.0);
        kill_process(daemon, Signal::STOP).expect("it is there");
        let _ = wire.send(&request, Some(lingering.as_fd()));
        drop(lingering);
        kill_process(daemon, Signal::CONT).expect("it is there");
        if self.rng.chance(500) {
            let _ = wire.receive::<Answer>();
        }
        "a descriptor whose close waits"
    }

    /// Processes with work, on one GPU or in gangs on two.
    fn crowd_comes(&mut self) -> &'static str {
        let room = CROWD_MAX - self.crowd.len();
        let in_gangs = self.rng.chance(500);
        for n in 0..room.min(self.rng.below(120) as usize) {
            let gang = in_gangs.then(|| format!("gang {}", n / 4));
            self.crowd.push(join(&self.socket, ["hostile-1", "hostile-2"][n % 2], gang));
        }
        "processes with work"
    }

    fn crowd_goes(&mut self) -> &'static str {
        let left = self.rng.below(self.crowd.len() as u64 + 1) as usize;
        self.crowd.truncate(left);
        // They are of the user that asks, which gets no service while many of them are closed.
        let are_gone = || {
            let status = Wire::connect(&self.socket, PATIENCE).and_then(|wire| wire.status());
            status.is_ok_and(|status| status.clients.len() == left + KNOWN)
        };
        wait("they do not leave", are_gone);
        "processes that leave"
    }

    /// Others start at the same socket at the same time.
    fn start_again(&self) -> &'static str {
        let settings = settings(&self.socket);
        thread::scope(|scope| {
            for start in [(); 3].map(|()| scope.spawn(|| Daemon::start(&settings))) {
                let started = start.join().expect("no panic");
                assert!(matches!(started, Err(DaemonError::Running(_))), "{started:?}");
            }
        });
        "other daemons that start"
    }

    /// The file becomes what no limits can be read of, and is there again after a reload.
    fn lose_file(&mut self) -> &'static str {
        let file = &self.file;
        let folder = file.parent().expect("a folder");
        let fault = self.rng.below(9);
        fs::remove_file(file).expect("it is there");
        match fault {
            0 => {}
            1 => fs::write(file, "\n").expect("written"),
            2 => fs::write(file, "[watch]\ndrivers = false\n").expect("written"),
            3 => mkfifoat(rustix::fs::CWD, file, Mode::RWXU).expect("a pipe"),
            4 => fs::create_dir(file).expect("a folder"),
            5 => symlink(file, file).expect("a link"),
            // A regular file that opens, and of which no byte can be read.
            6 => symlink("/proc/self/mem", file).expect("a link"),
            7 => fs::write(file, b"[watch]\ndrivers = \"\xff\"\n").expect("written"),
            _ => {
                fs::remove_dir(folder).expect("it is empty");
                fs::write(folder, "").expect("written");
            }
        }
        let reloaded = self.ask(&Request::Reload);
        assert!(reloaded.is_err(), "limits are lost by fault {fault}");
        let _ = fs::remove_file(file).or_else(|_| fs::remove_dir(file));
        if folder.is_file() {
            fs::remove_file(folder).expect("it is there");
            fs::create_dir(folder).expect("a folder");
        }
        fs::write(file, limits(self.priority_max)).expect("written");
        "a file that cannot be read"
    }

    /// The file has scrapes be answered where something else is, which stays.
    fn listen_elsewhere(&mut self) -> &'static str {
        let place = self.folder.path().join("place");
        let id = |path: &Path| {
            let about = fs::symlink_metadata(path).expect("it is there");
            (about.dev(), about.ino(), about.len())
        };
        let mut listener = None;
        let path = match self.rng.below(4) {
            0 => {
                fs::write(&place, "precious").expect("written");
                &place
            }
            1 => {
                symlink(&self.file, &place).expect("a link");
                &place
            }
            2 => {
                listener = Some(UnixListener::bind(&place).expect("a socket"));
                &place
            }
            _ => &self.socket,
        };
        let before = id(path);
        let text = format!("[metrics]\nlisten = \"unix:{}\"\n", path.display());
        fs::write(&self.file, limits(self.priority_max) + &text).expect("written");
        assert!(self.ask(&Request::Reload).is_err(), "it listens where something is");
        assert_eq!(id(path), before, "what was there is gone");
        drop(listener);
        let _ = fs::remove_file(&place);
        fs::write(&self.file, limits(self.priority_max)).expect("written");
        "scrapes where something else is"
    }

    /// The daemon ends without a word, as by a panic, and another one takes its place.
    fn crash(&mut self) -> &'static str {
        self.daemon.0.kill().expect("it is there");
        self.daemon.0.wait().expect("a child");
        self.crowd.clear();
        let socket = &self.socket;
        self.daemon = start(self.folder.path(), socket, &mut self.rng);
        let is_known = || {
            let status = Wire::connect(socket, PATIENCE).and_then(|wire| wire.status());
            status.is_ok_and(|status| status.clients.len() == KNOWN)
        };
        wait("processes are not known again", is_known);
        "a daemon that ends and another one"
    }

    fn change_limits(&mut self) -> &'static str {
        self.priority_max = self.rng.below(7) as i32 - 3;
        fs::write(&self.file, limits(self.priority_max)).expect("written");
        self.ask(&Request::Reload).expect("read again");
        "a reload with another limit"
    }

    fn change_hints(&mut self) -> &'static str {
        let observed = &mut self.observed[self.rng.below(2) as usize];
        observed.priority = self.rng.below(9) as i32 - 4;
        observed.link.set_hints(observed.priority, None);
        "other hints"
    }

    fn status(&self) -> Status {
        match self.ask(&Request::Status).expect("an answer") {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    fn check(&self) {
        self.welcomes_at_once();
        self.honest.is_scheduled(&self.socket);
        let [one, other] = &self.observed;
        for (one, other) in [(one, other), (other, one)] {
            let expected = one.expected(other, self.priority_max);
            wait("a process is not told where it stands", || one.page.header().rank() == expected);
        }
        let status = self.status();
        let observed = status.clients.iter().filter(|client| client.device == OBSERVED_GPU);
        let mut told: Vec<i32> = observed.map(|client| client.priority).collect();
        let mut expected = [one, other].map(|one| one.priority.min(self.priority_max));
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected, "limits are not in force");
    }

    /// A new process hears from it, however many there are for a status to name. On a busy machine
    /// not each time.
    fn welcomes_at_once(&self) {
        let welcome = || {
            let begin = Instant::now();
            self.ask(&hello(VERSION)).expect("a welcome");
            begin.elapsed()
        };
        let shortest = soonest(welcome);
        assert!(shortest < AT_ONCE, "{shortest:?}");
    }

    /// With nothing happening it takes less than a tenth of a processor.
    fn is_idle(&self) {
        thread::sleep(Duration::from_millis(300));
        let before = processor_time(self.daemon.0.id());
        thread::sleep(Duration::from_millis(500));
        let idle = processor_time(self.daemon.0.id()).saturating_sub(before);
        assert!(idle <= Duration::from_millis(50), "{idle:?} of 500 ms with nothing happening");
    }

    /// Ends the daemon, which takes no socket with it but its own.
    fn end(mut self) {
        let other = self.rng.chance(500).then(|| {
            fs::remove_file(&self.socket).expect("it is there");
            UnixListener::bind(&self.socket).expect("a socket")
        });
        ends_soon(&mut self.daemon);
        assert_eq!(self.socket.exists(), other.is_some(), "of a socket that was replaced");
    }
}

fn limits(priority_max: i32) -> String {
    format!("[[tenant]]\nname = \"all\"\npriority_max = {priority_max}\n")
}

#[test]
fn whatever_is_done_to_a_daemon_harms_no_other_process() {
    let sequences = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    for seed in 0..sequences.unwrap_or(SEQUENCES) {
        println!("sequence {seed}");
        let mut rig = Rig::new(seed);
        for act in 0..ACTS {
            println!("  act {act}: {}", rig.act());
            rig.check();
        }
        rig.is_idle();
        rig.end();
    }
}
