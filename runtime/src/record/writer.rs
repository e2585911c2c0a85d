//! The writer, which empties full chunks into the file.

use std::io::{self, Write};

use xsched_core::record::{Body, ENTRY_BYTES_MAX, Entry, Header};

use super::{ChunkPool, NO_QUEUE, RecordStats};
use crate::clock::now;
use crate::sync::lock;

/// Empties chunks until there will be no more. After a failure it goes on, so that buffers still
/// find empty chunks, and reports the failure in the end.
pub(crate) fn write(pool: &ChunkPool, mut sink: impl Write) -> io::Result<RecordStats> {
    let header = Header::encode();
    let mut result = sink.write_all(&header);
    let mut stats = RecordStats { bytes: header.len() as u64, ..RecordStats::default() };
    while let Some(chunk) = pool.next_full() {
        if result.is_ok() {
            result = sink.write_all(&chunk.bytes[..chunk.length]);
            stats.bytes += chunk.length as u64;
            stats.entries += chunk.entries;
        }
        pool.put_back(chunk);
    }
    result?;
    let mut bytes = [0; ENTRY_BYTES_MAX];
    let body = Body::End { entries: stats.entries };
    let length = Entry { at: now(), queue: NO_QUEUE, body }.encode(&mut bytes);
    sink.write_all(&bytes[..length])?;
    sink.flush()?;
    stats.bytes += length as u64;
    stats.entries += 1;
    stats.lost = lock(&pool.chunks).lost;
    Ok(stats)
}
