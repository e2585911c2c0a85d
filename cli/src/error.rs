//! Why a command cannot be carried out.

use std::fmt::Display;
use std::io;

use thiserror::Error;
use xsched::RecordingError;
use xsched_lab::paper::PaperError;
use xsched_sim::replay::ReplayError;
use xsched_sim::report::SvgError;
use xsched_sim::run::RunError;
use xsched_sim::scenario::ScenarioError;

/// Why a command cannot be carried out. All of these end the program with code 2.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Paper(#[from] PaperError),
    #[error(transparent)]
    Svg(#[from] SvgError),
    #[error("cannot read {place}: {source}")]
    Read { place: String, source: io::Error },
    #[error("{place}: {source}")]
    Replay { place: String, source: ReplayError },
    #[error("cannot write {place}: {source}")]
    Write { place: String, source: io::Error },
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("cannot use a temporary file: {0}; TMPDIR says where they are")]
    Temporary(io::Error),
    #[error("--{option} -: only --json can write to standard output")]
    NotToStdout { option: &'static str },
    #[error("{place}: named for two outputs")]
    SamePlace { place: String },
    #[error("{count} seeds from {first} on go past the largest seed, {}", u64::MAX)]
    Seeds { first: u64, count: u64 },
    #[error("{place}: not a record of a bench: {source}")]
    BenchRecord { place: String, source: serde_json::Error },
    #[error(
        "{place}: records of `bench {bench}` are not predicted; those of fixed-priority, partition and preempt are"
    )]
    NotPredicted { place: String, bench: String },
    #[error(
        "{place}: `bench {bench}` has no picture; fixed-priority, preempt, interrupt, overhead, \
         partition, graphs and threshold have one"
    )]
    NotDrawn { place: String, bench: String },
    #[error(
        "no description of the device `{name}` is part of this program; give one with \
         --device-file, `xsched bench calibrate` writes it"
    )]
    NoDeviceFile { name: String },
    #[error("there is no experiment `{id}`; there are {known}")]
    NoExperiment { id: String, known: String },
    #[error("the device cannot be used: {0}")]
    Device(String),
}

impl CliError {
    /// What a device, or the runtime on it, refused.
    pub(crate) fn device(error: impl Display) -> Self {
        Self::Device(error.to_string())
    }
}

/// The text with control characters, line breaks above all, replaced by spaces: an error is one
/// line whatever file name it quotes.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
