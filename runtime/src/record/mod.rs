//! Records: what the scheduler is fed and answers, and what the queues do, on the way to a file.
//!
//! Each source writes to a buffer of its own, under a lock that it holds anyway or on its
//! own thread. A buffer fills a chunk of fixed size and then exchanges it for an empty one; a
//! writer thread empties full ones into the file. No source waits for the writer: if it has no
//! empty chunk, entries are lost, counted, and the count is written where they would be.

mod buffer;
mod chunk_pool;
mod writer;

use std::io;
use std::sync::Arc;

use xsched_core::hal::DeviceInfo;
use xsched_core::id::{DeviceId, QueueId};
pub use xsched_core::record::*;

use crate::clock::now;
use crate::error::Error;
use crate::sync::{Mutex, lock};

pub(crate) use buffer::RecordBuffer;
pub(crate) use chunk_pool::ChunkPool;
pub(crate) use writer::write;

/// The queue of an entry that is about none.
pub(crate) const NO_QUEUE: QueueId = QueueId::new(0, 0);

/// Figures of a record.
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
    active: Option<RecordBuffer>,
}

impl ActiveRecord {
    pub(crate) fn begin(&self, pool: &Arc<ChunkPool>) -> Result<(), Error> {
        let mut inner = lock(&self.inner);
        if inner.active.is_some() {
            return Err(Error::AlreadyRecording);
        }
        let mut buffer = RecordBuffer::new(pool, Source::Scheduler, NO_QUEUE);
        inner.devices.iter().for_each(|note| buffer.note(now(), Body::Device(*note)));
        inner.active = Some(buffer);
        Ok(())
    }

    pub(crate) fn end(&self) {
        let buffer = lock(&self.inner).active.take();
        drop(buffer);
    }

    pub(crate) fn add_device(&self, device: DeviceId, info: DeviceInfo) {
        let note = DeviceNote { device, units: info.units, name: Name::new(info.name) };
        let mut inner = lock(&self.inner);
        inner.devices.push(note);
        if let Some(buffer) = &mut inner.active {
            buffer.note(now(), Body::Device(note));
        }
    }

    /// Records a queue, if there is a recording: `start` gets its buffer.
    pub(crate) fn join(&self, queue: QueueId, start: impl FnOnce(RecordBuffer)) {
        // Under the lock, so that the end of the recording does not miss it.
        let inner = lock(&self.inner);
        if let Some(buffer) = &inner.active {
            start(RecordBuffer::new(&buffer.pool, Source::Queue, queue));
        }
    }
}
