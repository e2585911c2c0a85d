//! Programs drawn at random, on the emulated driver, scheduled in all ways: what is in memory at
//! the end is what their calls say, and none hangs.

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xsched_daemon::{Daemon, Settings};
use xsched_node::{Link, PageSource, Unit};

use common::{compile, emulated, interposer, says};

/// Programs for each way, unless the variable says otherwise.
const PROGRAMS: u64 = 8;
const VARIABLE: &str = "XSCHED_TEST_SEQUENCES";
/// The emulated GPU's name among processes: its PCI id.
const DEVICE: &str = "0000:01:00";

fn programs() -> u64 {
    env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(PROGRAMS)
}

/// The programs of the seeds from this one on, with XQueues for this unit, of this level.
fn program(first_seed: u64, unit: &str, level: &str) -> Command {
    let mut command = emulated::scheduled("random", "random");
    command.env("FIRST_SEED", first_seed.to_string()).env("SEEDS", programs().to_string());
    command.env("XSCHED_AUTO_XQUEUE_UNIT", unit).env("XSCHED_AUTO_XQUEUE_LEVEL", level);
    // Graphs of some hundred microseconds get gates, kernels run side by side, and no stream is
    // behind another one that only has its connection.
    command.env("XSCHED_GATE_SPACING_US", "100").env("XSCHED_EMULATED_UNITS", "8");
    command.env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    command
}

fn check(command: &mut Command) {
    let output = says(command);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().last(), Some("random"), "{command:?}: {output:?}");
}

#[test]
fn programs_are_right_without_the_library() {
    let mut command = program(1, "streams", "2");
    let driver = command.get_envs().find(|(name, _)| *name == "XSCHED_CUDA_DRIVER");
    let driver = PathBuf::from(driver.and_then(|(_, path)| path).expect("its path"));
    command.env("LD_LIBRARY_PATH", driver.parent().expect("a folder"));
    check(command.env_remove("LD_PRELOAD"));
}

#[test]
fn programs_are_right_in_all_ways() {
    let ways = [
        ("streams", "1", "HPF"),
        ("streams", "2", "HPF"),
        ("process", "2", "HPF"),
        ("streams", "2", "UP"),
    ];
    for ((unit, level, policy), seed) in ways.into_iter().zip((1_000..).step_by(1_000)) {
        check(program(seed, unit, level).env("XSCHED_POLICY", policy));
    }
}

#[test]
fn programs_are_right_while_streams_are_held() {
    for (level, seed) in [("1", 5_000), ("2", 6_000)] {
        check(program(seed, "streams", level).env("XSCHED_POLICY", "HPF").env("HOLDS", "1"));
    }
}

/// Numbers from a seed: linear, of which the upper half is taken.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Another interposer of some kind, below a folder, and the file for what it has seen if it takes
/// the place of `dlsym`, by which programs find launches.
fn hook(folder: &Path, number: usize, draws: &mut Draws) -> (PathBuf, Option<PathBuf>) {
    let path = |end| folder.join(format!("hook{number}.{end}"));
    let seen = path("seen");
    let to = format!("-DSEEN=\"{}\"", seen.display());
    let mut arguments = vec!["-shared", "-fPIC", "-ldl", &to];
    let takes_dlsym = draws.below(4) > 0;
    if !takes_dlsym {
        arguments.extend(["-DNO_DLSYM", "-DLAUNCH"]);
    } else if draws.below(2) > 0 {
        arguments.push("-DLAUNCH");
    }
    arguments.extend(["-DNO_DLOPEN", "-DNEXT"].iter().filter(|_| draws.below(2) > 0));
    compile("hook.c", &path("so"), &arguments);
    println!("  {arguments:?}");
    (path("so"), takes_dlsym.then_some(seen))
}

#[test]
fn programs_are_right_beside_other_interposers() {
    for draw in 0..programs() {
        let draws = &mut Draws(draw);
        draws.below(2);
        let folder = tempfile::tempdir().expect("a folder");
        println!("draw {draw}");
        let hooks: Vec<_> =
            (0..1 + draws.below(3)).map(|n| hook(folder.path(), n, draws)).collect();
        let mut preloaded: Vec<_> = hooks.iter().map(|(library, _)| library.clone()).collect();
        preloaded.insert(draws.below(hooks.len() + 1), interposer());
        let unit = ["streams", "process"][draws.below(2)];
        let level = ["1", "2"][draws.below(2)];
        println!("  {unit}, level {level}: {preloaded:?}");
        let mut command = program(7_000 + draw, unit, level);
        let preloaded = env::join_paths(preloaded).expect("paths without colons");
        command.env("LD_PRELOAD", preloaded).env("XSCHED_POLICY", "HPF").env("SEEDS", "1");
        check(&mut command);
        // The one whose `dlsym` the program calls.
        if let Some(seen) = hooks.iter().find_map(|(_, seen)| seen.as_ref()) {
            let seen = fs::read_to_string(seen).expect("a number");
            assert_ne!(seen, "0", "an interposer has seen no launch");
        }
    }
}

/// A daemon of these tests.
fn daemon(socket: &Path) -> Daemon {
    let policy = "hpf".parse().expect("a policy");
    let settings = Settings { socket: socket.to_owned(), policy, is_open: false };
    Daemon::start(&settings).expect("a daemon")
}

#[test]
fn programs_are_right_under_a_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _daemon = daemon(&socket);
    for (unit, seed) in [("streams", 9_000), ("process", 10_000)] {
        let mut command = program(seed, unit, "2");
        check(command.env("XSCHED_SCHEDULER", "GLB").env("XSCHED_SOCKET", &socket));
    }
}

/// An urgent process has work now and then, as long as this lives.
struct Neighbour {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Neighbour {
    fn new(socket: &Path) -> Self {
        let link = Link::open(socket.to_owned(), "urgent", 100, None).expect("a link");
        let unit: Arc<Unit> = link.unit(DEVICE.to_owned());
        let _ = unit.page().expect("a page");
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let run = move || {
            while !ends.load(Ordering::Relaxed) {
                unit.note(true);
                thread::sleep(Duration::from_millis(3));
                unit.note_retired(1, 0);
                unit.note(false);
                thread::sleep(Duration::from_millis(7));
            }
        };
        Self { is_over, thread: Some(thread::spawn(run)) }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(thread::JoinHandle::join);
    }
}

#[test]
fn programs_are_right_while_the_daemon_holds_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _daemon = daemon(&socket);
    let _neighbour = Neighbour::new(&socket);

    for (unit, seed) in [("streams", 11_000), ("process", 12_000)] {
        let mut command = program(seed, unit, "2");
        check(command.env("XSCHED_SCHEDULER", "GLB").env("XSCHED_SOCKET", &socket));
    }
}
