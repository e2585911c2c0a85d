//! How soon the daemon of a node holds one process for another, and what it costs while nothing
//! happens: the budgets of a node with up to 1,000 processes.
//!
//! The daemon is a process of its own. The processes that it knows are connections of this one,
//! with pages of gate words but without a GPU: what is measured is from the first work of an urgent
//! process to the last store that closes the other's gates. The urgent process makes it itself, or
//! the daemon where that has not given it the other's page.

use std::error::Error;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use xsched_benches::mode::{Mode, judge};
use xsched_core::rng::SplitMix64;
use xsched_daemon::{Daemon, Settings};
use xsched_node::{Link, Load, NodeError, PageSource, Request, SharedPage, VERSION, Wire};
use xsched_policies::{Any, UnknownPolicy};

/// Where the daemon is to listen that this program runs instead of the bench.
const AS_DAEMON: &str = "XSCHED_BENCH_DAEMON";
const GPU: &str = "0000:bench";
/// From the first work to the last closed gate, P50 and P99 in nanoseconds.
const HOLD_GOAL_NS: (u64, u64) = (10_000, 50_000);
/// Limits for the daemon with [`CROWD`] idle processes: part of a core, in percent, and memory for
/// each process, in KiB.
const IDLE_GOAL: (f64, f64) = (0.5, 64.0);
const CROWD: usize = 1_000;
/// Pauses between two pieces of urgent work, in microseconds.
const PAUSE: (u64, u64) = (0, 2_000);
/// Pauses in which the daemon sleeps.
const LONG_PAUSE: (u64, u64) = (30_000, 60_000);
/// The last word of a page, which is closed and opened last.
const LAST: usize = xsched_node::GATES_PER_PAGE - 1;
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if let Some(socket) = std::env::var_os(AS_DAEMON) {
        return serve(socket.into());
    }
    let mode = Mode::from_args();
    if !mode.figures() {
        return Ok(ExitCode::SUCCESS);
    }
    let (samples, crowd) = if mode.smoke() { (20, 10) } else { (2_000, CROWD) };
    println!(
        "Microseconds from an urgent process's first work until the other's gates are closed,"
    );
    println!(
        "and from its last until they are open; {samples} times, with pauses of up to 2 ms.\n"
    );
    println!("{:<32} {:>8} {:>8} {:>8} {:>8}", "", "P50", "P99", "P50", "P99");
    let mut reached = true;
    for idle in [0, crowd] {
        let mut node = Node::start()?;
        let quiet_kib = node.memory_kib()?;
        let _others = (0..idle).map(|_| node.process(0)).collect::<Result<Vec<_>, _>>()?;
        let each_kib = (node.memory_kib()? - quiet_kib) / idle.max(1) as f64;
        let name = format!("with {idle} idle processes");
        let (closed, opened) = latency(&node, true, samples, PAUSE)?;
        print_row(&name, closed, Some(opened));
        if idle == 0 {
            let (p50, p99) = HOLD_GOAL_NS;
            let goal = format!("it takes {} us (P50) and {} us (P99) at most", us(p50), us(p99));
            reached &= judge(&goal, closed.0 <= p50 && closed.1 <= p99);
            let (closed, opened) = latency(&node, true, samples / 10, LONG_PAUSE)?;
            print_row("the same, pauses of 30 to 60 ms", closed, Some(opened));
            for (name, pause) in
                [("by the daemon alone", PAUSE), ("the same, 30 to 60 ms", LONG_PAUSE)]
            {
                let (closed, opened) = latency(&node, false, samples / 10, pause)?;
                print_row(name, closed, Some(opened));
            }
            for (name, pause) in [("a wake-up alone", PAUSE), ("the same, 30 to 60 ms", LONG_PAUSE)]
            {
                print_row(name, wake_up(samples / 10, pause)?, None);
            }
        } else {
            reached &= idle_cost(&mut node, idle, each_kib, mode)?;
        }
    }
    Ok(mode.exit_code(reached || mode.smoke()))
}

const fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// The median and the 99th percentile, in nanoseconds.
type Ranks = (u64, u64);

fn print_row(name: &str, (p50, p99): Ranks, opened: Option<Ranks>) {
    print!("{name:<32} {:>8.1} {:>8.1}", us(p50), us(p99));
    if let Some((p50, p99)) = opened {
        print!(" {:>8.1} {:>8.1}", us(p50), us(p99));
    }
    println!();
}

/// How long it takes to wake a thread that sleeps, by an eventfd and with nothing else.
fn wake_up(samples: usize, pause_us: (u64, u64)) -> Result<Ranks, Box<dyn Error>> {
    let rung = AtomicUsize::new(0);
    let bell = eventfd(0, EventfdFlags::empty())?;
    let mut rng = SplitMix64::new(11);
    thread::scope(|scope| {
        scope.spawn(|| {
            for count in 1..=samples {
                let _ = rustix::io::read(&bell, &mut [0; 8]);
                rung.store(count, Ordering::Release);
            }
        });
        let mut times = Vec::with_capacity(samples);
        for count in 1..=samples {
            pause(&mut rng, pause_us);
            let start = Instant::now();
            rustix::io::write(&bell, &1_u64.to_ne_bytes())?;
            while rung.load(Ordering::Acquire) < count {
                std::hint::spin_loop();
            }
            times.push(u64::try_from(start.elapsed().as_nanos())?);
        }
        Ok(ranks(times))
    })
}

fn pause(rng: &mut SplitMix64, (least, most): (u64, u64)) {
    thread::sleep(Duration::from_micros(least + rng.below(most - least)));
}

/// How long holds and releases take: the ranks of both. `is_direct`: the urgent process holds the
/// other one itself, as the library does, until the daemon has decided.
fn latency(
    node: &Node,
    is_direct: bool,
    samples: usize,
    pause_us: (u64, u64),
) -> Result<(Ranks, Ranks), Box<dyn Error>> {
    let other = node.process(-100)?;
    other.load.note(true);
    let (mut rng, mut closed, mut opened) = (SplitMix64::new(7), Vec::new(), Vec::new());
    let mut measure = |note: &dyn Fn(bool)| -> Result<(), Box<dyn Error>> {
        for _ in 0..samples {
            pause(&mut rng, pause_us);
            closed.push(until_other(note, true, &other.page)?);
            thread::sleep(Duration::from_micros(rng.below(500)));
            opened.push(until_other(note, false, &other.page)?);
        }
        Ok(())
    };
    if is_direct {
        let link = Link::join(node.socket(), "urgent", 100, None)?;
        let unit = link.unit(GPU.to_owned());
        let page = unit.page()?;
        let start = Instant::now();
        while page.header().direct_holds.load(Ordering::Relaxed) == 0 {
            if start.elapsed() > PATIENCE {
                return Err("the urgent process holds nothing itself".into());
            }
            until_other(&|busy| unit.note(busy), true, &other.page)?;
            until_other(&|busy| unit.note(busy), false, &other.page)?;
        }
        measure(&|busy| unit.note(busy))?;
    } else {
        let urgent = node.process(100)?;
        measure(&|busy| urgent.load.note(busy))?;
    }
    Ok((ranks(closed), ranks(opened)))
}

/// Begins or ends work, and answers after how many nanoseconds the gates of the other are closed,
/// or open.
fn until_other(
    note: &dyn Fn(bool),
    closed: bool,
    other: &SharedPage,
) -> Result<u64, Box<dyn Error>> {
    let start = Instant::now();
    note(closed);
    while other.is_closed(LAST) != closed {
        if start.elapsed() > PATIENCE {
            return Err("the daemon does nothing".into());
        }
        std::hint::spin_loop();
    }
    Ok(u64::try_from(start.elapsed().as_nanos())?)
}

fn ranks(mut times_ns: Vec<u64>) -> Ranks {
    times_ns.sort_unstable();
    let at = |part: usize| times_ns[(times_ns.len() * part / 100).min(times_ns.len() - 1)];
    (at(50), at(99))
}

/// Prints what the daemon costs while nothing happens; whether the goal was reached.
fn idle_cost(
    node: &mut Node,
    idle: usize,
    each_kib: f64,
    mode: Mode,
) -> Result<bool, Box<dyn Error>> {
    let time = Duration::from_millis(if mode.smoke() { 100 } else { 10_000 });
    let (before, start) = (node.processor_ns()?, Instant::now());
    thread::sleep(time);
    let used_ns = (node.processor_ns()? - before) as f64;
    let percent = 100.0 * used_ns / start.elapsed().as_nanos() as f64;
    println!("{idle} idle processes: {percent:.3} % of a core, {each_kib:.1} KiB each");
    let (core, memory) = IDLE_GOAL;
    let goal = format!("they cost {core} % of a core and {memory} KiB each at most");
    Ok(judge(&goal, percent <= core && each_kib <= memory))
}

/// Runs the daemon until this process is killed.
fn serve(socket: PathBuf) -> Result<ExitCode, Box<dyn Error>> {
    let policy: Any = "hpf".parse().map_err(|error: UnknownPolicy| error.to_string())?;
    let _daemon = Daemon::start(&Settings { socket, policy, is_open: false })?;
    loop {
        thread::park();
    }
}

/// A daemon in a process of its own, and the folder of its socket.
#[derive(Debug)]
struct Node {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl Node {
    fn start() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.env(AS_DAEMON, folder.path().join("socket")).stdout(Stdio::null());
        let node = Self { daemon: command.spawn()?, folder };
        let start = Instant::now();
        while Wire::connect(&node.socket(), PATIENCE).is_err() {
            if start.elapsed() > PATIENCE {
                return Err("the daemon does not listen".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(node)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn process(&self, priority: i32) -> Result<Process, NodeError> {
        Process::connect(&self.socket(), priority)
    }

    /// Text of a file of the daemon's below `/proc`.
    fn said(&self, file: &str) -> std::io::Result<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.daemon.id()))
    }

    /// The memory that it has, with pages that it shares.
    fn memory_kib(&self) -> Result<f64, Box<dyn Error>> {
        let said = self.said("status")?;
        let line = said.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?.parse()?)
    }

    /// The processor time that it has used, all its threads together.
    fn processor_ns(&self) -> Result<u64, Box<dyn Error>> {
        let mut sum = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.daemon.id()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            sum += text.split_whitespace().next().ok_or("no time")?.parse::<u64>()?;
        }
        Ok(sum)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// A connection that stands for a process on the GPU.
#[derive(Debug)]
struct Process {
    _wire: Wire,
    page: Arc<SharedPage>,
    load: Load,
}

impl Process {
    fn connect(socket: &Path, priority: i32) -> Result<Self, NodeError> {
        let wire = Wire::connect(socket, PATIENCE)?;
        let name = "bench".to_owned();
        let hello = Request::Hello { version: VERSION, name, priority, share: None, gang: None };
        let (_, doorbell) = wire.ask(&hello, None)?;
        let doorbell: OwnedFd = doorbell.ok_or(NodeError::Unexpected)?;
        let page = Arc::new(SharedPage::create()?);
        wire.ask(
            &Request::Attach { device: GPU.to_owned(), side_by_side: false },
            Some(page.as_fd()),
        )?;
        let load = Load::new(Arc::clone(&page), Arc::new(doorbell));
        Ok(Self { _wire: wire, page, load })
    }
}
