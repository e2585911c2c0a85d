//! Work that streams carry out.

use std::fmt;
use std::sync::Arc;

use crate::event::Record;
use crate::graph::Graph;

/// Kind of a command, by the numbers that graphs have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A kernel.
    Kernel = 0,
    /// A copy.
    Copy = 1,
    /// A fill.
    Fill = 2,
    /// A function of the host's.
    Call = 3,
    /// A graph.
    Graph = 4,
    /// Nothing.
    Empty = 5,
    /// A wait for an event.
    AwaitEvent = 6,
    /// A record of an event.
    RecordEvent = 7,
    /// Memory taken from a pool.
    Allocate = 10,
    /// Memory given back to a pool.
    Free = 11,
    /// Waits for words, and words that are written.
    MemoryOperations = 12,
}

/// Work of a command.
#[derive(Clone)]
pub enum Work {
    /// No work: what comes before it is all that matters.
    Nothing,
    /// Needs a unit of the device. Answers 0, or the error with which it loses the device.
    Kernel(Arc<dyn Fn() -> u32 + Send + Sync>),
    /// Something of the device's that is done at once.
    Short(Arc<dyn Fn() + Send + Sync>),
    /// Waits until something holds.
    Await(Arc<dyn Fn() -> bool + Send + Sync>),
    /// Completes a recording, on a lost device too.
    Record(Arc<Record>),
    /// A function of the host's.
    Call(Arc<dyn Fn() + Send + Sync>),
    /// All nodes of a graph.
    Graph(Arc<Graph>),
}

impl Work {
    /// Waits for a recording.
    #[must_use]
    pub fn await_record(record: Arc<Record>) -> Self {
        Self::Await(Arc::new(move || record.time_ns().is_some()))
    }

    /// A fill with a byte.
    #[must_use]
    pub fn fill(to: usize, value: u8, bytes: usize) -> Self {
        Self::Short(Arc::new(move || {
            // SAFETY: the launch found the memory in the table, and freeing waits for this.
            unsafe { std::ptr::write_bytes(crate::memory::pointer(to), value, bytes) };
        }))
    }

    /// A copy of bytes.
    #[must_use]
    pub fn copy(to: usize, from: usize, bytes: usize) -> Self {
        Self::Short(Arc::new(move || {
            let (to, from) = (crate::memory::pointer(to), crate::memory::pointer(from));
            // SAFETY: the caller of the launch promises that the memory is there until it is done;
            // what was in the table stays until then.
            unsafe { std::ptr::copy(from.cast_const(), to, bytes) };
        }))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Kernel(_) => "Kernel",
            Self::Short(_) => "Short",
            Self::Await(_) => "Await",
            Self::Record(_) => "Record",
            Self::Call(_) => "Call",
            Self::Graph(_) => "Graph",
        })
    }
}

/// How a word is compared with a value.
#[derive(Clone, Copy, Debug)]
pub enum Compare {
    /// At least as high, as a difference, so that a counter may wrap.
    GreaterOrEqual,
    /// Equal to the value.
    Equal,
    /// A bit of the value is set.
    And,
    /// A bit is set neither in the word nor in the value.
    Nor,
}

impl Compare {
    /// By the number that CUDA and HIP have for it.
    #[must_use]
    pub const fn from_flags(flags: u32) -> Option<Self> {
        Some(match flags {
            0 => Self::GreaterOrEqual,
            1 => Self::Equal,
            2 => Self::And,
            3 => Self::Nor,
            _ => return None,
        })
    }

    /// True if a word is as awaited, by the bits of the mask.
    #[must_use]
    pub const fn holds(self, word: u32, value: u32, mask: u32) -> bool {
        let word = word & mask;
        match self {
            Self::GreaterOrEqual => word.wrapping_sub(value).cast_signed() >= 0,
            Self::Equal => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value & mask) != 0,
        }
    }

    /// True if a word of 8 bytes is as awaited.
    #[must_use]
    pub const fn holds_64(self, word: u64, value: u64) -> bool {
        match self {
            Self::GreaterOrEqual => word.wrapping_sub(value).cast_signed() >= 0,
            Self::Equal => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_as_hip_and_cuda_say() {
        let holds = |flags, word, value, mask| {
            Compare::from_flags(flags).expect("there is one").holds(word, value, mask)
        };
        assert!(holds(0, 5, 5, u32::MAX) && holds(0, 6, 5, u32::MAX) && !holds(0, 4, 5, u32::MAX));
        assert!(holds(1, 0xf5, 5, 0xf) && !holds(1, 0xf5, 5, 0xff));
        assert!(holds(2, 6, 2, u32::MAX) && !holds(2, 6, 1, u32::MAX));
        assert!(holds(3, 1, 2, u32::MAX) && !holds(3, u32::MAX, 0, u32::MAX));
        assert!(Compare::from_flags(4).is_none());
        assert!(
            Compare::GreaterOrEqual.holds_64(1 << 40, 5) && !Compare::Nor.holds_64(u64::MAX, 0)
        );
    }
}
