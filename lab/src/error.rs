//! Why a command of the lab cannot be carried out.

use std::fmt::Display;
use std::io;

use thiserror::Error;

use xsched::RecordingError;
use xsched_console::OutputError;
use xsched_sim::report::SvgError;
use xsched_sim::run::RunError;
use xsched_sim::scenario::ScenarioError;

/// How the error for a device that refuses begins.
pub(crate) const UNUSABLE: &str = "the device cannot be used: ";

/// Why a command cannot be carried out.
#[derive(Debug, Error)]
pub(crate) enum CommandError {
    /// A scenario or a device file is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The simulator refuses.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A picture cannot be drawn.
    #[error(transparent)]
    Svg(#[from] SvgError),
    /// A file cannot be read.
    #[error("cannot read {place}: {source}")]
    Read {
        /// The file.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// A place cannot be written to.
    #[error("cannot write {place}: {source}")]
    Write {
        /// The place.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// The runtime cannot record.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// No room is left for a temporary file.
    #[error("cannot use a temporary file: {0}; TMPDIR says where they are")]
    Temporary(io::Error),
    /// A result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file is no record of a bench.
    #[error("{place}: not a record of a bench: {source}")]
    BenchRecord {
        /// The file.
        place: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// The simulator has no prediction for records of this bench.
    #[error(
        "{place}: records of `bench {bench}` are not predicted; those of fixed-priority, partition and preempt are"
    )]
    NotPredicted {
        /// The file.
        place: String,
        /// The bench.
        bench: String,
    },
    /// No picture is made of records of this bench.
    #[error(
        "{place}: `bench {bench}` has no picture; fixed-priority, preempt, interrupt, overhead, \
         partition, graphs and threshold have one"
    )]
    NotDrawn {
        /// The file.
        place: String,
        /// The bench.
        bench: String,
    },
    /// No description of this device is part of the program.
    #[error(
        "no description of the device `{name}` is part of this program; give one with \
         --device-file, `xsched-lab bench calibrate` writes it"
    )]
    NoDeviceFile {
        /// The device.
        name: String,
    },
    /// A file is no document of the lab.
    #[error("{place}: not as `xsched-lab` writes it: {source}")]
    Document {
        /// The file.
        place: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// No experiment has this name.
    #[error("there is no experiment `{id}`; there are {known}")]
    NoExperiment {
        /// The name that was given.
        id: String,
        /// All names.
        known: String,
    },
    /// No row that was asked for has such cells.
    #[error("no cell of these rows has `{text}` in its name; a report lists the cells of a row")]
    NoCells {
        /// Text that was given.
        text: String,
    },
    /// Rows cannot be run on these GPUs.
    #[error("--gpus {gpus}: {why}")]
    Gpus {
        /// As they were given.
        gpus: String,
        /// Reason for which it was refused.
        why: &'static str,
    },
    /// Rows are of another build, or were measured on another machine.
    #[error(
        "{place}: rows are of {found}, and not of {wanted}; name another folder, or give --mixed"
    )]
    Mixed {
        /// The folder.
        place: String,
        /// Of what they are.
        found: String,
        /// Of what they are to be.
        wanted: String,
    },
    /// A file is no report.
    #[error("{place}: {source}")]
    Archive {
        /// The file.
        place: String,
        /// Fault of the archive.
        source: ArchiveError,
    },
    /// The process cannot end with the one that started it.
    #[error("cannot end with the process that started this one: {0}")]
    Parent(String),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(String),
    /// The user ended it.
    #[error("interrupted; --resume goes on")]
    Stopped,
    /// A device, or the runtime on it, refuses.
    #[error("{UNUSABLE}{0}")]
    Device(String),
}

impl CommandError {
    /// The refusal of a device, or of the runtime on it.
    pub(crate) fn device(error: impl Display) -> Self {
        Self::Device(error.to_string())
    }
}

/// Why a file is not taken for a report.
#[derive(Debug, Error)]
pub(crate) enum ArchiveError {
    /// The file cannot be read as an archive.
    #[error("not an archive that `xsched-lab bench all` wrote, damaged, or too large: {0}")]
    NotOne(io::Error),
    /// There are too many files.
    #[error("the archive has more than {max} files, which no report has")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// A record cannot be understood.
    #[error("{name:?} is not as `xsched-lab bench all` writes it: {source}")]
    Record {
        /// The file.
        name: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// No record is in the archive.
    #[error(
        "there is no record of an experiment in it; name the archive or the folder that `xsched-lab bench all --report` wrote"
    )]
    Empty,
}
