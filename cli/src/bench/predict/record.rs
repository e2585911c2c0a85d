//! Predictions for a record that a bench has written before.

use std::fs;

use serde::{Deserialize, Serialize};
use xsched_lab::{Quantiles, partition, preempt, priority};

use super::{Prediction, device_for, file_of};
use crate::Ending;
use crate::args::PredictArgs;
use crate::error::CliError;
use crate::output::{Outputs, Places};

/// What all records have.
#[derive(Debug, Deserialize)]
pub(in crate::bench) struct Head {
    pub(in crate::bench) bench: String,
    pub(in crate::bench) device: Device,
}

#[derive(Debug, Deserialize)]
pub(in crate::bench) struct Device {
    pub(in crate::bench) device: String,
}

/// What is read of a record of `bench fixed-priority`.
#[derive(Debug, Deserialize)]
struct FixedPriority {
    plan: priority::Plan,
    alone: Quantiles,
    alone_queue: Quantiles,
    cells: Vec<priority::Cell>,
}

/// What is read of a record of `bench partition`.
#[derive(Debug, Deserialize)]
struct Partition {
    plan: partition::Plan,
    cells: Vec<partition::Cell>,
}

/// What is read of a record of `bench preempt`.
#[derive(Debug, Deserialize)]
struct Preempt {
    rows: Vec<preempt::Row>,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Document<'a> {
    bench: &'a str,
    version: &'static str,
    record: String,
    #[serde(flatten)]
    prediction: &'a Prediction,
}

/// `xsched bench predict`: the record's figures beside those of the simulator. A median error above
/// the limit is a finding.
///
/// # Errors
/// If the record or the device file cannot be read, or the device cannot do what was run.
pub(crate) fn execute(args: &PredictArgs) -> Result<Ending, CliError> {
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let given = file_of(&args.options)?;
    let place = args.record.display().to_string();
    let text = fs::read_to_string(&args.record)
        .map_err(|source| CliError::Read { place: place.clone(), source })?;
    let head: Head = read(&text, &place)?;
    let device = device_for(given, &head.device.device)?;
    let prediction = match head.bench.as_str() {
        "fixed-priority" => {
            let FixedPriority { plan, alone, alone_queue, cells } = read(&text, &place)?;
            super::fixed_priority(&device, &plan, [&alone, &alone_queue], &cells)?
        }
        "partition" => {
            let Partition { plan, cells } = read(&text, &place)?;
            super::partition(&device, &plan, &cells)?
        }
        "preempt" => {
            let Preempt { rows } = read(&text, &place)?;
            super::preempt(&device, &rows)?
        }
        _ => return Err(CliError::NotPredicted { place, bench: head.bench }),
    };
    if let Some(output) = &outputs.json {
        let version = env!("CARGO_PKG_VERSION");
        let prediction = &prediction;
        let document = Document { bench: &head.bench, version, record: place, prediction };
        output.write(|out| xsched_sim::report::write_json(out, &document))?;
    }
    outputs.tables().print(&prediction.report())?;
    let limit = f64::from(args.within) / 100.0;
    Ok(Ending::new(prediction.median_error.is_none_or(|error| error > limit)))
}

/// What is wanted of a record with this text, from this place.
///
/// # Errors
/// If it is no such record.
pub(in crate::bench) fn read<'a, T: Deserialize<'a>>(
    text: &'a str,
    place: &str,
) -> Result<T, CliError> {
    serde_json::from_str(text)
        .map_err(|source| CliError::BenchRecord { place: place.to_owned(), source })
}
