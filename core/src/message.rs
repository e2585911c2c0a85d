//! Messages between the two machines. Plain fixed-size data: a local scheduler passes it through a
//! mailbox, a daemon through a socket, and the recorder writes the same bytes.

use crate::id::{CmdId, EventRef, QueueId};
use crate::level::Level;
use crate::time::{Duration, Instant};

/// From the scheduler to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The queue may run.
    Run {
        /// Number of this verdict; older ones are stale.
        epoch: u32,
    },
    /// The queue must hold.
    Hold {
        /// Number of this verdict; older ones are stale.
        epoch: u32,
        /// How deep. The queue goes as deep as it can, up to this.
        level: Level,
    },
    /// Report when this many commands have retired: another queue waits for that.
    Watch {
        /// Number of commands.
        upto: u64,
    },
    /// An event that the queue waits for has been reached.
    Reached {
        /// The event.
        event: EventRef,
        /// False if it never will be because its queue is gone; the waiting command then fails.
        ok: bool,
    },
    /// Report each time this much device time has been used.
    Progress {
        /// The interval; [`Duration::MAX`] for never.
        every: Duration,
    },
}

/// How far a queue has got in obeying the latest verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The queue runs.
    #[default]
    Running,
    /// A hold was ordered and is not yet in effect.
    Holding,
    /// The hold is in effect, as deep as this.
    Held(Level),
    /// The queue may run, and the device is still being told.
    Resuming,
}

impl HoldState {
    const fn to_byte(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Held(level) => level.number(),
            Self::Holding => 4,
            Self::Resuming => 5,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Running),
            4 => Some(Self::Holding),
            5 => Some(Self::Resuming),
            n => match Level::from_number(n) {
                Some(level) => Some(Self::Held(level)),
                None => None,
            },
        }
    }
}

/// How much of its device a ready queue claims, and so which others may as well run beside it
/// under a policy that would let it run alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The whole device: queues of its priority take turns with it.
    #[default]
    Whole,
    /// A part of the device: queues of its priority run beside it.
    Part,
    /// Little of the device: queues of the next priority that has a ready one run beside it, too.
    Little,
}

impl Claim {
    /// Position of its two bits in an encoded report. Before 0.2.0 they were two flags, of which
    /// the second one meant as much as both.
    const SHIFT: u32 = 4;

    const fn to_bits(self) -> u8 {
        (self as u8) << Self::SHIFT
    }

    const fn from_bits(flags: u8) -> Self {
        match flags >> Self::SHIFT & 3 {
            0 => Self::Whole,
            1 => Self::Part,
            _ => Self::Little,
        }
    }
}

/// From a queue to the scheduler: everything the scheduler knows about it, so that a lost or merged
/// report does no harm. The scheduler finds out what changed by comparing.
// In memory in this order: what policies look at comes first, next to the hints in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Report {
    /// When the queue last went from idle to ready.
    pub ready_since: Instant,
    /// The verdict that `hold` refers to.
    pub epoch: u32,
    /// How far the queue has got with it.
    pub hold: HoldState,
    /// A user hold is in effect, whatever the verdict.
    pub suspended: bool,
    /// The queue stopped obeying a hold because the scheduler's lease ran out.
    pub failed_open: bool,
    /// The device is lost; nothing submitted can succeed.
    pub lost: bool,
    /// How much of its device the queue claims while it is ready.
    pub claim: Claim,
    /// Commands submitted so far.
    pub submitted: u64,
    /// Commands that passed the launch point so far.
    pub launched: u64,
    /// Commands retired so far.
    pub retired: u64,
    /// Commands that failed so far.
    pub failures: u64,
    /// Device time used so far.
    pub busy: Duration,
    /// The event that the next command to be launched waits for.
    pub waiting: Option<EventRef>,
}

impl Report {
    /// Returns whether anything is submitted and not retired.
    #[must_use]
    pub const fn pending(&self) -> bool {
        self.submitted > self.retired
    }
}

/// Size of an encoded [`Order`].
pub const ORDER_BYTES: usize = 32;
/// Size of an encoded [`Report`].
pub const REPORT_BYTES: usize = 80;

/// Writes and reads little-endian integers at a moving position.
pub(crate) struct Cursor<B> {
    pub(crate) bytes: B,
    pub(crate) at: usize,
}

impl Cursor<&mut [u8]> {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
    pub(crate) fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }
    pub(crate) fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }
    pub(crate) fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }
}

impl Cursor<&[u8]> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(bytes)
    }
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|b| b[0])
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

impl Order {
    /// The verdict's number, for [`Order::Run`] and [`Order::Hold`].
    #[must_use]
    pub const fn epoch(&self) -> Option<u32> {
        match self {
            Self::Run { epoch } | Self::Hold { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// The order as bytes (little-endian, zero-padded).
    #[must_use]
    pub fn encode(&self) -> [u8; ORDER_BYTES] {
        let mut bytes = [0; ORDER_BYTES];
        let mut to = Cursor { bytes: &mut bytes[..], at: 0 };
        match *self {
            Self::Run { epoch } => {
                to.u32(1);
                to.u32(epoch);
            }
            Self::Hold { epoch, level } => {
                to.u32(2);
                to.u32(epoch);
                to.u8(level.number());
            }
            Self::Watch { upto } => {
                to.u64(3);
                to.u64(upto);
            }
            Self::Reached { event, ok } => {
                to.u32(4);
                to.u32(u32::from(ok));
                to.u64(event.queue.to_bits());
                to.u64(event.cmd.0);
            }
            Self::Progress { every } => {
                to.u64(5);
                to.u64(every.as_ns());
            }
        }
        bytes
    }

    /// The inverse of [`Order::encode`]; `None` for bytes that are no order.
    #[must_use]
    pub fn decode(bytes: &[u8; ORDER_BYTES]) -> Option<Self> {
        let mut from = Cursor { bytes: &bytes[..], at: 0 };
        let (kind, word) = (from.u32()?, from.u32()?);
        Some(match kind {
            1 => Self::Run { epoch: word },
            2 => Self::Hold { epoch: word, level: Level::from_number(from.u8()?)? },
            3 => Self::Watch { upto: from.u64()? },
            4 => {
                let queue = QueueId::from_bits(from.u64()?);
                let event = EventRef { queue, cmd: CmdId(from.u64()?) };
                Self::Reached { event, ok: word != 0 }
            }
            5 => Self::Progress { every: Duration::from_ns(from.u64()?) },
            _ => return None,
        })
    }
}

impl Report {
    /// The report as bytes (little-endian).
    #[must_use]
    pub fn encode(&self) -> [u8; REPORT_BYTES] {
        let mut bytes = [0; REPORT_BYTES];
        let mut to = Cursor { bytes: &mut bytes[..], at: 0 };
        let waits = self.waiting.is_some();
        let flags = [self.suspended, self.failed_open, self.lost, waits];
        let flags = flags.iter().enumerate().fold(0, |word, (i, &set)| word | u8::from(set) << i);
        let flags = flags | self.claim.to_bits();
        to.u32(self.epoch);
        to.u8(self.hold.to_byte());
        to.u8(flags);
        to.put(&[0; 2]);
        for word in [self.submitted, self.launched, self.retired, self.failures] {
            to.u64(word);
        }
        to.u64(self.busy.as_ns());
        to.u64(self.ready_since.as_ns());
        let event = self.waiting;
        to.u64(event.map_or(0, |e| e.queue.to_bits()));
        to.u64(event.map_or(0, |e| e.cmd.0));
        bytes
    }

    /// The inverse of [`Report::encode`]; `None` for bytes that are no report.
    #[must_use]
    pub fn decode(bytes: &[u8; REPORT_BYTES]) -> Option<Self> {
        let mut from = Cursor { bytes: &bytes[..], at: 0 };
        let epoch = from.u32()?;
        let hold = HoldState::from_byte(from.u8()?)?;
        let flags = from.u8()?;
        from.at += 2;
        let mut report = Self { epoch, hold, ..Self::default() };
        report.suspended = flags & 1 != 0;
        report.failed_open = flags & 2 != 0;
        report.lost = flags & 4 != 0;
        report.claim = Claim::from_bits(flags);
        report.submitted = from.u64()?;
        report.launched = from.u64()?;
        report.retired = from.u64()?;
        report.failures = from.u64()?;
        report.busy = Duration::from_ns(from.u64()?);
        report.ready_since = Instant::from_ns(from.u64()?);
        let queue = QueueId::from_bits(from.u64()?);
        let cmd = CmdId(from.u64()?);
        report.waiting = (flags & 8 != 0).then_some(EventRef { queue, cmd });
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = EventRef> {
        (any::<u32>(), any::<u32>(), any::<u64>())
            .prop_map(|(i, g, c)| EventRef { queue: QueueId::new(i, g), cmd: CmdId(c) })
    }

    fn order() -> impl Strategy<Value = Order> {
        prop_oneof![
            any::<u32>().prop_map(|epoch| Order::Run { epoch }),
            (any::<u32>(), 1u8..=3).prop_map(|(epoch, n)| Order::Hold {
                epoch,
                level: Level::from_number(n).unwrap()
            }),
            any::<u64>().prop_map(|upto| Order::Watch { upto }),
            (event(), any::<bool>()).prop_map(|(event, ok)| Order::Reached { event, ok }),
            any::<u64>().prop_map(|ns| Order::Progress { every: Duration::from_ns(ns) }),
        ]
    }

    proptest! {
        #[test]
        fn orders_survive_encoding(order in order()) {
            prop_assert_eq!(Order::decode(&order.encode()), Some(order));
        }

        #[test]
        fn reports_survive_encoding(
            words in any::<[u64; 6]>(), epoch in any::<u32>(), state in 0u8..=5,
            flags in any::<[bool; 3]>(), claim in 0u8..3, waiting in proptest::option::of(event()),
        ) {
            let report = Report {
                epoch, hold: HoldState::from_byte(state).unwrap(),
                suspended: flags[0], failed_open: flags[1], lost: flags[2],
                claim: Claim::from_bits(claim << Claim::SHIFT),
                submitted: words[0], launched: words[1], retired: words[2], failures: words[3],
                busy: Duration::from_ns(words[4]), ready_since: Instant::from_ns(words[5]), waiting,
            };
            prop_assert_eq!(Report::decode(&report.encode()), Some(report));
        }

        /// Queues that were bound by their hosts, and those that left room as well.
        #[test]
        fn flags_of_before_are_claims(leaves_room in any::<bool>(), host_bound in any::<bool>()) {
            let mut bytes = Report::default().encode();
            bytes[5] = u8::from(leaves_room) << 4 | u8::from(host_bound) << 5;
            let part = if leaves_room { Claim::Part } else { Claim::Whole };
            let expected = if host_bound { Claim::Little } else { part };
            prop_assert_eq!(Report::decode(&bytes).map(|report| report.claim), Some(expected));
        }

        #[test]
        fn decoding_any_bytes_never_panics(
            order in any::<[u8; 32]>(),
            report in proptest::collection::vec(any::<u8>(), 80),
        ) {
            let _ = Order::decode(&order);
            let _ = Report::decode(report[..].try_into().unwrap());
        }
    }
}
