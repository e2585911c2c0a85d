//! The record format: what went into and came out of the machines, as compact bytes.
//!
//! A record is a [`Header`], then entries one after the other. Each entry is a kind byte, a length
//! byte, the time in nanoseconds, the queue, and a body that depends on the kind (little-endian
//! throughout). A reader skips entries whose kind it does not know, so a newer writer can add some
//! without a new version. Fed back into the core, the inputs of a record give the same orders.

use crate::hint::{Hints, Priority};
use crate::id::{CmdId, DeviceId, EventRef, ProcessId, QueueId};
use crate::message::{Cursor, ORDER_BYTES, Order, REPORT_BYTES, Report};
use crate::time::{Duration, Instant};

/// The first bytes of a record.
pub const MAGIC: [u8; 8] = *b"XSCHEDRC";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;
/// Size of an encoded header.
pub const HEADER_BYTES: usize = 16;
/// Enough room for any entry.
pub const ENTRY_BYTES_MAX: usize = PREFIX_BYTES + REPORT_BYTES;

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
    /// [`RecordError::NotARecord`] or [`RecordError::Version`].
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
    /// Which queue.
    pub queue: QueueId,
    /// What.
    pub body: Body,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body {
    /// The queue was attached.
    Attach {
        /// Its device.
        device: DeviceId,
        /// Its process.
        process: ProcessId,
        /// Its priority; other hints follow as [`Body::Hint`].
        priority: Priority,
        /// Its threshold.
        threshold: u32,
    },
    /// The queue was detached.
    Detach,
    /// The queue reported.
    Report(Report),
    /// The scheduler ordered.
    Order(Order),
    /// The queue's hints changed.
    Hint(Hints),
    /// A command was submitted: waits for an event, if one is given.
    Submit {
        /// The command.
        cmd: CmdId,
        /// What it waits for.
        wait: Option<EventRef>,
    },
    /// Somebody began to wait for a command.
    Wait {
        /// The command.
        cmd: CmdId,
    },
    /// Commands retired.
    Retired {
        /// The last of them.
        upto: CmdId,
        /// Device time since the previous such entry.
        busy: Duration,
    },
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
        if !(1..=Body::KINDS).contains(&kind) {
            return Ok((None, length));
        }
        let body = Body::decode(kind, body).ok_or(RecordError::BadEntry)?;
        Ok((Some(Self { at, queue: QueueId::from_bits(queue), body }), length))
    }
}

impl Body {
    const KINDS: u8 = 8;

    const fn kind(&self) -> u8 {
        match self {
            Self::Attach { .. } => 1,
            Self::Detach => 2,
            Self::Report(_) => 3,
            Self::Order(_) => 4,
            Self::Hint(_) => 5,
            Self::Submit { .. } => 6,
            Self::Wait { .. } => 7,
            Self::Retired { .. } => 8,
        }
    }

    fn encode(&self, to: &mut Cursor<&mut [u8]>) {
        match self {
            Self::Attach { device, process, priority, threshold } => {
                to.u32(u32::from(device.0));
                to.u32(process.0);
                to.u32(priority.rank() as u32);
                to.u32(*threshold);
            }
            Self::Detach => {}
            Self::Report(report) => to.put(&report.encode()),
            Self::Order(order) => to.put(&order.encode()),
            Self::Hint(hints) => encode_hints(hints, to),
            Self::Submit { cmd, wait } => {
                to.u64(cmd.0);
                if let Some(event) = wait {
                    to.u64(event.queue.to_bits());
                    to.u64(event.cmd.0);
                }
            }
            Self::Wait { cmd } => to.u64(cmd.0),
            Self::Retired { upto, busy } => {
                to.u64(upto.0);
                to.u64(busy.as_ns());
            }
        }
    }

    fn decode(kind: u8, bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor { bytes, at: 0 };
        Some(match kind {
            1 => Self::Attach {
                device: DeviceId(u16::try_from(from.u32()?).ok()?),
                process: ProcessId(from.u32()?),
                priority: rank(from.u32()?)?,
                threshold: from.u32()?,
            },
            2 => Self::Detach,
            3 => Self::Report(Report::decode(bytes.first_chunk::<REPORT_BYTES>()?)?),
            4 => Self::Order(Order::decode(bytes.first_chunk::<ORDER_BYTES>()?)?),
            5 => Self::Hint(decode_hints(&mut from)?),
            6 => {
                let cmd = CmdId(from.u64()?);
                let wait = match from.u64() {
                    None => None,
                    Some(bits) => {
                        let queue = QueueId::from_bits(bits);
                        Some(EventRef { queue, cmd: CmdId(from.u64()?) })
                    }
                };
                Self::Submit { cmd, wait }
            }
            7 => Self::Wait { cmd: CmdId(from.u64()?) },
            _ => {
                let upto = CmdId(from.u64()?);
                Self::Retired { upto, busy: Duration::from_ns(from.u64()?) }
            }
        })
    }
}

fn rank(rank: u32) -> Option<Priority> {
    (rank <= 511).then(|| Priority::from_rank(rank as usize))
}

/// "Not given" for optional times and shares.
const ABSENT: u64 = u64::MAX;

fn encode_hints(hints: &Hints, to: &mut Cursor<&mut [u8]>) {
    to.u32(hints.priority.rank() as u32);
    to.u32(hints.weight);
    to.u32(hints.utilization.map_or(u32::MAX, u32::from));
    to.u32(u32::from(hints.active_window));
    to.u64(hints.deadline.map_or(ABSENT, Duration::as_ns));
    let laxity = hints.laxity;
    to.u64(laxity.map_or(ABSENT, |l| l.lax.as_ns()));
    to.u32(laxity.map_or(0, |l| l.lax_priority.rank() as u32));
    to.u32(laxity.map_or(0, |l| l.critical_priority.rank() as u32));
}

fn decode_hints(from: &mut Cursor<&[u8]>) -> Option<Hints> {
    let mut hints = Hints::with_priority(rank(from.u32()?)?);
    hints.set_weight(from.u32()?).ok()?;
    let share = from.u32()?;
    if share != u32::MAX {
        hints.set_utilization(u8::try_from(share).ok()?).ok()?;
    }
    hints.active_window = from.u32()? != 0;
    let time = |ns: u64| (ns != ABSENT).then(|| Duration::from_ns(ns));
    hints.deadline = time(from.u64()?);
    let lax = time(from.u64()?);
    let (lax_priority, critical_priority) = (rank(from.u32()?)?, rank(from.u32()?)?);
    hints.laxity = lax.map(|lax| crate::hint::Laxity { lax, lax_priority, critical_priority });
    Some(hints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Laxity;
    use proptest::prelude::*;

    fn round_trip(body: Body) {
        let entry = Entry { at: Instant::from_ns(7), queue: QueueId::new(3, 4), body };
        let mut bytes = [0; ENTRY_BYTES_MAX];
        let length = entry.encode(&mut bytes);
        assert_eq!(Entry::decode(&bytes[..length]), Ok((Some(entry), length)));
        for cut in 0..length {
            assert_eq!(Entry::decode(&bytes[..cut]), Err(RecordError::Truncated));
        }
    }

    #[test]
    fn every_kind_survives_and_truncation_is_noticed() {
        let event = EventRef { queue: QueueId::new(9, 1), cmd: CmdId(5) };
        let mut hints = Hints::with_priority(Priority::MIN);
        hints.utilization = Some(75);
        hints.laxity = Some(Laxity {
            lax: Duration::from_ms(3),
            lax_priority: Priority::NO_EXECUTE,
            critical_priority: Priority::MAX,
        });
        let process = ProcessId(2);
        let priority = Priority::MAX;
        round_trip(Body::Attach { device: DeviceId(1), process, priority, threshold: 16 });
        round_trip(Body::Detach);
        round_trip(Body::Report(Report {
            submitted: 3,
            waiting: Some(event),
            ..Report::default()
        }));
        round_trip(Body::Order(Order::Run { epoch: 3 }));
        round_trip(Body::Hint(hints));
        round_trip(Body::Submit { cmd: CmdId(1), wait: None });
        round_trip(Body::Submit { cmd: CmdId(1), wait: Some(event) });
        round_trip(Body::Wait { cmd: CmdId(1) });
        round_trip(Body::Retired { upto: CmdId(1), busy: Duration::from_us(3) });
    }

    #[test]
    fn headers_are_checked() {
        assert_eq!(Header::decode(&Header::encode()), Ok(Header { version: VERSION }));
        assert_eq!(Header::decode(b"something else!!"), Err(RecordError::NotARecord));
        let mut newer = Header::encode();
        newer[8] = 2;
        assert_eq!(Header::decode(&newer), Err(RecordError::Version(2)));
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..128),
        ) {
            if let Ok((_, length)) = Entry::decode(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn unknown_kinds_are_skipped(
            kind in 9u8..,
            body in proptest::collection::vec(any::<u8>(), 0..255),
        ) {
            let mut bytes = std::vec![kind, body.len() as u8];
            bytes.extend([0; 16]);
            bytes.extend(&body);
            prop_assert_eq!(Entry::decode(&bytes), Ok((None, bytes.len())));
        }
    }
}
