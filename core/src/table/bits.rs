//! Sets of queues, as bits in the slots of the table: slot `n` has the bits of the queues in the
//! slots `32 * n` to `32 * n + 31`. So they need no storage of their own, whatever the capacity,
//! and going through a set takes a 32nd of the table and its members.

use crate::table::slot::QueueSlot;

const BITS: usize = u32::BITS as usize;

/// A set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Queues that are ready.
    Ready,
    /// Queues that changed, when there are too many for the list of them.
    Changed,
}

impl Set {
    fn word(self, slot: &mut QueueSlot) -> &mut u32 {
        match self {
            Self::Ready => &mut slot.ready_bits,
            Self::Changed => &mut slot.changed_bits,
        }
    }

    /// Puts the queue at this place into the set, or takes it out.
    pub(crate) fn put(self, queues: &mut [QueueSlot], index: usize, member: bool) {
        let bit = 1 << (index % BITS);
        let word = self.word(&mut queues[index / BITS]);
        if member {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// The first queue of the set at this place or behind it.
    pub(crate) fn next(self, queues: &mut [QueueSlot], from: usize) -> Option<usize> {
        let words = queues.len().div_ceil(BITS);
        let mut skipped = u32::MAX << (from % BITS);
        for (word, slot) in queues.iter_mut().enumerate().take(words).skip(from / BITS) {
            let bits = *self.word(slot) & skipped;
            if bits != 0 {
                return Some(word * BITS + bits.trailing_zeros() as usize);
            }
            skipped = u32::MAX;
        }
        None
    }

    /// Empties the set, and calls this for each queue that was in it.
    pub(crate) fn drain(self, queues: &mut [QueueSlot], mut each: impl FnMut(&mut QueueSlot)) {
        for word in 0..queues.len().div_ceil(BITS) {
            let bits = core::mem::take(self.word(&mut queues[word]));
            Ones(bits).for_each(|bit| each(&mut queues[word * BITS + bit]));
        }
    }
}

/// The queues whose bit is set in such words, in table order.
pub(crate) fn members(
    queues: &[QueueSlot],
    word: impl Fn(&QueueSlot) -> u32,
) -> impl Iterator<Item = &QueueSlot> {
    let words = queues.iter().take(queues.len().div_ceil(BITS)).enumerate();
    words.flat_map(move |(at, slot)| {
        Ones(word(slot)).filter_map(move |bit| queues.get(at * BITS + bit))
    })
}

/// The places of the ones in a word, from the lowest.
struct Ones(u32);

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit as usize)
    }
}
