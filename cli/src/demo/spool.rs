//! A record on its way to where it was asked for, which appears whole or not at all.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek};

use xsched::{RecordStats, Recording, Runtime};

use crate::error::CliError;
use crate::output::Output;

/// A file without a name that a runtime writes its record to.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    stats: Cell<RecordStats>,
}

impl Spool {
    /// # Errors
    /// If there is no room for temporary files.
    pub(super) fn new() -> Result<Self, CliError> {
        let file = tempfile::tempfile().map_err(CliError::Temporary)?;
        Ok(Self { file, stats: Cell::default() })
    }

    /// Begins to record.
    pub(super) fn begin(&self, runtime: &Runtime) -> Result<Recording, CliError> {
        let file = self.file.try_clone().map_err(CliError::Temporary)?;
        runtime.record(file).map_err(CliError::device)
    }

    /// Ends the record.
    pub(super) fn end(&self, recording: Recording) -> Result<(), CliError> {
        self.stats.set(recording.finish()?);
        Ok(())
    }

    /// Copies it to its place, and says what is in it.
    pub(super) fn write(mut self, output: &Output) -> Result<RecordStats, CliError> {
        self.file.rewind().map_err(CliError::Temporary)?;
        output.write(|out| io::copy(&mut self.file, out).map(drop))?;
        Ok(self.stats.get())
    }
}
