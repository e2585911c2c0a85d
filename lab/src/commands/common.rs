//! What all benches have in common: they run, write what was measured, draw it and print it.

use serde::Serialize;
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use super::args::{PredictFlags, SpinArgs};
use crate::console::Ending;
use crate::console::output::{Outputs, Places};
use crate::console::progress::Progress;
use crate::device::{Described, LabError};
use crate::error::CommandError;
use crate::machine::Machine;
use crate::pace::Pace;
use crate::{draw, predict};

/// Device time of the task's commands, in nanoseconds.
pub(super) const TASK_NS: u64 = 100_000;
/// Without a load, the task pauses for so long between runs, in nanoseconds.
pub(super) const PAUSE_NS: (u64, u64) = (1_000_000, 3_000_000);
/// Device time of a row of commands, in nanoseconds.
pub(super) const ROW_NS: u64 = 40_000_000;

/// What was measured, on what, as `--json` writes it.
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
/// out.
pub(super) fn run<T: Serialize>(
    bench: &'static str,
    args: &SpinArgs,
    measure: impl FnOnce(&Pace<'_>) -> Result<T, LabError>,
    report: impl FnOnce(&T) -> Result<String, CommandError>,
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
    let text = report(&document.outcome)?;
    let text = format!("machine: {machine}\n{text}{}", machine.warning());
    outputs.tables().print(&text)?;
    Ok(Ending::Fine)
}

/// Where the figures and the picture go, if both can be had.
pub(super) fn outputs(bench: &str, args: &SpinArgs) -> Result<Outputs, CommandError> {
    draw::check(args.svg.is_some(), bench)?;
    let (json, svg) = (args.json.as_deref(), args.svg.as_deref());
    Outputs::prepare(Places { json, svg, ..Places::default() })
}

pub(super) fn describe(device: &Described) -> String {
    let Described { hal, device, driver, pci, level, entries_max, .. } = device;
    let pci = if pci.is_empty() { String::new() } else { format!(", PCI {pci}") };
    format!("device: {device} ({hal}, {driver}{pci}), Lv{level}, {entries_max} entries\n")
}

/// The text with the prediction below, if one is wanted. What was measured is worth having without.
pub(super) fn with_prediction(
    text: String,
    (flags, given, device): (&PredictFlags, Option<DeviceSpec>, &Described),
    predict: impl FnOnce(&DeviceSpec) -> Result<predict::Prediction, RunError>,
) -> String {
    if !flags.predict {
        return text;
    }
    let device = predict::device_for(given, &device.device);
    match device.and_then(|device| Ok(predict(&device)?)) {
        Ok(prediction) => format!("{text}\n{}", prediction.report()),
        Err(error) => format!("{text}\nno prediction: {error}\n"),
    }
}
