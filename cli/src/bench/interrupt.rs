//! `xsched bench interrupt`.

use std::cell::{Cell as Flag, RefCell};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use xsched_lab::kit::cells::{Cell, Combination, Storm};
use xsched_lab::kit::log::Watch;
use xsched_lab::kit::meanwhile::Row;
use xsched_lab::kit::{Event, Outcome, Plan, Stages, run};
use xsched_lab::{Kfd, LabError, P99_SAMPLES};

use super::spin::{background_command, describe};
use crate::Ending;
use crate::args::{InterruptArgs, SpinHal};
use crate::error::CliError;
use crate::table::{number, table};

/// Interrupts commands in every way, and prints what came out.
pub(crate) fn execute(args: &InterruptArgs) -> Result<Ending, CliError> {
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
    super::spin::run(
        "interrupt",
        &args.spin,
        |show| measure(args, &plan, events.as_ref(), show),
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
    show: &dyn Fn(f64),
) -> Result<Outcome, LabError> {
    let mut watch = Watch::new();
    let launcher = |request: &_| background_command(&args.spin, request);
    let mut note = |event: &Event<'_>| {
        if let Some(events) = events {
            events.write(event);
        }
    };
    let mut stages =
        Stages { watch: &mut watch, events: &mut note, progress: show, launcher: &launcher };
    match args.spin.hal {
        SpinHal::Host => run(&xsched_lab::Host::open()?, plan, &mut stages),
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
    fn create(path: &Path) -> Result<Self, CliError> {
        let place = path.display().to_string();
        let opened = OpenOptions::new().create(true).write(true).truncate(true).open(path);
        let file = opened.map_err(|source| CliError::Write { place: place.clone(), source })?;
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
    fn finish(self) -> Result<(), CliError> {
        let Self { place, failed, .. } = self;
        failed.into_inner().map_or(Ok(()), |source| Err(CliError::Write { place, source }))
    }
}

fn report(outcome: &Outcome) -> String {
    let mut text = describe(&outcome.device);
    for (mechanism, why) in &outcome.refused {
        text += &format!("mechanism {mechanism} cannot be used: {why}\n");
    }
    for (name, value) in &outcome.traits {
        text += &format!("{name}: {value}\n");
    }
    text += &match &outcome.log_unread {
        Some(why) => format!("the kernel's log cannot be read, so nobody watched it: {why}\n"),
        None => "the kernel's log was watched\n".to_owned(),
    };
    let ladder = outcome.canary.iter().map(|step| {
        let how = step.stopped.clone().unwrap_or_else(|| "well".to_owned());
        vec![step.mechanism.clone(), step.what.clone(), how]
    });
    text += &table("first steps", &["<mechanism", "<what", "<how it ended"], ladder);
    text += &cells(&outcome.cells);
    text += &storms(&outcome.storms);
    text += &meanwhile(&outcome.meanwhile);
    for (combination, why) in &outcome.failures {
        text += &format!("FAIL {}: {why}\n", name(combination));
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
