//! Buffers of the sources of a record.

use std::sync::Arc;

use xsched_core::id::QueueId;
use xsched_core::record::{Body, Entry, Source, Tape as EntrySink};
use xsched_core::time;

use super::chunk_pool::{Chunk, ChunkPool};
use crate::clock::now;
use crate::sync::lock;

/// Age of a chunk's first entry at which the next entry has it handed over.
const CHUNK_AGE: time::Duration = time::Duration::from_ms(250);

/// Buffer of one source of a record, in chunks.
pub(crate) struct RecordBuffer {
    pub(super) pool: Arc<ChunkPool>,
    chunk: Box<Chunk>,
    source: Source,
    queue: QueueId,
    /// Entries lost since the last that was not.
    lost: u64,
}

impl std::fmt::Debug for RecordBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordBuffer").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl RecordBuffer {
    pub(crate) fn new(pool: &Arc<ChunkPool>, source: Source, queue: QueueId) -> Self {
        lock(&pool.chunks).buffers += 1;
        Self { pool: Arc::clone(pool), chunk: Chunk::new(), source, queue, lost: 0 }
    }

    /// Writes an entry about its own queue.
    pub(crate) fn note(&mut self, at: time::Instant, body: Body) {
        self.put(&Entry { at, queue: self.queue, body });
    }

    /// Says how many entries are missing, if any are.
    fn admit_losses(&mut self, at: time::Instant) {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            lock(&self.pool.chunks).lost += lost;
            let body = Body::Gap { lost, of: self.source };
            self.chunk.push(&Entry { at, queue: self.queue, body });
        }
    }
}

impl EntrySink for RecordBuffer {
    fn put(&mut self, entry: &Entry) {
        let full = self.chunk.is_full();
        let old = self.chunk.entries > 0 && entry.at.since(self.chunk.first_at) >= CHUNK_AGE;
        let exchanged = (full || old) && self.pool.exchange(&mut self.chunk);
        if full && !exchanged {
            self.lost += 1;
            return;
        }
        self.admit_losses(entry.at);
        self.chunk.push(entry);
    }
}

impl Drop for RecordBuffer {
    fn drop(&mut self) {
        self.admit_losses(now());
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new());
        let mut chunks = lock(&self.pool.chunks);
        chunks.buffers -= 1;
        if chunk.entries > 0 {
            chunks.full.push_back(chunk);
        }
        self.pool.changed.notify_one();
    }
}
