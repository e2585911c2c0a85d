//! `xsched-lab bench interrupt`.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::background::background_command;
use crate::device::LabError;
use crate::device::hal::SpinHal;
use crate::device::kfd::Kfd;
use crate::device::load::Kind;
use crate::error::CommandError;
use crate::interrupt::log;
use crate::interrupt::{Event, Plan, Results, Stages, run};
use crate::pace::Pace;
use xsched_console::Ending;

#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
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
    let ending = super::common::run(
        "interrupt",
        &args.spin,
        |pace| measure(args, &plan, events.as_ref(), pace),
        |outcome| Ok((report(outcome), Ending::new(outcome.is_finding()))),
    )?;
    events.map_or(Ok(()), Events::finish)?;
    Ok(ending)
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

    /// Returns whether everything was written.
    fn finish(self) -> Result<(), CommandError> {
        let Self { place, failed, .. } = self;
        failed.into_inner().map_or(Ok(()), |source| Err(CommandError::Write { place, source }))
    }
}

/// Returns the lines that are printed below the tables.
fn report(outcome: &Results) -> String {
    let mut text = String::new();
    for (mechanism, why) in &outcome.refused {
        text += &format!("mechanism {mechanism} cannot be used: {why}\n");
    }
    for (name, value) in &outcome.traits {
        text += &format!("{name}: {value}\n");
    }
    if outcome.is_finding() {
        text += "FAIL: not everything was as it should be\n";
    }
    text
}
