//! Simulated commands per second with eight queues on one device, checkers off and on.

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;

use criterion::{Criterion, Throughput};
use xsched_benches::measure::{CpuTime, Times, criterion, millions_per_second};
use xsched_benches::mode::{Mode, judge};
use xsched_benches::throughput::{Simulation, VARIANTS, Variant};

/// Millions of commands per second, checkers off and on.
const GOALS: [f64; 2] = [3.0, 1.5];
/// Simulated time of a run for the figures, and of one for criterion.
const FIGURE_SECONDS: u64 = 50;
const SAMPLE_SECONDS: u64 = 5;
const RUNS: usize = 7;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mode = Mode::from_args();
    let reached = !mode.figures() || figures(mode)?;
    if mode.criterion() {
        let mut criterion = criterion();
        for checks in [false, true] {
            group(&mut criterion, checks)?;
        }
        criterion.final_summary();
    }
    Ok(mode.exit_code(reached))
}

/// Prints the table; whether the goals were reached.
fn figures(mode: Mode) -> Result<bool, Box<dyn Error>> {
    let (seconds, runs) = if mode.smoke() { (1, 1) } else { (FIGURE_SECONDS, RUNS) };
    println!(
        "Millions of simulated commands per second of one core: {runs} runs of {seconds} s of"
    );
    println!(
        "simulated time each, eight queues on one device (benches/scenarios/throughput.toml).\n"
    );
    let head = ["variant", "checkers", "median", "worst", "best", "commands", "events", "holds"];
    row(&head.map(str::to_owned));
    let mut reached = true;
    for (number, variant) in VARIANTS.iter().enumerate() {
        for (checks, goal) in [false, true].into_iter().zip(GOALS) {
            let speed = line(variant, checks, seconds, runs)?;
            reached &= number > 0 || speed >= goal;
        }
    }
    println!();
    let ([off, on], name) = (GOALS, VARIANTS[0].name);
    let goal = format!("{name}: the median is at least {off} with checkers off and {on} on");
    Ok(mode.smoke() || judge(&goal, reached))
}

fn row(cells: &[String; 8]) {
    let [variant, checkers, numbers @ ..] = cells;
    print!("{variant:<32} {checkers:<8}");
    numbers.iter().for_each(|number| print!(" {number:>8}"));
    println!();
}

/// Measures one line of the table; returns the median.
fn line(variant: &Variant, checks: bool, seconds: u64, runs: usize) -> Result<f64, Box<dyn Error>> {
    let simulation = Simulation::new(variant, seconds, checks)?;
    let done = simulation.run()?;
    let times = Times::of(runs, || simulation.run().map_or(0, |done| black_box(done).commands));
    let speed = |ns: f64| format!("{:.2}", millions_per_second(ns));
    row(&[
        variant.name.to_owned(),
        if checks { "on" } else { "off" }.to_owned(),
        speed(times.median_ns()),
        speed(times.worst_ns()),
        speed(times.best_ns()),
        done.commands.to_string(),
        done.events.to_string(),
        done.preemptions.to_string(),
    ]);
    Ok(millions_per_second(times.median_ns()))
}

fn group(criterion: &mut Criterion<CpuTime>, checks: bool) -> Result<(), Box<dyn Error>> {
    let name = if checks { "sim_checkers_on" } else { "sim_checkers_off" };
    let mut group = criterion.benchmark_group(name);
    for variant in &VARIANTS {
        let simulation = Simulation::new(variant, SAMPLE_SECONDS, checks)?;
        group.throughput(Throughput::Elements(simulation.run()?.commands));
        group.bench_function(variant.name, |b| b.iter(|| simulation.run()));
    }
    group.finish();
    Ok(())
}
