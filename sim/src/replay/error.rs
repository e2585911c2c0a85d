//! Why a record cannot be replayed.

use thiserror::Error;
use xsched_core::record::RecordError;

use super::read::MAX_RECORD_BYTES;
use crate::run::RunError;

/// Why a record cannot be replayed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The bytes are not a record, or a damaged one.
    #[error("byte {at}: {error}")]
    Format {
        /// Where.
        at: u64,
        /// Error of the record.
        error: RecordError,
    },
    /// The record is too large to be read.
    #[error("the record is larger than {} MiB", MAX_RECORD_BYTES >> 20)]
    TooLarge,
    /// The end entry is missing.
    #[error("the record has no end: it was cut off, or its recording was never finished")]
    NoEnd,
    /// Something follows the end entry.
    #[error("byte {at}: something follows the end of the record")]
    AfterEnd {
        /// Where.
        at: u64,
    },
    /// There are not as many entries as the end says.
    #[error("the record has {found} entries and should have {expected}; it was damaged")]
    Count {
        /// As its end says.
        expected: u64,
        /// Number found.
        found: u64,
    },
    /// No scheduler in the record, or more than one.
    #[error("the record must have the start of one scheduler, and has {starts}")]
    Starts {
        /// How many there are.
        starts: u64,
    },
    /// The recording began when queues existed already.
    #[error(
        "the recording began when queues existed already, so its orders cannot be computed again; \
         begin it before the first queue is made"
    )]
    NotFresh,
    /// Entries of the scheduler are missing.
    #[error(
        "entry {entry}: {lost} entries of the scheduler are missing here, because the recorder \
         could not keep up, so the orders cannot be compared"
    )]
    Gap {
        /// Where.
        entry: u64,
        /// How many.
        lost: u64,
    },
    /// A newer program fed the scheduler something that this one does not know.
    #[error("entry {entry}: of an unknown kind, {kind}; a newer program wrote it")]
    UnknownInput {
        /// Where.
        entry: u64,
        /// The kind.
        kind: u8,
    },
    /// The recorded policy is not one of those that are known here.
    #[error("the recorded policy `{name}` is not known here; name another one")]
    UnknownPolicy {
        /// Name.
        name: String,
    },
    /// The scheduler's tables are too large.
    #[error("the recorded scheduler has {what}; at most {max} can be replayed")]
    TooManySlots {
        /// How many of what.
        what: String,
        /// How many there may be.
        max: u32,
    },
    /// No thread waited for anything.
    #[error("the record has no request: no command that was waited for has retired")]
    NoRequests,
    /// The times in it make no sense.
    #[error("the times in the record add up to more than ten years")]
    TooLong,
    /// The simulation cannot be set up.
    #[error(transparent)]
    Run(#[from] RunError),
}
