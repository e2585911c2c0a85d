//! What a command costs in the runtime, on a device that does nothing. Times on the wall: what
//! other threads of the runtime do beside the caller is part of the matter.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use criterion::Criterion;
use xsched::core::hal::{Noop, NoopQueue};
use xsched::core::level::Level;
use xsched::core::window::WindowConfig;
use xsched::policies::hpf::Hpf;
use xsched::{Runtime, XQueue, XQueueConfig};
use xsched_benches::mode::{Mode, judge};

const RUNS: usize = 2_000;
const COUNT: u64 = 1_000;
const QUEUES: usize = 4;

static HARDWARE: [NoopQueue; QUEUES] = [const { NoopQueue::new() }; QUEUES];

/// A kind of work: its name, its goal in nanoseconds, and how it is done so many times.
type Work = (&'static str, f64, fn(&XQueue<u64>, u64));

const WORK: [Work; 3] = [
    ("submit", 60.0, submit),
    ("submit and wait, polling", 1_000.0, round_trip),
    ("hold and resume by hand, each", 200.0, hold),
];

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
        queue.hold(Level::Block);
        queue.resume();
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mode = Mode::from_args();
    let runtime = Runtime::new(Hpf)?;
    let device = runtime.device(Noop::<u64>::new(&HARDWARE))?;
    let config = XQueueConfig { window: WindowConfig::fixed(16, 8), ..XQueueConfig::default() };
    let mut queues = Vec::new();
    for _ in 0..QUEUES {
        queues.push(device.queue(config, ())?);
    }
    let mut reached = true;
    if mode.figures() {
        reached = figures(mode, &queues);
    }
    if mode.criterion() {
        group(&queues[0]);
    }
    Ok(mode.exit_code(reached))
}

/// Nanoseconds per unit: the median over the runs.
fn median(runs: usize, count: u64, mut work: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / count as f64
    };
    let mut times: Vec<f64> = (0..runs).map(once).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn figures(mode: Mode, queues: &[XQueue<u64>]) -> bool {
    let (runs, count) = if mode.smoke() { (1, 10) } else { (RUNS, COUNT) };
    println!(
        "Nanoseconds on the wall in the runtime, on a device that does nothing: the median of"
    );
    println!(
        "{runs} runs of {count} times each; policy hpf, threshold 16, batch 8; the reaper and the"
    );
    println!("scheduler are awake beside the caller.\n");
    println!("{:<40} {:>8} {:>8}", "work", "median", "goal");
    let mut reached = true;
    for (name, goal_ns, work) in WORK {
        let ns = median(runs, count, || work(&queues[0], count));
        println!("{name:<40} {ns:>8.1} {goal_ns:>8}");
        reached &= ns <= goal_ns;
    }
    let ns = on_threads(runs.min(200), count, queues);
    println!("{:<40} {ns:>8.1} {:>8}", "submit, 4 queues on 4 threads", 250);
    reached &= ns <= 250.0;
    println!();
    judge("every median is within its goal", reached)
}

/// Nanoseconds per command that each of the threads sees.
fn on_threads(runs: usize, count: u64, queues: &[XQueue<u64>]) -> f64 {
    let mut medians: Vec<f64> = std::thread::scope(|scope| {
        let start = |queue| scope.spawn(move || median(runs, count, || submit(queue, count)));
        let threads: Vec<_> = queues.iter().map(start).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    medians.sort_by(f64::total_cmp);
    medians.last().copied().unwrap_or(f64::INFINITY)
}

fn group(queue: &XQueue<u64>) {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("runtime_path");
    for (name, _, work) in WORK {
        group.bench_function(name, |b| b.iter(|| work(queue, 2)));
    }
    group.finish();
    criterion.final_summary();
}
