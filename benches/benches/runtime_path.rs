//! Cost of a command in the runtime, on devices that do nothing. Times on the wall: the work of
//! other threads of the runtime beside the caller is part of the matter.

use std::alloc::System;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use criterion::Criterion;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_benches::clockwork::Clockwork;
use xsched_benches::measure::process_time;
use xsched_benches::mode::{Mode, judge};
use xsched_benches::staging::Staging;
use xsched_benches::tiny::tiny_ns;
use xsched_core::hal::{Noop, NoopQueue};
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::window::WindowConfig;
use xsched_hal_host::{HostConfig, HostDevice};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RUNS: usize = 2_000;
const COUNT: u64 = 1_000;
const QUEUES: usize = 4;
/// Queues beside each other, where there are processors for them.
const MANY: usize = 12;
/// Queues of which none has anything to do.
const IDLE: usize = 100;
const PLACES: usize = QUEUES + MANY + IDLE;

static HARDWARE: [NoopQueue; PLACES] = [const { NoopQueue::new() }; PLACES];

type Unpleasant = Box<dyn Error>;

/// How much to do.
#[derive(Clone, Copy)]
struct Amount {
    runs: usize,
    count: u64,
    smoke: bool,
}

fn submit(queue: &XQueue<u64>, count: u64) {
    for n in 0..count {
        // The device is never lost.
        let _ = queue.submit(n);
    }
}

fn round_trip(queue: &XQueue<u64>, count: u64) {
    for n in 0..count {
        if let Ok(ticket) = queue.submit(n) {
            let _ = queue.wait(ticket);
        }
    }
}

fn hold(queue: &XQueue<u64>, count: u64) {
    for _ in 0..count.div_ceil(2) {
        queue.suspend(Level::Block);
        queue.resume();
    }
}

fn main() -> Result<ExitCode, Unpleasant> {
    let mode = Mode::from_args();
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(Noop::<u64>::new(&HARDWARE))?;
    let queues: Vec<_> =
        (0..QUEUES).map(|_| device.queue(config(), ())).collect::<Result<_, _>>()?;
    let mut reached = true;
    if mode.figures() {
        let smoke = mode.smoke();
        let (runs, count) = if smoke { (1, 10) } else { (RUNS, COUNT) };
        let amount = Amount { runs, count, smoke };
        println!(
            "Nanoseconds on the wall in the runtime, the median of {runs} runs of {count} times"
        );
        println!("each; policy hpf, threshold 16, batch 8; a device that does nothing, at once.\n");
        reached = paths(amount, &queues);
        reached &= side_by_side(amount, &device)?;
        reached &= notices(amount)?;
        reached &= commits(amount)?;
        reached &= tiny(amount)?;
        println!();
        reached &= allocations(amount, &queues[0]);
        reached &= idle(amount, &device)?;
        reached = judge("every figure is within its goal", reached);
    }
    if mode.criterion() {
        group(&queues[0]);
    }
    Ok(mode.exit_code(reached))
}

fn config() -> XQueueConfig {
    XQueueConfig::default().with_window(WindowConfig::fixed(16, 8))
}

/// Prints a line; true if the figure is within its goal.
fn line(what: &str, ns: f64, goal_ns: f64) -> bool {
    println!("{what:<58} {ns:>9.1} {goal_ns:>9.0}");
    ns <= goal_ns
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// Nanoseconds per unit: the median over the runs.
fn median(amount: Amount, mut work: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / amount.count as f64
    };
    middle((0..amount.runs).map(once).collect())
}

fn paths(amount: Amount, queues: &[XQueue<u64>]) -> bool {
    let (queue, count) = (&queues[0], amount.count);
    println!("{:<58} {:>9} {:>9}", "work", "median", "goal");
    let mut reached = true;
    let ns = median(amount, || submit(queue, count));
    reached &= line("submit, no other thread active", ns, 60.0);
    let ns = beside_a_busy_reaper(&queues[1], || median(amount, || submit(queue, count)));
    reached &= line("submit, the reaper spins for another queue", ns, 150.0);
    let ns = slowest(&on_threads(amount, &queues[..QUEUES]));
    reached &= line("submit, 4 queues on 4 threads", ns, 250.0);
    let ns = median(amount, || round_trip(queue, count));
    reached &= line("submit and wait, the caller polls", ns, 1_000.0);
    let ns = median(amount, || hold(queue, count));
    reached & line("suspend or resume, each", ns, 200.0)
}

/// Keeps the reaper of the device awake meanwhile: it never rests while it is told to hurry.
fn beside_a_busy_reaper(other: &XQueue<u64>, work: impl FnOnce() -> f64) -> f64 {
    other.suspend(Level::Block);
    // What cannot be launched is waited for until the end.
    let ticket = other.submit(0);
    let stop = AtomicBool::new(false);
    let ns = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut context = Context::from_waker(Waker::noop());
            while let Ok(ticket) = ticket
                && !stop.load(Ordering::Relaxed)
            {
                let _ = pin!(other.completion(ticket)).poll(&mut context);
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        let ns = work();
        stop.store(true, Ordering::Relaxed);
        ns
    });
    other.resume();
    ns
}

/// Nanoseconds per command that each of the threads sees.
fn on_threads(amount: Amount, queues: &[XQueue<u64>]) -> Vec<f64> {
    let amount = Amount { runs: amount.runs.min(200), ..amount };
    std::thread::scope(|scope| {
        let start = |queue| scope.spawn(move || median(amount, || submit(queue, amount.count)));
        let threads: Vec<_> = queues.iter().map(start).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

fn slowest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

/// Queues on threads of their own must not be in each other's way. Shown only where each of them,
/// and each thread of the runtime, has a processor.
fn side_by_side(amount: Amount, device: &Device<Noop<'static, u64>>) -> Result<bool, Unpleasant> {
    let cores = std::thread::available_parallelism()?.get();
    if cores < MANY + 4 {
        println!("{MANY} queues on {MANY} threads: not shown, {cores} cores; needs {}", MANY + 4);
        return Ok(true);
    }
    let queues: Vec<_> = (0..MANY).map(|_| device.queue(config(), ())).collect::<Result<_, _>>()?;
    let lone = middle(on_threads(amount, &queues[..1]));
    let many = on_threads(amount, &queues);
    println!("slowest of the {MANY} threads of the next line: {:.1}", slowest(&many));
    let what = format!("submit, {MANY} queues on {MANY} threads; goal 1.5 times 1 on 1: {lone:.1}");
    Ok(line(&what, middle(many), lone * 1.5))
}

/// How late a completion is noticed.
fn notices(amount: Amount) -> Result<bool, Unpleasant> {
    let count = if amount.smoke { 3 } else { 1_000 };
    let runtime = Runtime::new(Hpf::default())?;
    let awake = Clockwork::new(Duration::from_micros(2), false);
    let queue = runtime.device(awake.clone())?.queue(config(), ())?;
    let ns = middle((0..count).filter_map(|n| noticed(&awake, || park(&queue, n))).collect());
    println!("{:<58} {:>9.1}", "a sleeping thread wakes on this machine", wake_ns(count));
    let mut reached = line("end to parked waiter, the reaper spins", ns, 10_000.0);
    let asleep = Clockwork::new(Duration::from_micros(500), true);
    let queue = runtime.device(asleep.clone())?.queue(config(), ())?;
    let ns = middle((0..count).filter_map(|n| noticed(&asleep, || wait(&queue, n))).collect());
    reached &= line("end to parked waiter, both asleep, the device wakes", ns, 40_000.0);
    let ns = middle((0..count).filter_map(|n| noticed(&asleep, || park(&queue, n))).collect());
    Ok(reached & line("the same for a future", ns, 40_000.0))
}

/// Time of the machine to wake a thread that has slept for a moment.
fn wake_ns(count: u64) -> f64 {
    let (begin, begun) = std::sync::mpsc::channel::<Instant>();
    let (end, ended) = std::sync::mpsc::channel::<Duration>();
    let sleeper = std::thread::spawn(move || {
        for start in begun {
            if end.send(start.elapsed()).is_err() {
                return;
            }
        }
    });
    let once = |_| {
        std::thread::sleep(Duration::from_micros(500));
        begin.send(Instant::now()).ok()?;
        Some(ended.recv().ok()?.as_nanos() as f64)
    };
    let ns = middle((0..count).filter_map(once).collect());
    drop(begin);
    let _ = sleeper.join();
    ns
}

/// How late a commit comes, and how late a queue says that it is held, where steps are staged: what
/// the thread that commits adds to what the device takes.
fn commits(amount: Amount) -> Result<bool, Unpleasant> {
    let count = if amount.smoke { 3 } else { 1_000 };
    let device = Staging::default();
    let queue = Runtime::new(Hpf::default())?.device(device.clone())?.queue(config(), ())?;
    queue.submit(0).map_err(|_| "a queue with room takes a command")?;
    let reached = |done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            if start.elapsed() > Duration::from_secs(10) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    };
    let hold = |state: HoldState| queue.stats().hold == state;
    let (mut begun, mut held) = (Vec::new(), Vec::new());
    for _ in 0..count {
        std::thread::sleep(Duration::from_micros(500));
        let _ = device.take_commit();
        let start = Instant::now();
        queue.suspend(Level::Deactivate);
        if !reached(&|| hold(HoldState::Held(Level::Deactivate))) {
            return Err("a hold had no effect within 10 s".into());
        }
        held.push(start.elapsed().as_nanos() as f64);
        begun.extend(device.take_commit().map(|at| at.duration_since(start).as_nanos() as f64));
        queue.resume();
        if !reached(&|| hold(HoldState::Running)) {
            return Err("the end of a hold had no effect within 10 s".into());
        }
    }
    // Or a thread would look for its end while the next figures are taken.
    device.end();
    queue.wait_all();
    let begun = line("hold to the commit of its step", middle(begun), 40_000.0);
    Ok(begun & line("the same, until the queue says that it is held", middle(held), 60_000.0))
}

fn noticed(device: &Clockwork, work: impl FnOnce() -> Option<()>) -> Option<f64> {
    work()?;
    Some(device.since_the_end().as_nanos() as f64)
}

fn wait(queue: &XQueue<u64>, n: u64) -> Option<()> {
    queue.wait(queue.submit(n).ok()?).ok()
}

/// Waits for a command, always by parking.
fn park(queue: &XQueue<u64>, n: u64) -> Option<()> {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut completion = pin!(queue.completion(queue.submit(n).ok()?));
    loop {
        match completion.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => return outcome.ok(),
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Cost of the runtime for a lone command that wakes a thread of the device.
fn tiny(amount: Amount) -> Result<bool, Unpleasant> {
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(HostDevice::new(HostConfig::default())?)?;
    let queue = device.queue(config(), ())?;
    let (plain, queued) = tiny_ns(if amount.smoke { 3 } else { 20_000 }, &queue)?;
    println!("{:<58} {plain:>9}", "a lone tiny command, straight on the host device");
    Ok(line("what the runtime adds to that", queued as f64 - plain as f64, 2_000.0))
}

/// After warming up, commands must allocate nothing, on whatever thread.
fn allocations(amount: Amount, queue: &XQueue<u64>) -> bool {
    let count = amount.count * 10;
    let work = || {
        submit(queue, count);
        round_trip(queue, count);
        queue.suspend(Level::Block);
        for n in 0..64 {
            let _ = queue.try_submit(n);
        }
        queue.resume();
        queue.wait_all();
    };
    work();
    let region = Region::new(ALLOCATIONS);
    work();
    let made = region.change().allocations;
    println!("{made} allocations for {} commands, on all threads (goal 0)", 2 * count + 64);
    made == 0
}

/// Processor time of the whole process while nothing happens.
fn idle(amount: Amount, device: &Device<Noop<'static, u64>>) -> Result<bool, Unpleasant> {
    let queues: Vec<_> = (0..IDLE).map(|_| device.queue(config(), ())).collect::<Result<_, _>>()?;
    for queue in &queues {
        round_trip(queue, 3);
    }
    let span = Duration::from_millis(if amount.smoke { 10 } else { 2_000 });
    // Until those that watch have gone to rest.
    std::thread::sleep(span / 2);
    let (start, used) = (Instant::now(), process_time());
    std::thread::sleep(span);
    let used = process_time() - used;
    let percent = used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    println!("{percent:.2} % of a core with {IDLE} idle queues over {span:?} (goal 0.5)");
    Ok(percent < 0.5)
}

fn group(queue: &XQueue<u64>) {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("runtime_path");
    group.bench_function("submit", |b| b.iter(|| submit(queue, 1)));
    group.bench_function("submit and wait", |b| b.iter(|| round_trip(queue, 1)));
    group.bench_function("hold and resume", |b| b.iter(|| hold(queue, 2)));
    group.finish();
    criterion.final_summary();
}
