//! Arguments that several benches have.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::device::hal::SpinHal;

/// Options that all benches on commands that spin have in common.
#[derive(Debug, Args)]
pub(crate) struct SpinArgs {
    /// The device.
    #[arg(long, value_enum, default_value_t = SpinHal::Host)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the figures as SVG. There is no picture of `calibrate`,
    /// `requests` and `placement`.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
    /// Take fewer samples where the device is so slow that it would take longer than this number of
    /// seconds; at least three of each.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) within: Option<u64>,
}

impl SpinArgs {
    /// The time that there is, if it is limited.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.within.map(Duration::from_secs)
    }
}

/// Options for what the simulator predicts of a bench.
#[derive(Debug, Args)]
pub(crate) struct PredictOptions {
    /// A description of the device for the simulator, as `xsched-lab bench calibrate` writes it; by
    /// default the one for this device that is part of the program.
    #[arg(long, value_name = "FILE")]
    pub(crate) device_file: Option<PathBuf>,
}

/// Options for what the simulator predicts of a bench that is about to run.
#[derive(Debug, Args)]
pub(crate) struct PredictFlags {
    /// Set beside the figures what the simulator predicts, and print the errors.
    #[arg(long)]
    pub(crate) predict: bool,
    #[command(flatten)]
    pub(crate) options: PredictOptions,
}
