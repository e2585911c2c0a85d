//! Reading a record.

use xsched_core::record::{ADVISORY, Body, Entry, HEADER_BYTES, Header, RecordError};

use super::ReplayError;

/// The largest record that is read: 1 GiB.
pub const MAX_RECORD_BYTES: u64 = 1 << 30;

/// A record that is whole: it has a header of the right version, sound entries, and an end.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    bytes: &'a [u8],
    entries: u64,
}

/// The entries of a record, each with its number. Those of unknown kinds are `Err` with the kind.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    left: &'a [u8],
    number: u64,
}

impl<'a> Record<'a> {
    /// Checks a record.
    ///
    /// # Errors
    /// If it is no record, of another version, damaged or cut off.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReplayError> {
        if bytes.len() as u64 > MAX_RECORD_BYTES {
            return Err(ReplayError::TooLarge);
        }
        Header::decode(bytes).map_err(|error| ReplayError::Format { at: 0, error })?;
        let (mut at, mut entries) = (HEADER_BYTES, 0);
        loop {
            let left = &bytes[at..];
            if left.is_empty() {
                return Err(ReplayError::NoEnd);
            }
            let damage = |error| match error {
                RecordError::Truncated => ReplayError::NoEnd,
                error => ReplayError::Format { at: at as u64, error },
            };
            let (entry, length) = Entry::decode(left).map_err(damage)?;
            at += length;
            if let Some(Body::End { entries: expected }) = entry.map(|entry| entry.body) {
                if at < bytes.len() {
                    return Err(ReplayError::AfterEnd { at: at as u64 });
                }
                if expected != entries {
                    return Err(ReplayError::Count { expected, found: entries });
                }
                return Ok(Self { bytes, entries });
            }
            entries += 1;
        }
    }

    /// Number of entries before the end.
    #[must_use]
    pub const fn entries_count(&self) -> u64 {
        self.entries
    }

    /// The entries, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        Entries { left: &self.bytes[HEADER_BYTES..], number: 0 }
    }
}

impl Iterator for Entries<'_> {
    type Item = (u64, Result<Entry, u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = *self.left.first()?;
        // The record was checked when it was parsed, so this ends nothing early.
        let (entry, length) = Entry::decode(self.left).ok()?;
        self.left = &self.left[length..];
        let number = self.number;
        self.number += 1;
        Some((number, entry.ok_or(kind)))
    }
}

/// True if an entry of this kind, which is not known, might change what a scheduler does.
pub(super) const fn may_be_input(kind: u8) -> bool {
    kind < ADVISORY
}
