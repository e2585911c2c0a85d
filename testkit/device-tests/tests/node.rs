//! A program that uses the crate `xsched` under the scheduler of the node, on the emulated CUDA
//! driver and on the host device.
#![allow(unsafe_code, reason = "the environment")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::thread::sleep;
use std::time::{Duration, Instant};

use xsched::HoldState;
use xsched::host::BusyLoop;
use xsched::node::{Link, add, open};
use xsched::prelude::*;
use xsched_daemon::{Daemon, Settings};
use xsched_node::{PageSource, Status, Wire};

const PATIENCE: Duration = Duration::from_secs(10);
/// The emulated device spins a nanosecond for each cycle.
const KERNEL_NS: u64 = 1_000_000;
const KERNELS: u64 = 60;

fn choose_driver() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let emulated = xsched_cuda_emulated::path().expect("a place next to this test");
        // SAFETY: other threads read variables by Rust's library alone, which takes its lock.
        unsafe { std::env::set_var("XSCHED_CUDA_LIB", emulated) };
    });
}

fn start(socket: &Path) -> Daemon {
    let policy = "hpf".parse::<Any>().expect("a policy");
    Daemon::start(&Settings { socket: socket.to_owned(), policy, is_open: false })
        .expect("a daemon")
}

fn status(socket: &Path) -> Status {
    Wire::connect(socket, PATIENCE).and_then(|wire| wire.status()).expect("a status")
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(1));
    }
}

/// A program of the crate with a queue of low priority, whose row of kernels is under way.
struct Program {
    queue: XQueue<StreamCommand<CudaApi>>,
    gpu: StreamDevice<CudaApi>,
}

impl Program {
    fn new(socket: PathBuf) -> Self {
        Self::with(socket, StreamDeviceConfig::default())
    }

    fn with(socket: PathBuf, config: StreamDeviceConfig) -> Self {
        choose_driver();
        let runtime = Runtime::new(Hpf::default()).expect("a runtime");
        let link = Link::open(socket, "batch", -100, None).expect("a link");
        let opened = open(&runtime, &link, CudaApi::open(0).expect("a driver"), config);
        let (device, gpu) = opened.expect("a device");
        let queue = device.queue(XQueueConfig::default(), StreamConfig::default());
        Self { queue: queue.expect("a queue"), gpu }
    }

    fn launch(&self) {
        for _ in 0..KERNELS {
            let kernel = self.gpu.api().kernels().spin_unseen(1, 1, KERNEL_NS).expect("a kernel");
            let command = StreamCommand::native(CudaCommand::kernel(kernel));
            self.queue.submit(command).expect("it is taken");
        }
    }

    fn retired(&self) -> u64 {
        self.queue.stats().retired
    }

    /// True if nothing retires for some time.
    fn stands_still(&self) -> bool {
        let before = self.retired();
        sleep(Duration::from_millis(30));
        self.retired() == before
    }
}

#[test]
fn a_program_of_the_crate_is_held_for_an_urgent_process_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let daemon = start(&socket);
    let program = Program::new(socket.clone());
    let Urgent(unit) = Urgent::new(socket.clone(), &program.gpu.about().pci);
    program.launch();
    until("it runs", || program.retired() > 0);
    unit.note(true);
    until("it is held", || program.stands_still());
    assert!(program.retired() < KERNELS, "it was held before its end");
    let clients = status(&socket).clients;
    let held = clients.iter().find(|client| client.name == "batch").expect("the program");
    assert_eq!((held.holds, held.state.as_str()), (1, "held"), "{held:?}");
    assert!(held.retired > 0, "{held:?}");
    unit.note(false);
    until("it goes on", || program.retired() == KERNELS);
    drop(daemon);
}

#[test]
fn without_a_daemon_a_program_runs_and_is_scheduled_once_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let program = Program::new(socket.clone());
    program.launch();
    until("it runs", || program.retired() == KERNELS);
    let daemon = start(&socket);
    until("it connects", || !status(&socket).clients.is_empty());
    drop(daemon);
    program.launch();
    until("it runs without one", || program.retired() == 2 * KERNELS);
}

/// Another process, which says that it has work on a device or none.
struct Urgent(Arc<xsched_node::Unit>);

impl Urgent {
    fn new(socket: PathBuf, device: &str) -> Self {
        let link = Link::open(socket, "urgent", 100, None).expect("a link");
        let unit = link.unit(device.to_owned());
        let _ = unit.page().expect("a page");
        let working = Arc::downgrade(&unit);
        // One that ends nothing holds no other for long.
        std::thread::spawn(move || {
            while let Some(unit) = working.upgrade() {
                unit.note_retired(1, 0);
                sleep(Duration::from_millis(5));
            }
        });
        Self(unit)
    }
}

#[test]
fn a_device_without_gates_is_held_at_level_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let daemon = start(&socket);
    let mut config = StreamDeviceConfig::default();
    config.level_max = Level::Block;
    let program = Program::with(socket.clone(), config);
    assert_eq!((program.gpu.level(), program.queue.level()), (Level::Block, Level::Block));
    let urgent = Urgent::new(socket.clone(), &program.gpu.about().pci);
    program.launch();
    until("it runs", || program.retired() > 0);
    urgent.0.note(true);
    until("it is held", || program.stands_still());
    assert!(program.retired() < KERNELS, "it was held before its end");
    let stats = program.queue.stats();
    assert!(stats.launched < KERNELS && stats.hold == HoldState::Held(Level::Block), "{stats:?}");
    urgent.0.note(false);
    until("it goes on", || program.retired() == KERNELS);
    // Without the daemon it runs, also if that held it at last.
    urgent.0.note(true);
    until("it is held", || matches!(program.queue.stats().hold, HoldState::Held(_)));
    program.launch();
    drop(daemon);
    until("it goes on without a daemon", || program.retired() == 2 * KERNELS);
}

/// How long a command of the host's computes.
const STEP: Duration = Duration::from_millis(20);
const STEPS: u64 = 24;
const WINDOW: u32 = 6;

/// A queue of the host device at a level, whose commands count when they end.
struct Host {
    queue: XQueue<HostCommand>,
    /// Commands that have begun, and that have ended.
    counts: Arc<[AtomicU64; 2]>,
}

impl Host {
    fn new(socket: PathBuf, level: Level) -> Self {
        let runtime = Runtime::new(Hpf::default()).expect("a runtime");
        let link = Link::open(socket, "batch", -100, None).expect("a link");
        let host = HostDevice::new(HostConfig::default()).expect("a device");
        let device = add(&runtime, &link, host, "host").expect("a device");
        let config = XQueueConfig::default().with_level(level);
        let config = config.with_window(WindowConfig::fixed(WINDOW, 1));
        let queue = device.queue(config, ()).expect("a queue");
        Self { queue, counts: Arc::default() }
    }

    fn count(&self, at: usize) -> u64 {
        self.counts[at].load(Ordering::SeqCst)
    }

    fn submit(&self, steps: u64) {
        let busy = BusyLoop::calibrate();
        let iterations = busy.iterations(STEP.as_nanos() as u64);
        for _ in 0..steps {
            let counts = Arc::clone(&self.counts);
            let compute = HostCommand::new(move || {
                counts[0].fetch_add(1, Ordering::SeqCst);
                BusyLoop::command_of(iterations).call();
                counts[1].fetch_add(1, Ordering::SeqCst);
            });
            // SAFETY: it computes and counts, and holds no lock.
            let command = unsafe { compute.interruptible() };
            self.queue.submit(command).expect("it is taken");
        }
    }

    /// True if nothing ends for some time.
    fn stands_still(&self) -> bool {
        let before = self.count(1);
        sleep(STEP * 4);
        self.count(1) == before
    }
}

#[test]
fn the_host_device_is_held_as_deep_as_each_level_says() {
    for level in Level::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let _daemon = start(&socket);
        let host = Host::new(socket.clone(), level);
        let urgent = Urgent::new(socket.clone(), "host");
        host.submit(STEPS);
        until("it runs", || host.count(1) > 0);
        urgent.0.note(true);
        until("it is held", || host.queue.stats().hold == HoldState::Held(level));
        let (begun, ended, launched) = (host.count(0), host.count(1), host.queue.stats().launched);
        // What was launched runs, what runs ends, or nothing ends; and no more.
        let last = match level {
            Level::Block => [launched; 2],
            Level::Deactivate => [begun; 2],
            Level::Interrupt => [begun, ended],
        };
        until("what may still end has not", || host.count(1) >= last[1]);
        until("it stands still", || host.stands_still());
        let then = [host.count(0), host.count(1)];
        assert_eq!(then, last, "{level:?}");
        assert!(then[1] < STEPS, "it was held before its end");
        let clients = status(&socket).clients;
        let held = clients.iter().find(|client| client.name == "batch").expect("the program");
        assert_eq!((held.holds, held.state.as_str()), (1, "held"), "{held:?}");
        urgent.0.note(false);
        until("it goes on", || host.count(1) == STEPS);
        assert_eq!(host.count(0), STEPS, "nothing runs twice");
    }
}
