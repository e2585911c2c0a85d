//! What one source of a record writes to.

use std::sync::Arc;

use xsched_core::id::QueueId;
use xsched_core::record::{Body, Entry, Source, Tape as Sink};
use xsched_core::time;

use super::shelf::{Chunk, Shelf};
use crate::clock::now;
use crate::sync::lock;

/// A chunk is handed over with the first entry that comes so long after its first.
const CHUNK_AGE: time::Duration = time::Duration::from_ms(250);

/// What one source of a record writes to, in chunks.
pub(crate) struct Tape {
    pub(super) shelf: Arc<Shelf>,
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
            self.lost += 1;
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
        self.shelf.changed.notify_one();
    }
}
