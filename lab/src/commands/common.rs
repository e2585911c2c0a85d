//! Steps that all benches have in common: they run, write what was measured, draw it and print it.

use serde::Serialize;
use serde_json::Value;
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use super::all::plan::parts;
use super::args::{PredictFlags, SpinArgs};
use crate::device::{Described, LabError};
use crate::error::CommandError;
use crate::judge::Judged;
use crate::pace::Pace;
use crate::report::printed;
use crate::report::tables::{shown, tables};
use crate::{draw, predict};
use xsched_console::Ending;
use xsched_console::machine::Machine;
use xsched_console::output::{Outputs, Places};
use xsched_console::progress::Progress;

/// Device time of the task's commands, in nanoseconds.
pub(super) const TASK_NS: u64 = 100_000;
/// Pause of the task between runs without a load, least and most, in nanoseconds.
pub(super) const PAUSE_NS: (u64, u64) = (1_000_000, 3_000_000);
/// Device time of a row of commands, in nanoseconds.
pub(super) const ROW_NS: u64 = 40_000_000;

/// Record of a bench: the figures and the machine that they are of, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Document<T> {
    bench: &'static str,
    version: &'static str,
    machine: Machine,
    seconds: f64,
    #[serde(flatten)]
    outcome: T,
}

/// Runs an experiment, which is told its time and says how far it has got, and writes what came
/// out. `end` says what is printed below the tables, and how it ended.
pub(super) fn run<T: Serialize>(
    bench: &'static str,
    args: &SpinArgs,
    measure: impl FnOnce(&Pace<'_>) -> Result<T, LabError>,
    end: impl FnOnce(&T) -> Result<(String, Ending), CommandError>,
) -> Result<Ending, CommandError> {
    let outputs = outputs(bench, args)?;
    let machine = Machine::here();
    let progress = Progress::start();
    let show = |part: f64| progress.set(part);
    let outcome = measure(&Pace::new(&show, args.time()));
    let seconds = progress.finish().as_secs_f64();
    let outcome = outcome.map_err(CommandError::device)?;
    let version = env!("CARGO_PKG_VERSION");
    let document = Document { bench, version, machine, seconds, outcome };
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &document))?;
    }
    if let Some(output) = &outputs.svg {
        let svg = draw::document(bench, &document)?;
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    let machine = &document.machine;
    let (more, ending) = end(&document.outcome)?;
    let record = serde_json::to_value(&document)
        .map_err(|source| CommandError::BenchRecord { place: bench.to_owned(), source })?;
    let (text, missed) = report(bench, &record);
    let text = format!("machine: {machine}\n{text}{more}{}", machine.warning());
    outputs.tables().print(&text)?;
    Ok(if missed { Ending::new(true) } else { ending })
}

/// The experiments that a record shows, and whether one of them missed its goal.
fn report(bench: &str, record: &Value) -> (String, bool) {
    let (mut text, mut missed) = (describe(&record["device"]), false);
    for part in parts(bench) {
        let name = format!("{} {}", part.id, part.name);
        let judged = match (part.judge)(record) {
            Ok(Judged { not_run: Some(why), .. }) => {
                text += &format!("{name}: not run: {why}\n\n");
                continue;
            }
            Err(why) => {
                text += &format!("{name}: {why}\n\n");
                continue;
            }
            Ok(judged) => judged,
        };
        for (title, table) in tables(&judged.results) {
            text += &printed(&format!("{name}: {title}"), &table);
        }
        let verdict = match judged.pass {
            Some(true) => "PASS",
            Some(false) => "FAIL",
            None => "no verdict",
        };
        missed |= judged.pass == Some(false);
        text += &format!("{verdict} {name}: {}\n", part.goal);
        text.extend(judged.notes.iter().map(|note| format!("note: {note}\n")));
        text.push('\n');
    }
    (text, missed)
}

fn describe(device: &Value) -> String {
    let of = |key: &str| shown(&device[key]);
    let pci = match of("pci") {
        pci if pci.is_empty() => pci,
        pci => format!(", PCI {pci}"),
    };
    format!(
        "device: {} ({}, {}{pci}), Lv{}, {} entries\n\n",
        of("device"),
        of("hal"),
        of("driver"),
        of("level"),
        of("entries_max")
    )
}

/// Where the figures and the picture go, if both can be had.
fn outputs(bench: &str, args: &SpinArgs) -> Result<Outputs, CommandError> {
    draw::check(args.svg.is_some(), bench)?;
    let (json, svg) = (args.json.as_deref(), args.svg.as_deref());
    Ok(Outputs::prepare(Places { json, svg, ..Places::default() })?)
}

/// The prediction, if one is wanted. What was measured is worth having without.
pub(super) fn prediction(
    (flags, given, device): (&PredictFlags, Option<DeviceSpec>, &Described),
    predict: impl FnOnce(&DeviceSpec) -> Result<predict::Prediction, RunError>,
) -> String {
    if !flags.predict {
        return String::new();
    }
    let device = predict::device_for(given, &device.device);
    match device.and_then(|device| Ok(predict(&device)?)) {
        Ok(prediction) => format!("{}\n", prediction.report()),
        Err(error) => format!("no prediction: {error}\n"),
    }
}
