//! `xsched bench interrupt`.

use std::cell::{Cell as Flag, RefCell};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use clap::{Args, value_parser};

use super::args::{SpinArgs, SpinHal};
use super::background::background_command;
use super::common::describe;
use crate::console::Ending;
use crate::console::table::{number, table};
use crate::device::LabError;
use crate::device::kfd::Kfd;
use crate::device::load::Kind;
use crate::error::CommandError;
use crate::interrupt::cells::{Cell, Combination, Storm};
use crate::interrupt::log;
use crate::interrupt::meanwhile::Row;
use crate::interrupt::{Event, Plan, Results, Stages, run};
use crate::pace::Pace;
use crate::stats::P99_SAMPLES;

#[derive(Debug, Args)]
pub struct InterruptArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Mechanisms, with commas between; by default all that can be used here.
    #[arg(long, value_name = "M,M", value_delimiter = ',')]
    pub(crate) mechanisms: Vec<String>,
    /// Kinds of kernels, with commas between, of alu, lds, mfma, memory, atomics, barrier, meeting
    /// and cooperative; by default all that the device has.
    #[arg(long, value_name = "K,K", value_delimiter = ',')]
    pub(crate) kinds: Vec<Kind>,
    /// Numbers of queues that are interrupted at once, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,4,24,64")]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) queues: Vec<u32>,
    /// Length of the victims' commands in microseconds.
    #[arg(long, value_name = "US", default_value_t = 2_000)]
    #[arg(value_parser = value_parser!(u64).range(100..=1_000_000))]
    pub(crate) command_us: u64,
    /// Trials of each combination; a P99 needs 1000.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) trials: u32,
    /// Interrupts of a mechanism after which results are compared, over all kinds of kernels.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=100_000_000))]
    pub(crate) interrupts: u32,
    /// Allocations, copies and first launches each, while victims rest, run and are interrupted.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u32).range(1..=300))]
    pub(crate) calls: u32,
    /// Other processes that keep the device busy in one more combination.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = value_parser!(u32).range(0..=16))]
    pub(crate) processes: u32,
    /// Go on though others have queues on the GPU, which are then interrupted as well.
    #[arg(long)]
    pub(crate) beside_others: bool,
    /// Write down everything as it happens, a JSON document in each line: what begins, and the
    /// moments of each trial.
    #[arg(long, value_name = "OUT")]
    pub(crate) events: Option<PathBuf>,
}

/// Interrupts commands in every way, and prints what came out.
pub(super) fn execute(args: &InterruptArgs) -> Result<Ending, CommandError> {
    let plan = Plan {
        mechanisms: args.mechanisms.clone(),
        kinds: args.kinds.clone(),
        queues: args.queues.clone(),
        command_ns: args.command_us * 1_000,
        trials: args.trials,
        interrupts: args.interrupts,
        calls: args.calls,
        processes: args.processes,
        beside_others: args.beside_others,
    };
    let events = args.events.as_deref().map(Events::create).transpose()?;
    let finding = Flag::new(false);
    super::common::run(
        "interrupt",
        &args.spin,
        |pace| measure(args, &plan, events.as_ref(), pace),
        |outcome| {
            finding.set(outcome.is_finding());
            Ok(report(outcome))
        },
    )?;
    events.map_or(Ok(()), Events::finish)?;
    Ok(Ending::new(finding.get()))
}

fn measure(
    args: &InterruptArgs,
    plan: &Plan,
    events: Option<&Events>,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let mut watch = log::watch();
    let launcher = |request: &_| background_command(&args.spin, request);
    let mut note = |event: &Event<'_>| {
        if let Some(events) = events {
            events.write(event);
        }
    };
    let mut stages = Stages { watch: &mut watch, events: &mut note, pace, launcher: &launcher };
    match args.spin.hal {
        SpinHal::Host => run(&crate::device::host::Host::open()?, plan, &mut stages),
        SpinHal::Kfd => run(&Kfd::open(args.spin.device)?, plan, &mut stages),
        SpinHal::Cuda | SpinHal::Hip => {
            Err(LabError::new("queues of this device have no Lv3; use --hal host or --hal kfd"))
        }
    }
}

/// A file that gets a line for each thing that happens. What begins is on the disk before it
/// begins, since the machine may not survive it.
#[derive(Debug)]
struct Events {
    file: File,
    place: String,
    failed: RefCell<Option<std::io::Error>>,
}

impl Events {
    fn create(path: &Path) -> Result<Self, CommandError> {
        let place = path.display().to_string();
        let opened = OpenOptions::new().create(true).write(true).truncate(true).open(path);
        let file = opened.map_err(|source| CommandError::Write { place: place.clone(), source })?;
        Ok(Self { file, place, failed: RefCell::new(None) })
    }

    fn write(&self, event: &Event<'_>) {
        let written = serde_json::to_vec(event).map_err(std::io::Error::other).and_then(|line| {
            (&self.file).write_all(&[&line, &b"\n"[..]].concat())?;
            if matches!(event, Event::Begin { .. }) { self.file.sync_data() } else { Ok(()) }
        });
        if let Err(error) = written {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Whether everything was written.
    fn finish(self) -> Result<(), CommandError> {
        let Self { place, failed, .. } = self;
        failed.into_inner().map_or(Ok(()), |source| Err(CommandError::Write { place, source }))
    }
}

fn report(outcome: &Results) -> String {
    let mut text = describe(&outcome.device);
    for (mechanism, why) in &outcome.refused {
        text += &format!("mechanism {mechanism} cannot be used: {why}\n");
    }
    for (name, value) in &outcome.traits {
        text += &format!("{name}: {value}\n");
    }
    text += &match &outcome.log_unread {
        Some(why) => format!("the kernel's log cannot be read, so it was not watched: {why}\n"),
        None => "the kernel's log was watched\n".to_owned(),
    };
    let steps = outcome.canary.iter().map(|step| {
        let how = step.stopped.clone().unwrap_or_else(|| "well".to_owned());
        vec![step.mechanism.clone(), step.what.clone(), how]
    });
    text += &table("first steps", &["<mechanism", "<what", "<how it ended"], steps);
    text += &cells(&outcome.cells);
    text += &storms(&outcome.storms);
    text += &meanwhile(&outcome.meanwhile);
    for (combination, why) in &outcome.failures {
        text += &format!("FAIL {}: {why}\n", name(combination));
    }
    for what in &outcome.left_out {
        text += &format!("left out, since the time was used up: {what}\n");
    }
    if let Some(why) = &outcome.stopped {
        text += &format!("FAIL stopped: {why}\n");
    }
    if outcome.plan.trials < u32::try_from(P99_SAMPLES).unwrap_or(u32::MAX) {
        text += &format!("a P99 needs {P99_SAMPLES} trials\n");
    }
    text
}

/// A combination in a few words.
fn name(combination: &Combination) -> String {
    let Combination { mechanism, load, queues, processes } = combination;
    let beside = if *processes > 0 { format!(" beside {processes}") } else { String::new() };
    format!("{mechanism}, {}, {}, {queues} queues{beside}", load.kind, load.share)
}

fn cells(cells: &[Cell]) -> String {
    let header = [
        "<combination",
        "quiet P50",
        "P99",
        "hold P50",
        "P99",
        "start P50",
        "P99",
        "resume P50",
        "P99",
        "restart P50",
        "ran on",
        "wrong",
        "lost",
    ];
    let us = |value| number(Some(value), 1);
    let rows = cells.iter().map(|cell| {
        let mut row = vec![name(&cell.combination)];
        for quantiles in [&cell.quiet, &cell.hold, &cell.start, &cell.resume] {
            row.extend([us(quantiles.p50_us), number(quantiles.p99_us, 1)]);
        }
        row.push(us(cell.restart.p50_us));
        row.extend([cell.ran_on.to_string(), cell.sums.wrong.to_string(), cell.lost.to_string()]);
        row
    });
    table("times in µs", &header, rows)
}

fn storms(storms: &[Storm]) -> String {
    let header = ["<combination", "interrupts", "commands", "wrong", "lost", "<verdict"];
    let rows = storms.iter().map(|storm| {
        let verdict = if storm.is_right() { "PASS" } else { "FAIL" };
        vec![
            name(&storm.combination),
            storm.interrupts.to_string(),
            storm.sums.finished.to_string(),
            storm.sums.wrong.to_string(),
            storm.lost.to_string(),
            verdict.to_owned(),
        ]
    });
    table("results after many interrupts", &header, rows)
}

fn meanwhile(rows: &[Row]) -> String {
    let header = ["<call", "<victims", "P50", "P95", "max", "waited for them", "<error"];
    let rows = rows.iter().map(|row| {
        let us = |value| number((row.time.samples > 0).then_some(value), 1);
        vec![
            row.call.name().to_owned(),
            row.state.name().to_owned(),
            us(row.time.p50_us),
            us(row.time.p95_us),
            us(row.time.max_us),
            row.blocked.to_string(),
            row.error.clone().unwrap_or_default(),
        ]
    });
    table("other calls meanwhile, in µs", &header, rows)
}
