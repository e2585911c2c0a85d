//! Cost of an event of the scheduler with 10 to 10,000 queues, and of the orders that it causes.

use std::error::Error;
use std::process::ExitCode;

use criterion::{BenchmarkId, Criterion};
use xsched_benches::measure::{CpuTime, Times, criterion};
use xsched_benches::mode::{Mode, judge};
use xsched_benches::scale::{Crowd, SIZES, Work};
use xsched_core::scheduler::SchedulerError;
use xsched_policies::{Any, UnknownPolicy};

/// Highest cost of an event with the most queues, over that with the fewest, besides the orders
/// that it causes.
const GOAL: f64 = 4.0;
const POLICIES: [&str; 2] = ["hpf", "fcfs"];
const RUNS: usize = 15;
/// Events of a run, or orders if there are more of them.
const EVENTS: u64 = 100_000;
const EVENTS_SMOKE: u64 = 1_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mode = Mode::from_args();
    let reached = !mode.figures() || figures(mode)?;
    if mode.criterion() {
        let mut criterion = criterion();
        for policy in POLICIES {
            group(&mut criterion, policy)?;
        }
        criterion.final_summary();
    }
    Ok(mode.exit_code(reached))
}

/// Cost of one kind of event with one number of queues.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Nanoseconds of an event with all its orders.
    event_ns: f64,
    /// Orders of an event.
    orders: f64,
}

/// A figure for each number of queues.
type BySize<T> = [T; SIZES.len()];
const MOST: usize = SIZES.len() - 1;

/// Prints the tables; whether the goal was reached.
fn figures(mode: Mode) -> Result<bool, Box<dyn Error>> {
    let runs = if mode.smoke() { 1 } else { RUNS };
    println!(
        "Nanoseconds per event of the scheduler, and in brackets orders per event, by number of"
    );
    println!("queues on one device: the median of {runs} runs, with all orders taken.\n");
    let mut reached = true;
    for policy in POLICIES {
        reached &= table(policy, mode)?;
    }
    let (few, many) = (SIZES[0], SIZES[MOST]);
    println!(
        "allowed: {GOAL} x what the event costs with {few} queues without its orders, and what the"
    );
    println!(
        "orders cost with {many} (an order: what line 2 costs more than line 1, per order).\n"
    );
    let goal = format!("no report with {many} queues costs more than is allowed");
    Ok(mode.smoke() || judge(&goal, reached))
}

/// Prints the table of a policy; whether the goal was reached.
fn table(policy: &str, mode: Mode) -> Result<bool, Box<dyn Error>> {
    print!("{policy:<24}");
    SIZES.iter().for_each(|queues| print!(" {queues:>10} {:>9}", ""));
    println!(" {:>10}", "allowed");
    let low = measure(policy, Work::Low, mode)?;
    let mut order_ns = [0.0; SIZES.len()];
    let mut reached = print_line(Work::Low, &low, &order_ns);
    for work in Work::ALL.into_iter().filter(|work| *work != Work::Low) {
        let line = measure(policy, work, mode)?;
        if work == Work::Top {
            for ((order_ns, top), low) in order_ns.iter_mut().zip(&line).zip(&low) {
                *order_ns = (top.event_ns - low.event_ns).max(0.0) / top.orders.max(1.0);
            }
        }
        reached &= print_line(work, &line, &order_ns);
    }
    if order_ns[0] > 0.0 {
        print!("{:<24}", "an order");
        order_ns.iter().for_each(|ns| print!(" {ns:>10.1} {:>9}", ""));
        println!();
    }
    println!();
    Ok(reached)
}

/// Prints a line; whether the event with the most queues costs no more than it may.
fn print_line(work: Work, line: &BySize<Cost>, order_ns: &BySize<f64>) -> bool {
    print!("{:<24}", work.name());
    for Cost { event_ns, orders } in line {
        let orders = if *orders > 0.0 { format!("({orders:.1})") } else { String::new() };
        print!(" {event_ns:>10.1} {orders:>9}");
    }
    let own_ns = (line[0].event_ns - line[0].orders * order_ns[0]).max(0.0);
    let allowed_ns = GOAL * own_ns + line[MOST].orders * order_ns[MOST];
    // The line that says what an order costs cannot be judged by it.
    let judged = work.is_report() && (work != Work::Top || line[MOST].orders == 0.0);
    let reached = !judged || line[MOST].event_ns <= allowed_ns;
    if judged {
        print!(" {allowed_ns:>10.1} {}", if reached { "met" } else { "missed" });
    }
    println!();
    reached
}

fn crowd(policy: &str, queues: usize, work: Work) -> Result<Crowd, Box<dyn Error>> {
    let policy: Any = policy.parse().map_err(|error: UnknownPolicy| error.to_string())?;
    Ok(Crowd::new(policy, queues, work).map_err(text)?)
}

fn text(error: SchedulerError) -> String {
    error.to_string()
}

/// Queues, how many events a run has, and how many orders were counted.
#[derive(Debug)]
struct Sample {
    crowd: Crowd,
    events: u64,
    orders: u64,
}

impl Sample {
    fn new(policy: &str, queues: usize, work: Work, mode: Mode) -> Result<Self, Box<dyn Error>> {
        let mut crowd = crowd(policy, queues, work)?;
        let most = if mode.smoke() { EVENTS_SMOKE } else { EVENTS };
        // Enough to see how many orders an event causes, and to have seen every queue.
        let first = (most / queues as u64).max(20);
        let (_, orders) = crowd.events(work, first).map_err(text)?;
        Ok(Self { crowd, events: (most * first / orders.max(first)).max(20), orders: 0 })
    }
}

fn measure(policy: &str, work: Work, mode: Mode) -> Result<BySize<Cost>, Box<dyn Error>> {
    let runs = if mode.smoke() { 1 } else { RUNS };
    let mut samples = Vec::new();
    for queues in SIZES {
        samples.push(Sample::new(policy, queues, work, mode)?);
    }
    let samples: &mut BySize<Sample> = samples.as_mut_slice().try_into()?;
    let times = Times::in_turn(runs, samples, |sample| {
        // It worked before.
        let (time, orders) = sample.crowd.events(work, sample.events).unwrap_or_default();
        sample.orders += orders;
        (time, sample.events)
    });
    let mut line = times.map(|times| Cost { event_ns: times.median_ns(), orders: 0.0 });
    for (cost, sample) in line.iter_mut().zip(samples) {
        cost.orders = sample.orders as f64 / (sample.events * runs as u64) as f64;
    }
    Ok(line)
}

fn group(criterion: &mut Criterion<CpuTime>, policy: &str) -> Result<(), Box<dyn Error>> {
    let mut group = criterion.benchmark_group(format!("scheduler_{policy}"));
    for work in Work::ALL {
        for queues in SIZES {
            let mut crowd = crowd(policy, queues, work)?;
            let id = BenchmarkId::new(work.name(), queues);
            group.bench_function(id, |b| {
                b.iter_custom(|count| {
                    let (time, _) = crowd.events(work, count).unwrap_or_default();
                    time
                });
            });
        }
    }
    group.finish();
    Ok(())
}
