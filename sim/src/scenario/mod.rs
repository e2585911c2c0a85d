//! Scenarios: what an experiment consists of, read from a TOML file and checked.
//!
//! [`Scenario::load`] takes a file to a [`Scenario`] in two steps. The TOML library reads the text
//! into a raw layer in which every key is optional and keeps its place in the text. The checks turn
//! that into the plain types of this module, in nanoseconds, with names resolved to indices and
//! trace files read; nothing after them has to check again. Whatever is wrong becomes a
//! [`ScenarioError`], a single line with the file, the line and the key.
//!
//! The schema is documented in `docs/src/reference/scenarios.md`.

mod arrival;
mod check;
mod cluster;
mod comparators;
mod daemon;
mod device;
mod dist;
mod error;
mod expand;
mod explain;
mod keys;
mod locate;
mod metric;
mod model;
mod names;
mod plain;
mod raw;
mod source;
mod system;
mod task;
mod trace;
mod units;
mod value;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use cluster::{ClassSpec, ClusterScenario, JobClass, SharingSpec, Weighted};
pub(crate) use daemon::DAEMON_LEVEL;
pub use device::{DeviceFile, Origin, OriginKind};
pub use error::ScenarioError;
pub use keys::{KeyReference, TableReference, reference};
pub(crate) use model::recorded_request;
pub use model::{
    Arrival, Concurrency, DaemonSpec, DeviceSpec, Dist, LockOrder, Metric, ProcessSpec,
    RecordedCommand, RecordedRequest, Reference, SCHEMA_VERSION, Scenario, Stat, SyncScope,
    TaskSpec, TraceRow, WindowSpec,
};
pub use system::{Comparators, System, UnknownSystem};

use source::Source;

/// The largest scenario or trace file that is read: 16 MiB.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// Most devices of a scenario.
pub const MAX_DEVICES: usize = 64;
/// Most tasks of a scenario after `count` has been applied.
pub const MAX_TASKS: usize = 100_000;
/// Most commands of a request.
pub const MAX_COMMANDS: u32 = 1_000_000;
/// Most rows of all trace files of a scenario together.
pub const MAX_TRACE_ROWS: usize = 1_000_000;
/// Most entries that the XQueues of all tasks together have room for.
const MAX_CAPACITY: u128 = 1 << 27;
/// Most commands of all tasks together that have a number of requests.
const MAX_TOTAL_COMMANDS: u128 = 1_000_000_000_000;

impl Scenario {
    /// Reads and checks a scenario file. Trace files are looked up relative to its folder.
    ///
    /// # Errors
    ///
    /// The first mistake in the file or in one that it names, or that one cannot be read.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::load_with_files(path).map(|(scenario, _)| scenario)
    }

    /// Reads and checks a scenario as [`Scenario::load`] does, and returns it with each file
    /// that it consists of: its own first, then the device and trace files.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn load_with_files(path: &Path) -> Result<(Self, Vec<ReadFile>), ScenarioError> {
        let bytes = read_file(path).map_err(|error| ScenarioError::unread(path, &error))?;
        let mut others = Vec::new();
        let scenario = Self::parse_bytes(&bytes, path, &mut |path| {
            let bytes = read_file(path)?;
            others.push(ReadFile { path: path.to_owned(), content: bytes.clone() });
            Ok(bytes)
        })?;
        let mut files = vec![ReadFile { path: path.to_owned(), content: bytes }];
        files.append(&mut others);
        Ok((scenario, files))
    }

    /// Checks a scenario that is already in memory. `file` is its name for messages, and trace
    /// files are looked up in the folder that it names.
    ///
    /// ```
    /// use std::path::{Path, PathBuf};
    ///
    /// use xsched_sim::scenario::Scenario;
    ///
    /// let text = "version = 1\nname = \"x\"\nduration_ms = 5\n\
    ///     [[device]]\nname = \"d\"\nmax_level = 4\n";
    /// let error = Scenario::parse(text, Path::new("x.toml")).expect_err("there is no level 4");
    /// assert_eq!(error.to_string(), "x.toml:6: device[0].max_level: must be at most 3, is 4");
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, ScenarioError> {
        Self::parse_with(text, file, &mut read_file)
    }

    /// Checks a scenario with a function that stands for the file system: it gets the path of a
    /// trace or device file and returns its content. It is called once for each different path.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn parse_with(
        text: &str,
        file: &Path,
        read: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ScenarioError> {
        check_size(text.as_bytes(), file)?;
        let (source, raw) = Source::read(text, file)?;
        check::scenario(&source, &raw, read)
    }

    /// Checks a scenario in bytes that need not be UTF-8, as [`Scenario::parse_with`] does.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`], and if the bytes are not UTF-8.
    pub fn parse_bytes(
        bytes: &[u8],
        file: &Path,
        read: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ScenarioError> {
        check_size(bytes, file)?;
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|error| trace::not_utf8(bytes, error, file))?;
        Self::parse_with(text, file, read)
    }
}

/// A file that was read for a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of the file.
    pub content: Vec<u8>,
}

fn check_size(bytes: &[u8], file: &Path) -> Result<(), ScenarioError> {
    if bytes.len() <= MAX_FILE_BYTES {
        return Ok(());
    }
    let message = format!("is larger than {} MiB", MAX_FILE_BYTES >> 20);
    Err(ScenarioError::new(file, 1, "file", &message))
}

/// The content of a file, or a little more than the limit of one that is too large.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
