//! Names of things: queues, devices, processes, commands, events.

use core::fmt;
use core::num::NonZeroU32;

/// A queue in a scheduler's table. The generation tells a reused table slot from its former owner,
/// so a stale id is answered with "not found" instead of another queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    // Plus one, so that an optional id takes no more room: tables are full of them.
    number: NonZeroU32,
    generation: u32,
}

impl QueueId {
    /// A queue id from its parts. No table is so large that it has a slot `u32::MAX`; that one
    /// counts as the slot before, which no table has either.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { number: NonZeroU32::MIN.saturating_add(index), generation }
    }

    /// The table slot.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.number.get() - 1) as usize
    }

    /// How often the slot has been reused.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Both parts in one word, for messages and records.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index() as u64
    }

    /// The inverse of [`QueueId::to_bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self::new(bits as u32, (bits >> 32) as u32)
    }
}

impl Default for QueueId {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl fmt::Debug for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, generation) = (self.index(), self.generation);
        f.debug_struct("QueueId").field("index", &index).field("generation", &generation).finish()
    }
}

/// A device of a scheduler: an index into its device table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

impl DeviceId {
    /// The table slot.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A process, for policies that group queues by the process that owns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A command of one queue: its place in submission order, starting at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CmdId(pub u64);

impl CmdId {
    /// The number of commands up to and including this one.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0.saturating_add(1)
    }
}

/// The completion of one command of one queue. Other queues can wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventRef {
    /// The queue whose command it is.
    pub queue: QueueId,
    /// The command.
    pub cmd: CmdId,
}
