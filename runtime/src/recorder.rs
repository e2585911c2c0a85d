//! Recording: what the scheduler is fed and answers, and what the queues do, to a file.
//!
//! Everybody who has something to say writes it to a [`Tape`] of their own, under a lock that they
//! hold anyway or on their own thread. A tape fills a chunk of fixed size and then exchanges it for
//! an empty one; a writer thread empties full ones into the file. Nobody waits for the writer: if
//! it has no empty chunk, entries are lost, counted, and the count is written where they would be.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use xsched_core::hal::DeviceInfo;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::record::{
    Body, DeviceNote, ENTRY_BYTES_MAX, Entry, Header, Name, Source, Tape as Sink,
};
use xsched_core::time;

use crate::clock::now;
use crate::error::Error;
use crate::hub::{Hub, Member, lock};
use crate::sync::{Condvar, Mutex, bound, mutant};

/// Bytes of a chunk: some 200 commands.
const CHUNK_BYTES: usize = bound(8 * 1_024, 2 * ENTRY_BYTES_MAX as u32) as usize;
/// Chunks beside those that tapes have: 2 MiB.
const SPARE_CHUNKS: usize = bound(256, 1) as usize;
/// A chunk is handed over with the first entry that comes so long after its first.
const CHUNK_AGE: time::Duration = time::Duration::from_ms(250);
/// The queue of an entry that is about none.
const NOBODY: QueueId = QueueId::new(0, 0);

/// A recording that goes on until it is finished or dropped; see [`crate::Runtime::record`].
#[derive(Debug)]
#[must_use = "dropping it ends the recording"]
pub struct Recording {
    hub: Arc<Hub>,
    shelf: Arc<Shelf>,
    writer: Option<JoinHandle<io::Result<RecordStats>>>,
}

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
    /// It could not be written; what is there lacks its end.
    #[error("the record could not be written: {0}; it lacks its end")]
    Write(#[from] io::Error),
    /// The place that it was written to panicked.
    #[error("the place that the record was written to panicked; the record lacks its end")]
    Panicked,
}

impl Recording {
    pub(crate) fn start(hub: &Arc<Hub>, sink: impl Write + Send + 'static) -> Result<Self, Error> {
        let shelf = Arc::new(Shelf::new());
        hub.records.begin(&shelf)?;
        let of_writer = Arc::clone(&shelf);
        let thread = std::thread::Builder::new().name("xsched-recorder".to_owned());
        let writer = thread.spawn(move || write(&of_writer, sink)).map_err(|source| {
            hub.records.end();
            Error::Thread { name: "recorder", source }
        })?;
        // From here on, dropping it cleans up.
        let recording = Self { hub: Arc::clone(hub), shelf, writer: Some(writer) };
        let tape = Tape::new(&recording.shelf, Source::Scheduler, NOBODY);
        hub.ask(move |now, brain| drop(brain.start(now, tape)))?;
        for (id, member) in hub.members() {
            hub.records.join(id, &*member);
        }
        Ok(recording)
    }

    /// Ends the recording and waits until it is written.
    ///
    /// # Errors
    /// If it could not be written as a whole.
    pub fn finish(mut self) -> Result<RecordStats, RecordingError> {
        self.let_go();
        // Without an answer its tape is given up, after the same time.
        let _ = self.hub.ask(|_, brain| drop(brain.stop()));
        self.shelf.close(self.hub.lease);
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(written)) => Ok(written?),
            Some(Err(_)) | None => Err(RecordingError::Panicked),
        }
    }

    /// The queues stop recording.
    fn let_go(&self) {
        self.hub.records.end();
        for (_, member) in self.hub.members() {
            member.record(None);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.let_go();
            self.hub.send(|_, brain| drop(brain.stop()));
            self.shelf.close(self.hub.lease.saturating_mul(2));
        }
    }
}

/// The recording that goes on, if any, and what has to be in each.
#[derive(Debug, Default)]
pub(crate) struct Records {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    devices: Vec<DeviceNote>,
    active: Option<Tape>,
}

impl Records {
    fn begin(&self, shelf: &Arc<Shelf>) -> Result<(), Error> {
        let mut inner = lock(&self.inner);
        if inner.active.is_some() {
            return Err(Error::AlreadyRecording);
        }
        let mut tape = Tape::new(shelf, Source::Scheduler, NOBODY);
        inner.devices.iter().for_each(|note| tape.note(now(), Body::Device(*note)));
        inner.active = Some(tape);
        Ok(())
    }

    fn end(&self) {
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

    /// Records a queue that has come, if there is a recording.
    pub(crate) fn join(&self, id: QueueId, member: &dyn Member) {
        // Under the lock, so that the end of the recording does not miss it.
        let inner = lock(&self.inner);
        if let Some(tape) = &inner.active {
            member.record(Some(Tape::new(&tape.shelf, Source::Queue, id)));
        }
    }
}

/// Entries on their way to the file.
struct Chunk {
    bytes: [u8; CHUNK_BYTES],
    length: usize,
    entries: u64,
    first_at: time::Instant,
}

impl Chunk {
    fn new() -> Box<Self> {
        let first_at = time::Instant::ZERO;
        Box::new(Self { bytes: [0; CHUNK_BYTES], length: 0, entries: 0, first_at })
    }

    /// Room for two entries, so that there is always some for a gap.
    const fn is_full(&self) -> bool {
        self.length + 2 * ENTRY_BYTES_MAX > CHUNK_BYTES
    }

    fn push(&mut self, entry: &Entry) {
        let Some(room) = self.bytes.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut) else {
            return;
        };
        if self.entries == 0 {
            self.first_at = entry.at;
        }
        self.length += entry.encode(room);
        self.entries += 1;
    }
}

/// Where the chunks are that nobody writes to.
pub(crate) struct Shelf {
    chunks: Mutex<Chunks>,
    bell: Condvar,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

#[cfg_attr(loom, expect(clippy::vec_box, reason = "chunks are small in models only"))]
struct Chunks {
    empty: Vec<Box<Chunk>>,
    full: VecDeque<Box<Chunk>>,
    /// Tapes that may still bring something.
    tapes: usize,
    /// There will be no new tapes, and those there are get no more time than this.
    closing: Option<Instant>,
    lost: u64,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        let chunks = Chunks {
            empty: (0..SPARE_CHUNKS).map(|_| Chunk::new()).collect(),
            full: VecDeque::with_capacity(SPARE_CHUNKS),
            tapes: 0,
            closing: None,
            lost: 0,
        };
        Self { chunks: Mutex::new(chunks), bell: Condvar::new() }
    }

    /// Takes a chunk for an empty one; false if there is none.
    fn exchange(&self, chunk: &mut Box<Chunk>) -> bool {
        let mut chunks = lock(&self.chunks);
        let Some(empty) = chunks.empty.pop() else { return false };
        chunks.full.push_back(std::mem::replace(chunk, empty));
        self.bell.notify_one();
        true
    }

    pub(crate) fn close(&self, patience: Duration) {
        lock(&self.chunks).closing = Instant::now().checked_add(patience);
        self.bell.notify_one();
    }

    /// The next full chunk, or `None` when there will be none.
    fn next_full(&self) -> Option<Box<Chunk>> {
        let mut chunks = lock(&self.chunks);
        loop {
            if let Some(chunk) = chunks.full.pop_front() {
                return Some(chunk);
            }
            if mutant("two looks at the shelf") {
                drop(chunks);
                chunks = lock(&self.chunks);
            }
            let Some(until) = chunks.closing else {
                chunks = self.bell.wait(chunks).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if chunks.tapes == 0 || left.is_zero() {
                return None;
            }
            chunks = self.bell.wait_timeout(chunks, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn put_back(&self, mut chunk: Box<Chunk>) {
        (chunk.length, chunk.entries) = (0, 0);
        let mut chunks = lock(&self.chunks);
        if chunks.empty.len() < SPARE_CHUNKS {
            chunks.empty.push(chunk);
        }
    }
}

/// What one source writes to.
pub(crate) struct Tape {
    shelf: Arc<Shelf>,
    chunk: Box<Chunk>,
    source: Source,
    queue: QueueId,
    /// Entries lost since the last that was not.
    lost: u64,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Tape {
    pub(crate) fn new(shelf: &Arc<Shelf>, source: Source, queue: QueueId) -> Self {
        lock(&shelf.chunks).tapes += 1;
        Self { shelf: Arc::clone(shelf), chunk: Chunk::new(), source, queue, lost: 0 }
    }

    /// Writes an entry about its own queue.
    pub(crate) fn note(&mut self, at: time::Instant, body: Body) {
        self.put(&Entry { at, queue: self.queue, body });
    }

    /// Says how many entries are missing, if any are.
    fn admit_losses(&mut self, at: time::Instant) {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            lock(&self.shelf.chunks).lost += lost;
            let body = Body::Gap { lost, of: self.source };
            self.chunk.push(&Entry { at, queue: self.queue, body });
        }
    }
}

impl Sink for Tape {
    fn put(&mut self, entry: &Entry) {
        let full = self.chunk.is_full();
        let old = self.chunk.entries > 0 && entry.at.since(self.chunk.first_at) >= CHUNK_AGE;
        let exchanged = (full || old) && self.shelf.exchange(&mut self.chunk);
        if full && !exchanged {
            self.lost += u64::from(!mutant("losses are not counted"));
            return;
        }
        self.admit_losses(entry.at);
        self.chunk.push(entry);
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.admit_losses(now());
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new());
        let mut chunks = lock(&self.shelf.chunks);
        chunks.tapes -= 1;
        if chunk.entries > 0 {
            chunks.full.push_back(chunk);
        }
        if !mutant("a tape ends quietly") {
            self.shelf.bell.notify_one();
        }
    }
}

/// Empties chunks until there will be no more. After a failure it goes on, so that nobody sees a
/// full shelf for a reason that is not theirs, and reports it in the end.
pub(crate) fn write(shelf: &Shelf, mut sink: impl Write) -> io::Result<RecordStats> {
    let header = Header::encode();
    let mut result = sink.write_all(&header);
    let mut stats = RecordStats { bytes: header.len() as u64, ..RecordStats::default() };
    while let Some(chunk) = shelf.next_full() {
        if result.is_ok() {
            result = sink.write_all(&chunk.bytes[..chunk.length]);
            stats.bytes += chunk.length as u64;
            stats.entries += chunk.entries;
        }
        shelf.put_back(chunk);
    }
    result?;
    let mut bytes = [0; ENTRY_BYTES_MAX];
    let body = Body::End { entries: stats.entries };
    let length = Entry { at: now(), queue: NOBODY, body }.encode(&mut bytes);
    sink.write_all(&bytes[..length])?;
    sink.flush()?;
    stats.bytes += length as u64;
    stats.entries += 1;
    stats.lost = lock(&shelf.chunks).lost;
    Ok(stats)
}
