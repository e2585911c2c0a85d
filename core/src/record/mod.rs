//! The record format: what went into and came out of the machines, as compact bytes.
//!
//! A record is a [`Header`], then entries one after the other. Each entry is a kind byte, a length
//! byte, the time in nanoseconds, the queue, and a body that depends on the kind (little-endian
//! throughout). A reader skips entries whose kind it does not know, so a newer writer can add some
//! without a new version; kinds below [`ADVISORY`] are inputs of the scheduler, and without one of
//! them its orders cannot be computed again.
//!
//! [`Recorded`] is a scheduler that writes down every call that it gets and every order that it
//! gives. Fed back into a fresh scheduler, the calls give the same orders. The layout of every kind
//! is in `docs/src/reference/files.md`.

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
    /// Which queue; all zero where it is about none.
    pub queue: QueueId,
    /// What.
    pub body: Body,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
