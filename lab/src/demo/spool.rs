//! A record on its way to where it was asked for, which appears whole or not at all.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek};

use xsched::{RecordStats, Recording, Runtime};

use crate::error::CommandError;
use xsched_console::output::Output;

/// A file without a name that a runtime writes its record to.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    stats: Cell<RecordStats>,
}

impl Spool {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let file = tempfile::tempfile().map_err(CommandError::Temporary)?;
        Ok(Self { file, stats: Cell::default() })
    }

    /// Begins to record.
    pub(crate) fn begin(&self, runtime: &Runtime) -> Result<Recording, CommandError> {
        let file = self.file.try_clone().map_err(CommandError::Temporary)?;
        runtime.record(file).map_err(CommandError::device)
    }

    /// Ends the record.
    pub(crate) fn end(&self, recording: Recording) -> Result<(), CommandError> {
        self.stats.set(recording.finish()?);
        Ok(())
    }

    /// Copies it to its place, and says what is in it.
    pub(crate) fn write(mut self, output: &Output) -> Result<RecordStats, CommandError> {
        self.file.rewind().map_err(CommandError::Temporary)?;
        output.write(|out| io::copy(&mut self.file, out).map(drop))?;
        Ok(self.stats.get())
    }
}
