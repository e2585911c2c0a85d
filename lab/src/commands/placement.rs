//! `xsched bench placement`.

use std::cell::Cell;

use clap::{Args, value_parser};

use super::args::{SpinArgs, SpinHal};
use super::common::describe;
use crate::console::Ending;
use crate::console::table::{number, table};
use crate::device::LabError;
use crate::device::gpu::Hip;
use crate::device::kfd::DriverAccess;
use crate::device::kfd::Kfd;
use crate::error::CommandError;
use crate::pace::Pace;
use crate::wait_placement::{First, Plan, Results, Rings, Row, run};

#[derive(Debug, Args)]
pub struct PlacementArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Trials for each place of the word; a P99 needs 1000.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) trials: u32,
    /// Calls of each kind, while a stream is open and while it is held.
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = value_parser!(u32).range(1..=300))]
    pub(crate) calls: u32,
    /// Streams of normal priority; the runtime gives them 4 hardware rings (GPU_MAX_HW_QUEUES).
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = value_parser!(u32).range(0..=32))]
    pub(crate) shared: u32,
    /// Streams with hardware rings of their own.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = value_parser!(u32).range(0..=16))]
    pub(crate) own: u32,
}

/// Waits for words in all places and holds streams beside others, and prints what came out.
pub(super) fn execute(args: &PlacementArgs) -> Result<Ending, CommandError> {
    let PlacementArgs { trials, calls, shared, own, .. } = *args;
    let plan = Plan { trials, calls, shared, own };
    let finding = Cell::new(false);
    super::common::run(
        "placement",
        &args.spin,
        |pace| measure(args, &plan, pace),
        |outcome| {
            finding.set(outcome.stopped.is_some());
            Ok(report(outcome))
        },
    )?;
    Ok(Ending::new(finding.get()))
}

fn measure(args: &PlacementArgs, plan: &Plan, pace: &Pace<'_>) -> Result<Results, LabError> {
    match args.spin.hal {
        SpinHal::Hip => run(&Hip::open(args.spin.device)?, &DriverAccess::nothing(), plan, pace),
        SpinHal::Kfd => {
            let kfd = Kfd::open(args.spin.device)?;
            let (hip, below) = kfd.parts();
            run(hip, &below, plan, pace)
        }
        SpinHal::Host | SpinHal::Cuda => {
            Err(LabError::new("this is about HIP's streams; use --hal hip or --hal kfd"))
        }
    }
}

fn report(outcome: &Results) -> String {
    let mut text = describe(&outcome.device);
    text += &format!("a wait for a word: {}\n", outcome.lowering);
    if let Some(rings) = &outcome.rings {
        text += &streams(rings);
    }
    text += &firsts(&outcome.firsts);
    text += &words(&outcome.words);
    for (what, why) in &outcome.left_out {
        text += &format!("left out: {what}: {why}\n");
    }
    if let Some(why) = &outcome.stopped {
        text += &format!("FAIL stopped: {why}\n");
    }
    text
}

fn streams(rings: &Rings) -> String {
    let stopped = rings.stopped();
    let rows = rings.streams.iter().map(|stream| {
        let others = |by: &dyn Fn(&str) -> bool| {
            let mine = stopped.iter().filter(|(held, _, how)| *held == stream.name && by(how));
            let names: Vec<&str> = mine.map(|(_, other, _)| *other).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let queue = stream.queue.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let at_gate = others(&|by| by == "gate");
        let by_driver = match stream.queue.filter(|_| rings.not_by_the_driver.is_none()) {
            Some(_) => others(&|by| by != "gate"),
            None => "-".to_owned(),
        };
        vec![stream.name.clone(), queue, at_gate, by_driver]
    });
    let header = ["<stream", "queue", "<its gate stops", "<the driver's hold stops"];
    let mut text = table("what stands still while a stream is held", &header, rows);
    if let Some(stream) = rings.streams.iter().find(|stream| stream.no_queue.is_some()) {
        let why = stream.no_queue.as_deref().unwrap_or_default();
        text += &format!("no queue of {}: {why}\n", stream.name);
    }
    text
}

fn firsts(rows: &[First]) -> String {
    let header = ["<call", "<a stream is", "P50", "P95", "max", "waited for it", "<error"];
    let rows = rows.iter().map(|row| {
        let us = |value| number((row.time.samples > 0).then_some(value), 1);
        vec![
            row.call.clone(),
            if row.held { "held" } else { "open" }.to_owned(),
            us(row.time.p50_us),
            us(row.time.p95_us),
            us(row.time.max_us),
            row.blocked.to_string(),
            row.error.clone().unwrap_or_default(),
        ]
    });
    table("calls while a stream is held at its gate, in µs", &header, rows)
}

fn words(rows: &[Row]) -> String {
    let header = [
        "<word in",
        "<written by",
        "trials",
        "P50",
        "P99",
        "max",
        "unsure by",
        "ran while closed",
        "<error",
    ];
    let rows = rows.iter().map(|row| {
        let us = |value| number((row.latency.samples > 0).then_some(value), 1);
        vec![
            row.place.clone(),
            row.written_by.clone(),
            row.latency.samples.to_string(),
            us(row.latency.p50_us),
            number(row.latency.p99_us, 1),
            us(row.latency.max_us),
            us(row.unsure_us),
            row.passed.to_string(),
            row.error.clone().unwrap_or_default(),
        ]
    });
    table("from the write to the first instruction behind the wait, in µs", &header, rows)
}
