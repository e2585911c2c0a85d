//! A recording of the scheduler and its queues, as the user holds it.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;

use xsched_core::record::Source;

use super::SchedulerHandle;
use crate::error::Error;
use crate::record::{ChunkPool, NO_QUEUE, RecordBuffer, RecordStats, RecordingError, write};

/// A recording that goes on until it is finished or dropped; see [`crate::Runtime::record`].
///
/// ```
/// # use xsched::hal::{Noop, NoopQueue};
/// # use xsched::prelude::*;
/// #
/// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
/// # let path = std::env::temp_dir().join(format!("xsched-recording-{}", std::process::id()));
/// let runtime = Runtime::new(Hpf::default())?;
/// let recording = runtime.record(std::fs::File::create(&path)?)?;
/// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// let queue = device.queue(XQueueConfig::default(), ())?;
/// queue.wait(queue.submit(7)?)?;
/// let stats = recording.finish()?;
/// assert!(stats.bytes > 0);
/// assert_eq!(stats.lost, 0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the recording"]
pub struct Recording {
    scheduler: Arc<SchedulerHandle>,
    pool: Arc<ChunkPool>,
    writer: Option<JoinHandle<io::Result<RecordStats>>>,
}

impl Recording {
    pub(crate) fn start(
        scheduler: &Arc<SchedulerHandle>,
        sink: impl Write + Send + 'static,
    ) -> Result<Self, Error> {
        let pool = Arc::new(ChunkPool::new());
        scheduler.record.begin(&pool)?;
        let of_writer = Arc::clone(&pool);
        let thread = std::thread::Builder::new().name("xsched-recorder".to_owned());
        let writer = thread.spawn(move || write(&of_writer, sink)).map_err(|source| {
            scheduler.record.end();
            Error::Thread { name: "recorder", source }
        })?;
        // From here on, dropping it cleans up.
        let recording = Self { scheduler: Arc::clone(scheduler), pool, writer: Some(writer) };
        let buffer = RecordBuffer::new(&recording.pool, Source::Scheduler, NO_QUEUE);
        scheduler.ask(move |now, scheduler| drop(scheduler.start(now, buffer)))?;
        for (id, queue) in scheduler.queues() {
            scheduler.record.join(id, |buffer| queue.record(Some(buffer)));
        }
        Ok(recording)
    }

    /// Ends the recording and waits until it is written.
    ///
    /// # Errors
    /// If it could not be written as a whole.
    pub fn finish(mut self) -> Result<RecordStats, RecordingError> {
        self.end_buffers();
        // Without an answer its buffer is given up, after the same time.
        let _ = self.scheduler.ask(|_, scheduler| drop(scheduler.stop()));
        self.pool.close(self.scheduler.lease);
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(written)) => Ok(written?),
            Some(Err(_)) | None => Err(RecordingError::Panicked),
        }
    }

    /// The queues stop recording.
    fn end_buffers(&self) {
        self.scheduler.record.end();
        for (_, queue) in self.scheduler.queues() {
            queue.record(None);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.end_buffers();
            self.scheduler.send(|_, scheduler| drop(scheduler.stop()));
            self.pool.close(self.scheduler.lease.saturating_mul(2));
        }
    }
}
