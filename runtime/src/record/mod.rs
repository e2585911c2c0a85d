//! Records: what the scheduler is fed and answers, and what the queues do, on the way to a file.
//!
//! Each source writes to a [`Tape`] of its own, under a lock that it holds anyway or on its own
//! thread. A tape fills a chunk of fixed size and then exchanges it for an empty one; a writer
//! thread empties full ones into the file. No source waits for the writer: if it has no empty
//! chunk, entries are lost, counted, and the count is written where they would be.

mod shelf;
mod tape;
mod writer;

use std::io;
use std::sync::Arc;

use xsched_core::hal::DeviceInfo;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::record::{Body, DeviceNote, Name, Source};

use crate::clock::now;
use crate::error::Error;
use crate::sync::{Mutex, lock};

pub(crate) use shelf::Shelf;
pub(crate) use tape::Tape;
pub(crate) use writer::write;

/// The queue of an entry that is about none.
pub(crate) const NO_QUEUE: QueueId = QueueId::new(0, 0);

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// Entries written.
    pub entries: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Entries that are missing because the writer could not keep up. Without any, the record
    /// replays exactly.
    pub lost: u64,
}

/// Why a record is not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The record could not be written; what is there lacks its end.
    #[error("the record could not be written: {0}; it lacks its end")]
    Write(#[from] io::Error),
    /// The place that it was written to panicked.
    #[error("the place that the record was written to panicked; the record lacks its end")]
    Panicked,
}

/// The recording that goes on, if any, and what has to be in each.
#[derive(Debug, Default)]
pub(crate) struct ActiveRecord {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    devices: Vec<DeviceNote>,
    active: Option<Tape>,
}

impl ActiveRecord {
    pub(crate) fn begin(&self, shelf: &Arc<Shelf>) -> Result<(), Error> {
        let mut inner = lock(&self.inner);
        if inner.active.is_some() {
            return Err(Error::AlreadyRecording);
        }
        let mut tape = Tape::new(shelf, Source::Scheduler, NO_QUEUE);
        inner.devices.iter().for_each(|note| tape.note(now(), Body::Device(*note)));
        inner.active = Some(tape);
        Ok(())
    }

    pub(crate) fn end(&self) {
        let tape = lock(&self.inner).active.take();
        drop(tape);
    }

    pub(crate) fn add_device(&self, device: DeviceId, info: DeviceInfo) {
        let note = DeviceNote { device, units: info.units, name: Name::new(info.name) };
        let mut inner = lock(&self.inner);
        inner.devices.push(note);
        if let Some(tape) = &mut inner.active {
            tape.note(now(), Body::Device(note));
        }
    }

    /// Records a queue, if there is a recording: `start` gets its tape.
    pub(crate) fn join(&self, queue: QueueId, start: impl FnOnce(Tape)) {
        // Under the lock, so that the end of the recording does not miss it.
        let inner = lock(&self.inner);
        if let Some(tape) = &inner.active {
            start(Tape::new(&tape.shelf, Source::Queue, queue));
        }
    }
}
