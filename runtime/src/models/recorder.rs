//! Chunks of a record on their way to the file.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::id::CmdId;
use xsched_core::record::{Body, Entry, HEADER_BYTES, Source};
use xsched_core::time::Instant;

use super::{ID, explore, join, start};
use crate::record::{ChunkPool, RecordBuffer, write};

/// Entries that each buffer brings: more than a chunk of the model holds.
const EACH: u64 = 3;

/// Reads the file, and returns how many entries it admits to lack. None may be missing else.
fn lost_by(mut file: &[u8], entries: u64) -> u64 {
    let (mut read, mut commands, mut lost) = (0, 0, 0);
    while !file.is_empty() {
        let (entry, length) = Entry::decode(file).expect("the file can be read");
        match entry.map(|entry| entry.body) {
            Some(Body::Submit { .. }) => commands += 1,
            Some(Body::Gap { lost: more, .. }) => lost += more,
            other => assert_eq!(other, Some(Body::End { entries: read })),
        }
        read += 1;
        file = &file[length..];
    }
    assert_eq!(read, entries);
    assert_eq!(commands + lost, 2 * EACH, "entries went missing, or came twice");
    lost
}

/// Every entry is in the file or counted as lost, and the writer ends with the last buffer.
#[test]
fn the_file_ends() {
    explore("recorder::the_file_ends", 3, || {
        let pool = Arc::new(ChunkPool::new());
        let buffers: Vec<_> = (0..2)
            .map(|_| {
                let mut buffer = RecordBuffer::new(&pool, Source::Queue, ID);
                start(move || {
                    for n in 0..EACH {
                        buffer
                            .note(Instant::from_ns(n), Body::Submit { cmd: CmdId(n), wait: None });
                    }
                })
            })
            .collect();
        let writer = Arc::clone(&pool);
        let writer = start(move || {
            let mut file = Vec::new();
            let stats = write(&writer, &mut file).expect("memory can be written to");
            let lost = lost_by(&file[HEADER_BYTES..], stats.entries);
            assert_eq!(lost, stats.lost, "a loss is not in the file");
        });
        // No model lives that long.
        pool.close(Duration::from_secs(3_600));
        buffers.into_iter().for_each(join);
        join(writer);
    });
}
