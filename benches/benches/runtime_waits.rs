//! How long threads wait in the runtime: for completions of devices that say nothing, for room, and
//! for threads of low priority on a machine that is busy. Times on the wall.

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_benches::clockwork::Clockwork;
use xsched_benches::mode::{Mode, judge};
use xsched_core::hal::{Noop, NoopQueue};
use xsched_core::hint::Priority;
use xsched_core::level::Level;
use xsched_core::window::WindowConfig;

type Unpleasant = Box<dyn Error>;

/// Threads of low priority that submit, each to a queue of its own.
const BACKGROUND: usize = 4;
/// The nice value of threads of low priority, and of the thread that must not wait for them.
const LOW: i32 = 19;
const URGENT: i32 = -10;

static HARDWARE: [NoopQueue; BACKGROUND + 1] = [const { NoopQueue::new() }; BACKGROUND + 1];

fn main() -> Result<ExitCode, Unpleasant> {
    let mode = Mode::from_args();
    let smoke = mode.smoke();
    println!("Microseconds on the wall in the runtime; policy hpf, threshold 16, batch 8\n");
    println!("{:<62} {:>9} {:>9}", "work", "figure", "goal");
    let mut reached = silent(if smoke { 3 } else { 2_000 })?;
    reached &= after_a_hold(if smoke { 1 } else { 9 })?;
    reached &= room(Duration::from_millis(if smoke { 10 } else { 2_000 }))?;
    reached &= same_queue(if smoke { 4 } else { 400 })?;
    reached &= other_queues(Duration::from_millis(if smoke { 10 } else { 10_000 }))?;
    Ok(mode.exit_code(judge("every figure is within its goal", reached)))
}

fn config() -> XQueueConfig {
    XQueueConfig::default().with_window(WindowConfig::fixed(16, 8))
}

/// Prints a line; true if the figure is within its goal.
fn line(what: &str, us: f64, goal_us: f64) -> bool {
    println!("{what:<62} {us:>9.1} {goal_us:>9.0}");
    us <= goal_us
}

/// The value below which this many percent are.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).map_or(f64::INFINITY, |time| time.as_secs_f64() * 1e6)
}

/// How late a thread and a future see the end of a command, on a device that neither wakes nor
/// forecasts.
fn silent(count: u64) -> Result<bool, Unpleasant> {
    let clockwork = Clockwork::new(Duration::from_micros(100), false);
    let queue = Runtime::new(Hpf::default())?.device(clockwork.clone())?.queue(config(), ())?;
    let mut late = (Vec::new(), Vec::new());
    for n in 0..count {
        let ticket = queue.submit(n)?;
        queue.wait(ticket)?;
        late.0.push(clockwork.since_the_end());
        let ticket = queue.submit(n)?;
        block_on(queue.completion(ticket))?;
        late.1.push(clockwork.since_the_end());
    }
    let (wait, future) = (percentile(&mut late.0, 50), percentile(&mut late.1, 50));
    println!("{:<62} {future:>9.1}", "100 us on a silent device, end to a future, P50");
    Ok(line("the same to a thread that waits; goal 20 more", wait, future + 20.0))
}

/// How long 8,000 commands take after a hold on a device that is silent, with and without a thread
/// that waits for the last of them.
fn after_a_hold(runs: usize) -> Result<bool, Unpleasant> {
    let clockwork = Clockwork::new(Duration::ZERO, false);
    let device = Runtime::new(Hpf::default())?.device(clockwork)?;
    let queue = device.queue(config().with_capacity(8_192), ())?;
    let run = |awaited: bool| -> Result<Duration, Unpleasant> {
        queue.suspend(Level::Block);
        let mut last = queue.submit(0)?;
        for n in 1..8_000 {
            last = queue.submit(n)?;
        }
        let waiting = queue.clone();
        let waiter = awaited.then(|| std::thread::spawn(move || waiting.wait(last)));
        std::thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        queue.resume();
        while queue.stats().retired <= last.number() {
            std::thread::sleep(Duration::from_micros(500));
        }
        let took = start.elapsed();
        waiter.map(|thread| thread.join().map_err(|_| "a waiter panicked")).transpose()?;
        Ok(took)
    };
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..runs {
        times.0.push(run(true)?);
        times.1.push(run(false)?);
    }
    let (awaited, alone) = (percentile(&mut times.0, 50), percentile(&mut times.1, 50));
    println!("{:<62} {alone:>9.1}", "8,000 no-ops after a hold, no thread waits");
    Ok(line("the same while one waits; goal a quarter more", awaited, alone * 1.25))
}

/// A thread that waits for room beside one that always tries.
fn room(span: Duration) -> Result<bool, Unpleasant> {
    let clockwork = Clockwork::new(Duration::from_micros(5), false);
    let device = Runtime::new(Hpf::default())?.device(clockwork)?;
    let queue = device.queue(config().with_capacity(4), ())?;
    let stop = AtomicBool::new(false);
    let (mut waits, tried) = std::thread::scope(|scope| {
        let tries = scope.spawn(|| {
            let mut taken = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                taken += u64::from(queue.try_submit(0).is_ok());
            }
            taken
        });
        let (begun, mut waits) = (Instant::now(), Vec::new());
        while begun.elapsed() < span {
            let start = Instant::now();
            let _ = queue.submit(1);
            waits.push(start.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
        (waits, tries.join().unwrap_or(0))
    });
    println!("submit {} times beside try_submit {tried} times", waits.len());
    let longest = percentile(&mut waits, 100);
    println!("{:<62} {:>9.1}", "the same, P50 of submit", percentile(&mut waits, 50));
    Ok(line("the same, the longest submit", longest, 50_000.0))
}

/// Threads that keep all processors busy while they are told to.
struct Hogs {
    on: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Hogs {
    fn start() -> Result<Self, Unpleasant> {
        let hogs = Self { on: Arc::default(), stop: Arc::default() };
        for _ in 0..std::thread::available_parallelism()?.get() {
            let (on, stop) = (Arc::clone(&hogs.on), Arc::clone(&hogs.stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if on.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    } else {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
            });
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How late an urgent thread sees the end of a command for which a thread of low priority waits in
/// front.
fn same_queue(count: u64) -> Result<bool, Unpleasant> {
    // The thread that is the device stands for an interrupt.
    be_nice(URGENT);
    let clockwork = Clockwork::new(Duration::from_millis(10), true);
    be_nice(0);
    let queue = Runtime::new(Hpf::default())?.device(clockwork.clone())?.queue(config(), ())?;
    let hogs = Hogs::start()?;
    let (begin, begun) = mpsc::channel();
    let waiting = queue.clone();
    std::thread::spawn(move || {
        be_nice(LOW);
        for ticket in begun {
            let _ = waiting.wait(ticket);
        }
    });
    let urgent = std::thread::spawn(move || -> Option<Vec<Duration>> {
        be_nice(URGENT);
        let once = |n: u64| {
            let ticket = queue.submit(n).ok()?;
            if n.is_multiple_of(2) {
                begin.send(ticket).ok()?;
            }
            std::thread::sleep(Duration::from_millis(3));
            hogs.on.store(true, Ordering::Relaxed);
            queue.wait(ticket).ok()?;
            let late = clockwork.since_the_end();
            hogs.on.store(false, Ordering::Relaxed);
            Some(late)
        };
        (0..count).map(once).collect()
    });
    let late = urgent.join().ok().flatten().ok_or("a wait has failed")?;
    let every_other = |from| late.iter().skip(from).step_by(2).copied().collect::<Vec<_>>();
    let (mut beside, mut alone) = (every_other(0), every_other(1));
    let alone = percentile(&mut alone, 90);
    println!("{:<62} {alone:>9.1}", "an urgent waiter on busy processors, P90");
    println!("{:<62} {:>9.1}", "beside a nice one, the longest", percentile(&mut beside, 100));
    let what = "the same, P90; goal 1,000 more than alone";
    Ok(line(what, percentile(&mut beside, 90), alone + 1_000.0))
}

/// How long a submit of an urgent thread takes beside threads of low priority that submit to other
/// queues, on busy processors.
fn other_queues(span: Duration) -> Result<bool, Unpleasant> {
    let device = Runtime::new(Hpf::default())?.device(Noop::<u64>::new(&HARDWARE))?;
    let hogs = Hogs::start()?;
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..BACKGROUND {
        background(&device, &stop)?;
    }
    let urgent = config().with_priority(Priority::MAX);
    let queue = device.queue(urgent, ())?;
    std::thread::sleep(span / 10);
    hogs.on.store(true, Ordering::Relaxed);
    let thread = std::thread::spawn(move || urgent_submits(&queue, span));
    let (mut submits, mut trips) = thread.join().map_err(|_| "the submitter panicked")?;
    stop.store(true, Ordering::Relaxed);
    let (longest, trip) = (percentile(&mut submits, 100), percentile(&mut trips, 100));
    println!("{:<62} {longest:>9.1}", "beside nice submitters on other queues, the longest submit");
    println!("{:<62} {trip:>9.1}", "the same, the longest submit with its wait");
    let reached = line("the same, P90 of submits", percentile(&mut submits, 90), 1_000.0);
    Ok(reached & line("the same, P90 with the wait", percentile(&mut trips, 90), 1_000.0))
}

/// A thread of low priority that submits and waits.
fn background(
    device: &Device<Noop<'static, u64>>,
    stop: &Arc<AtomicBool>,
) -> Result<(), Unpleasant> {
    let (queue, stop) = (device.queue(config(), ())?, Arc::clone(stop));
    std::thread::spawn(move || {
        be_nice(LOW);
        let mut n = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            if let Ok(ticket) = queue.submit(n)
                && n.is_multiple_of(8)
            {
                let _ = queue.wait(ticket);
            }
        }
    });
    Ok(())
}

fn urgent_submits(queue: &XQueue<u64>, span: Duration) -> (Vec<Duration>, Vec<Duration>) {
    be_nice(URGENT);
    let (begun, mut submits, mut trips) = (Instant::now(), Vec::new(), Vec::new());
    while begun.elapsed() < span {
        std::thread::sleep(Duration::from_millis(1));
        let start = Instant::now();
        let ticket = queue.submit(0);
        submits.push(start.elapsed());
        // The device is never lost.
        let _ = ticket.map(|ticket| queue.wait(ticket));
        trips.push(start.elapsed());
    }
    (submits, trips)
}

/// Sets the nice value of the calling thread; says so if it may not.
fn be_nice(value: i32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, value) {
        println!("a nice value of {value} was refused: {error}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = value;
}

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}
