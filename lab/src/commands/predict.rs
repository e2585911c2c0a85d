//! `xsched-lab bench predict`: predictions for a record that a bench has written before.

use std::fs;
use std::path::PathBuf;

use clap::{Args, value_parser};
use serde::Serialize;

use super::args::PredictOptions;
use crate::error::CommandError;
use crate::predict::measured::Measured;
use crate::predict::{self, Prediction};
use crate::record::{Head, read};
use xsched_console::Ending;
use xsched_console::output::{Outputs, Places};

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Record that `bench fixed-priority`, `partition` or `preempt` wrote with `--json`.
    pub(crate) record: PathBuf,
    #[command(flatten)]
    pub(crate) options: PredictOptions,
    /// A median error above this, in percent, is a finding.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    #[arg(value_parser = value_parser!(u32).range(0..=1_000))]
    pub(crate) within: u32,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// Document that `--json` writes.
#[derive(Debug, Serialize)]
struct Document<'a> {
    bench: &'a str,
    version: &'static str,
    record: String,
    #[serde(flatten)]
    prediction: &'a Prediction,
}

/// `xsched-lab bench predict`: the record's figures beside those of the simulator. A median error
/// above the limit is a finding.
pub(super) fn execute(args: &PredictArgs) -> Result<Ending, CommandError> {
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let given = predict::file_of(args.options.device_file.as_deref())?;
    let place = args.record.display().to_string();
    let text = fs::read_to_string(&args.record)
        .map_err(|source| CommandError::Read { place: place.clone(), source })?;
    let head: Head = read(&text, &place)?;
    let device = predict::device_for(given, &head.device.device)?;
    let prediction = Measured::read(&head.bench, &text, &place)?.predict(&device)?;
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
