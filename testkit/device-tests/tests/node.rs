//! A program that uses the crate `xsched` under the scheduler of the node, on the emulated CUDA
//! driver.
#![allow(unsafe_code, reason = "the environment")]

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread::sleep;
use std::time::{Duration, Instant};

use xsched::node::{Link, open};
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
        choose_driver();
        let runtime = Runtime::new(Hpf::default()).expect("a runtime");
        let link = Link::open(socket, "batch", -100, None).expect("a link");
        let config = StreamDeviceConfig::default();
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

    /// Whether nothing retires for some time.
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
    let urgent = Link::open(socket.clone(), "urgent", 100, None).expect("a link");
    let unit = urgent.unit(program.gpu.about().pci.clone());
    let _page = unit.page().expect("a page");
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
