//! Chunks of a record: the empty ones, and the full ones that wait for the writer.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use xsched_core::record::{ENTRY_BYTES_MAX, Entry};
use xsched_core::time;

use crate::sync::{Condvar, Mutex, bound, lock};

/// Bytes of a chunk: some 200 commands.
const CHUNK_BYTES: usize = bound(8 * 1_024, 2 * ENTRY_BYTES_MAX as u32) as usize;
/// Chunks beside those that buffers have: 2 MiB.
const SPARE_CHUNKS: usize = bound(256, 1) as usize;

/// Entries on their way to the file.
pub(super) struct Chunk {
    pub(super) bytes: [u8; CHUNK_BYTES],
    pub(super) length: usize,
    pub(super) entries: u64,
    pub(super) first_at: time::Instant,
}

impl Chunk {
    pub(super) fn new() -> Box<Self> {
        let first_at = time::Instant::ZERO;
        Box::new(Self { bytes: [0; CHUNK_BYTES], length: 0, entries: 0, first_at })
    }

    /// Room for two entries, so that there is always some for a gap.
    pub(super) const fn is_full(&self) -> bool {
        self.length + 2 * ENTRY_BYTES_MAX > CHUNK_BYTES
    }

    pub(super) fn push(&mut self, entry: &Entry) {
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

/// The chunks that no buffer writes to.
pub(crate) struct ChunkPool {
    pub(super) chunks: Mutex<Chunks>,
    pub(super) changed: Condvar,
}

impl std::fmt::Debug for ChunkPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkPool").finish_non_exhaustive()
    }
}

#[cfg_attr(loom, expect(clippy::vec_box, reason = "chunks are small in models only"))]
pub(super) struct Chunks {
    pub(super) empty: Vec<Box<Chunk>>,
    pub(super) full: VecDeque<Box<Chunk>>,
    /// Buffers that may still bring something.
    pub(super) buffers: usize,
    /// There will be no new buffers, and those there are get no more time than this.
    closing: Option<Instant>,
    pub(super) lost: u64,
}

impl ChunkPool {
    pub(crate) fn new() -> Self {
        let chunks = Chunks {
            empty: (0..SPARE_CHUNKS).map(|_| Chunk::new()).collect(),
            full: VecDeque::with_capacity(SPARE_CHUNKS),
            buffers: 0,
            closing: None,
            lost: 0,
        };
        Self { chunks: Mutex::new(chunks), changed: Condvar::new() }
    }

    /// Takes a chunk for an empty one; false if there is none.
    pub(super) fn exchange(&self, chunk: &mut Box<Chunk>) -> bool {
        let mut chunks = lock(&self.chunks);
        let Some(empty) = chunks.empty.pop() else { return false };
        chunks.full.push_back(std::mem::replace(chunk, empty));
        self.changed.notify_one();
        true
    }

    pub(crate) fn close(&self, patience: Duration) {
        lock(&self.chunks).closing = Instant::now().checked_add(patience);
        self.changed.notify_one();
    }

    /// The next full chunk, or `None` when there will be none.
    pub(super) fn next_full(&self) -> Option<Box<Chunk>> {
        let mut chunks = lock(&self.chunks);
        loop {
            if let Some(chunk) = chunks.full.pop_front() {
                return Some(chunk);
            }
            let Some(until) = chunks.closing else {
                chunks = self.changed.wait(chunks).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if chunks.buffers == 0 || left.is_zero() {
                return None;
            }
            chunks =
                self.changed.wait_timeout(chunks, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn put_back(&self, mut chunk: Box<Chunk>) {
        (chunk.length, chunk.entries) = (0, 0);
        let mut chunks = lock(&self.chunks);
        if chunks.empty.len() < SPARE_CHUNKS {
            chunks.empty.push(chunk);
        }
    }
}
