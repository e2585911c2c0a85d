//! Cost of the queue machine alone, on a device that does nothing: commands, orders, reports.

use std::error::Error;
use std::process::ExitCode;

use criterion::Criterion;
use xsched_benches::machine::{Machine, Work, times};
use xsched_benches::measure::{CpuTime, Times, criterion};
use xsched_benches::mode::Mode;
use xsched_core::hal::{NoMoreQueues, Noop, NoopQueue};

const RUNS: usize = 9;
const COUNT: u64 = 1_000_000;
const COUNT_SMOKE: u64 = 1_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mode = Mode::from_args();
    if mode.figures() {
        figures(mode)?;
    }
    if mode.criterion() {
        let mut criterion = criterion();
        group(&mut criterion)?;
        criterion.final_summary();
    }
    Ok(mode.exit_code(true))
}

fn text(_: NoMoreQueues) -> &'static str {
    "the device has no queue"
}

fn figures(mode: Mode) -> Result<(), Box<dyn Error>> {
    let (count, runs) = if mode.smoke() { (COUNT_SMOKE, 1) } else { (COUNT, RUNS) };
    println!("Nanoseconds of the queue machine and its driver, on a device that does nothing:");
    println!("{runs} runs of {count} times each.\n");
    println!("{:<28} {:>8} {:>8} {:>8} {:>9}", "work", "median", "worst", "best", "reports");
    for work in Work::ALL {
        let seen = times(work, count).map_err(text)?;
        let measured = Times::of(runs, || {
            // It worked before.
            let _ = times(work, count);
            count
        });
        let reports = seen.reports as f64 / count as f64;
        let [median, worst, best] = [measured.median_ns(), measured.worst_ns(), measured.best_ns()];
        println!("{:<28} {median:>8.1} {worst:>8.1} {best:>8.1} {reports:>9.2}", work.name());
    }
    println!();
    Ok(())
}

fn group(criterion: &mut Criterion<CpuTime>) -> Result<(), Box<dyn Error>> {
    let mut group = criterion.benchmark_group("queue_machine");
    for work in Work::ALL {
        let queues = [NoopQueue::default()];
        let mut machine = Machine::new(&mut Noop::new(&queues), work).map_err(text)?;
        group.bench_function(work.name(), |b| {
            b.iter(|| {
                machine.once(work);
                machine.seen
            });
        });
    }
    group.finish();
    Ok(())
}
