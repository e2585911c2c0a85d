//! The record format: what went into and came out of the machines, as compact bytes.
//!
//! A record is a [`Header`], then entries one after the other. Entries of one source are in order;
//! chunks of different sources are written when they are full. A reader skips entries whose kind it
//! does not know, so a newer writer can add some without a new version. Kinds below [`ADVISORY`]
//! are inputs of the scheduler, and without one of them its orders cannot be computed again.
//!
//! [`Recorded`] is a scheduler that writes down every call that it gets and every order that it
//! gives. Fed back into a fresh scheduler, the calls give the same orders.
//!
//! # Layout
//!
//! Numbers are little-endian. Times are nanoseconds of the recorder's monotonic clock. A queue is
//! its place in the table (low 32 bits) and how often that place was used before (high 32 bits).
//! The header has 16 bytes: [`MAGIC`], [`VERSION`] (u32), zero (u32). An entry has the kind (u8),
//! the length of the body (u8), the time (u64), the queue (u64, or zero), and the body. Numbers in
//! a body are u64 unless the table says otherwise.
//!
//! | kind | body |
//! |---|---|
//! | 1 attach | device, process u32; hints, level choice; threshold, context in permille u32 |
//! | 2 detach, 10 timeout, 11 rest, 14 reconsider | empty |
//! | 3 report | see below |
//! | 4 order | 32 bytes of [`Order::encode`](crate::message::Order::encode) |
//! | 5 hint | hints |
//! | 6 start | queue, device, wait slots, 1 if nothing was attached, u32; name of the policy |
//! | 7 level | level choice |
//! | 8 policy | name |
//! | 9 policy hint | 1 and timeslice ns, 2 and K, or 3 and ageing ns or 2^64 − 1 |
//! | 12 admit a wait | command, awaited queue, awaited command |
//! | 13 cost of holds | see below |
//! | 128 submit | command; for a wait also awaited queue and command |
//! | 129 wait | command, 1 if only for room u8 |
//! | 130 retired | last command, busy ns since the entry before |
//! | 131 device | device u32, units u32 (0 if unknown), name |
//! | 132 queue | threshold, batch, adaptive, capacity, u32 each |
//! | 133 gap | entries lost, of the scheduler (0) or of the queue (1) u8 |
//! | 134 end | number of entries before it |
//! | 135 program | name of the program that the queue's process runs |
//!
//! A report is 80 bytes: epoch u32, hold state u8, flags u8, 2 zero; submitted, launched, retired,
//! failures, busy ns, ready since ns, awaited queue, awaited command.
//!
//! The cost of holds is the device; detect, gate close, gate, gate spacing, save fixed and context,
//! restore fixed and context in ns; then, unless zero, the grace in ns and flags: 1 an interrupt
//! stops the whole device, 2 those committed together are one.
//!
//! Hints are 40 bytes: priority + 256 u32, weight u32, share in percent or 2^32 − 1 u32, active
//! window u16, priority of the submitting thread i16, deadline ns or 2^64 − 1 u64, laxity ns or
//! 2^64 − 1 u64, lax priority + 256 u32, critical priority + 256 u32. A level choice is 4 bytes:
//! level u8, 1 for "up to" u8, 2 zero. A name is 40 bytes of UTF-8, padded with zeros.

mod body;
mod name;
mod recorded;
#[cfg(test)]
mod tests;

pub use body::{Body, DeviceNote, QueueNote, Source, Start};
pub use name::Name;
pub use recorded::{Recorded, Tape};

use crate::id::QueueId;
use crate::message::{Cursor, REPORT_BYTES};
use crate::time::Instant;

/// The first bytes of a record.
pub const MAGIC: [u8; 8] = *b"XSCHEDRC";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;
/// Size of an encoded header.
pub const HEADER_BYTES: usize = 16;
/// Enough room for any entry.
pub const ENTRY_BYTES_MAX: usize = PREFIX_BYTES + COST_BYTES_MAX;
/// Kinds from this number on are not inputs of the scheduler.
pub const ADVISORY: u8 = 128;

/// The longest body: the costs of a device, with everything. Checked against [`REPORT_BYTES`].
const COST_BYTES_MAX: usize = 88;
const _: () = assert!(REPORT_BYTES <= COST_BYTES_MAX);

/// Kind, length, time, queue.
const PREFIX_BYTES: usize = 2 + 8 + 8;

/// The start of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub version: u32,
}

impl Header {
    /// The header as bytes.
    #[must_use]
    pub fn encode() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut to = Cursor { bytes: &mut bytes[..], at: 0 };
        to.put(&MAGIC);
        to.u32(VERSION);
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`RecordError::NotARecord`], [`RecordError::Version`] or [`RecordError::Truncated`].
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.get(..MAGIC.len()) != Some(&MAGIC[..]) {
            return Err(RecordError::NotARecord);
        }
        let mut from = Cursor { bytes, at: MAGIC.len() };
        let version = from.u32().ok_or(RecordError::Truncated)?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        from.u32().ok_or(RecordError::Truncated)?;
        Ok(Self { version })
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Instant,
    /// Queue of the entry; all zero where it is about none.
    pub queue: QueueId,
    /// Content of the entry.
    pub body: Body,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The magic bytes are missing.
    NotARecord,
    /// Another version of the format.
    Version(u32),
    /// The bytes end in the middle of an entry.
    Truncated,
    /// An entry of a known kind with a body that makes no sense.
    BadEntry,
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotARecord => f.write_str("not a record: it does not start with XSCHEDRC"),
            Self::Version(n) => write!(f, "record version {n}; this program reads {VERSION}"),
            Self::Truncated => f.write_str("the record ends in the middle of an entry"),
            Self::BadEntry => f.write_str("an entry of the record makes no sense"),
        }
    }
}

impl core::error::Error for RecordError {}

impl Entry {
    /// Writes the entry and returns its length.
    pub fn encode(&self, to: &mut [u8; ENTRY_BYTES_MAX]) -> usize {
        let mut to = Cursor { bytes: &mut to[..], at: 0 };
        to.u8(self.body.kind());
        to.u8(0);
        to.u64(self.at.as_ns());
        to.u64(self.queue.to_bits());
        self.body.encode(&mut to);
        let length = to.at;
        to.bytes[1] = (length - PREFIX_BYTES) as u8;
        length
    }

    /// Reads the entry at the start of `bytes` and returns it with its length. An entry of an
    /// unknown kind is `None` with its length, to be skipped.
    ///
    /// # Errors
    /// [`RecordError::Truncated`] or [`RecordError::BadEntry`].
    pub fn decode(bytes: &[u8]) -> Result<(Option<Self>, usize), RecordError> {
        let mut from = Cursor { bytes, at: 0 };
        let prefix = |from: &mut Cursor<&[u8]>| {
            Some((from.u8()?, from.u8()?, Instant::from_ns(from.u64()?), from.u64()?))
        };
        let (kind, body, at, queue) = prefix(&mut from).ok_or(RecordError::Truncated)?;
        let length = PREFIX_BYTES + usize::from(body);
        let body = bytes.get(PREFIX_BYTES..length).ok_or(RecordError::Truncated)?;
        if !Body::is_known(kind) {
            return Ok((None, length));
        }
        let body = Body::decode(kind, body).ok_or(RecordError::BadEntry)?;
        Ok((Some(Self { at, queue: QueueId::from_bits(queue), body }), length))
    }
}
