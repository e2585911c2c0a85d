//! Records of what all processes do, for `xsched replay`.
//!
//! A process on a GPU is a queue. From its first launch until its streams are empty it makes a
//! request, whose commands take the device time that it used; one that has work for longer makes a
//! request for each second. A thread of its own sends chunks to the reader. The scheduler's thread
//! never waits for that one: what there is no room for is lost, and counted in the record.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration as Time;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};
use xsched_core::id::QueueId;
use xsched_core::record::{Body, ENTRY_BYTES_MAX, Entry, Header, Source, Tape as Sink};
use xsched_core::time::{Duration, Instant};

/// Bytes of a chunk, and how many chunks wait for the reader at most: 1 MiB.
const CHUNK_BYTES: usize = 8 * 1_024;
const CHUNKS: usize = 128;
/// Age of a chunk's first entry from which the next entry has the chunk sent.
const CHUNK_AGE: Duration = Duration::from_ms(250);
/// Time after which a reader that takes nothing has lost the rest of the record.
const READER_TIMEOUT: Time = Time::from_secs(5);
pub(super) const NO_QUEUE: QueueId = QueueId::new(0, 0);

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    entries: u64,
    first_at: Instant,
}

/// Writer of a record's entries. Dropped, it ends the record.
#[derive(Debug)]
pub(crate) struct Tape {
    to: SyncSender<Chunk>,
    chunk: Chunk,
    /// Bytes that the record may still have, but for its end.
    bytes_left: u64,
    /// Entries lost since the last one that was not, of the scheduler and of queues.
    lost: HashMap<Option<QueueId>, u64>,
    was_rest: bool,
    /// Nothing more is written: the reader has gone, or the record has its size.
    pub(super) is_over: bool,
}

impl Tape {
    /// A tape, and the socket that its record can be read from.
    pub(crate) fn new(bytes_max: u64) -> std::io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (own, reader) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_timeout(&own, sockopt::Timeout::Send, Some(READER_TIMEOUT))?;
        let (to, chunks) = sync_channel(CHUNKS);
        let writer = move || {
            if let Err(error) = write(&own, &chunks) {
                tracing::warn!(%error, "the reader of a record has gone; the record ends");
            }
        };
        thread::Builder::new().name("record".to_owned()).spawn(writer)?;
        let ends = 2 * ENTRY_BYTES_MAX as u64;
        let tape = Self {
            to,
            chunk: Chunk::default(),
            bytes_left: bytes_max.saturating_sub(ends),
            lost: HashMap::new(),
            was_rest: false,
            is_over: false,
        };
        Ok((tape, reader))
    }

    /// Sends the chunk; false if there is no room for it.
    fn hand_over(&mut self) -> bool {
        match self.to.try_send(std::mem::take(&mut self.chunk)) {
            Ok(()) => true,
            Err(TrySendError::Full(chunk)) => {
                self.chunk = chunk;
                false
            }
            Err(TrySendError::Disconnected(_)) => {
                self.is_over = true;
                false
            }
        }
    }

    fn push(&mut self, entry: &Entry) {
        let mut bytes = [0; ENTRY_BYTES_MAX];
        let length = entry.encode(&mut bytes);
        let Some(left) = self.bytes_left.checked_sub(length as u64) else {
            self.is_over = true;
            return;
        };
        self.bytes_left = left;
        if self.chunk.entries == 0 {
            self.chunk.first_at = entry.at;
        }
        self.chunk.bytes.extend_from_slice(&bytes[..length]);
        self.chunk.entries += 1;
    }
}

impl Sink for Tape {
    fn put(&mut self, entry: &Entry) {
        // While the daemon looks again and again, the scheduler has no order each time.
        let is_rest = matches!(entry.body, Body::Rest);
        if self.is_over || is_rest && std::mem::replace(&mut self.was_rest, is_rest) {
            return;
        }
        self.was_rest = is_rest;
        let full = self.chunk.bytes.len() + ENTRY_BYTES_MAX > CHUNK_BYTES;
        let old = self.chunk.entries > 0 && entry.at.since(self.chunk.first_at) >= CHUNK_AGE;
        let has_room = !(full || old) || self.hand_over();
        if full && !has_room {
            let of_queue = is_of_queue(&entry.body).then_some(entry.queue);
            *self.lost.entry(of_queue).or_default() += 1;
            return;
        }
        for (queue, lost) in std::mem::take(&mut self.lost) {
            let of = if queue.is_some() { Source::Queue } else { Source::Scheduler };
            let queue = queue.unwrap_or(NO_QUEUE);
            self.push(&Entry { at: entry.at, queue, body: Body::Gap { lost, of } });
        }
        self.push(entry);
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if !self.is_over || self.chunk.entries > 0 {
            self.hand_over();
        }
    }
}

/// Returns whether an entry is a queue's, and not the scheduler's.
const fn is_of_queue(body: &Body) -> bool {
    matches!(body, Body::Submit { .. } | Body::Wait { .. } | Body::Retired { .. })
}

/// Sends chunks to the reader until there will be no more.
fn write(to: &OwnedFd, chunks: &Receiver<Chunk>) -> rustix::io::Result<()> {
    send_all(to, &Header::encode())?;
    let (mut entries, mut at) = (0, Instant::ZERO);
    for chunk in chunks {
        send_all(to, &chunk.bytes)?;
        entries += chunk.entries;
        at = chunk.first_at;
    }
    let mut bytes = [0; ENTRY_BYTES_MAX];
    let length = Entry { at, queue: NO_QUEUE, body: Body::End { entries } }.encode(&mut bytes);
    send_all(to, &bytes[..length])
}

fn send_all(to: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match send(to, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The record that goes on.
#[derive(Debug)]
pub(super) struct Recording {
    /// The connection that asked for it.
    pub(super) client: u64,
    /// Of each process on a GPU.
    pub(super) works: HashMap<u32, Work>,
}

/// Work of a process on a GPU since the record began.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) commands: u64,
    /// Since when it has work, and the device time that it had used then.
    pub(super) open: Option<(Instant, Duration)>,
}
