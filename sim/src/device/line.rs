//! The streams that wait for a device, in order of their turns.

use std::collections::VecDeque;

/// The time of a finish, with the token that keeps it valid.
pub(super) type Finish = Option<(u64, u32)>;

/// The first turn of streams that are not urgent: that of a stream that an urgent one has
/// interrupted. The turns of urgent streams come before.
pub(super) const NEXT: u64 = 1 << 63;

/// Streams that wait for the device, each with its turn, in order of turns.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: VecDeque<(u64, u32)>,
    turns: u64,
}

impl Line {
    /// Puts a stream in line at its turn, which it keeps if it has one already.
    pub(super) fn insert(&mut self, stream: u32, urgent: bool, turn: &mut Option<u64>) {
        let turn = *turn.get_or_insert_with(|| {
            self.turns += 1;
            if urgent { self.turns } else { NEXT + self.turns }
        });
        let is_last = self.waiting.back().is_none_or(|(last, _)| *last < turn);
        let before = || self.waiting.partition_point(|(other, _)| *other < turn);
        let at = if is_last { self.waiting.len() } else { before() };
        self.waiting.insert(at, (turn, stream));
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.waiting.pop_front().map(|(_, stream)| stream)
    }

    /// True if the first in line goes before streams that are not urgent.
    pub(super) fn is_urgent_first(&self) -> bool {
        self.waiting.front().is_some_and(|(turn, _)| *turn < NEXT)
    }
}
