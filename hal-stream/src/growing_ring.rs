//! Rings between the launching and the retiring half of a queue, which grow with what is in them.
//!
//! Most queues have a few fences at a time; one that fills its hardware queue has a thousand. So a
//! ring begins small. A full one is followed by another of twice its size, and its reader goes on
//! there once it has emptied it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rtrb::{Consumer, Producer, PushError, RingBuffer};

/// Entries at first: a fence that is waited for, and one that is recorded late.
const FIRST: usize = 2;

/// The rings behind the reader's.
type Later<T> = Arc<Mutex<VecDeque<Consumer<T>>>>;

/// The end at which entries go in.
#[derive(Debug)]
pub(crate) struct RingWriter<T> {
    ring: Producer<T>,
    later: Later<T>,
    entries_max: usize,
}

/// The end at which entries come out.
#[derive(Debug)]
pub(crate) struct RingReader<T> {
    ring: Consumer<T>,
    later: Later<T>,
}

/// A ring that grows until it has room for this many entries. While its reader does not get on, the
/// smaller ones before it are full as well: it then has fewer than three times as many.
pub(crate) fn growing_ring<T>(entries_max: usize) -> (RingWriter<T>, RingReader<T>) {
    let (writer, reader) = RingBuffer::new(FIRST.min(entries_max));
    let later = Later::default();
    let writer = RingWriter { ring: writer, later: Arc::clone(&later), entries_max };
    (writer, RingReader { ring: reader, later })
}

impl<T> RingWriter<T> {
    /// Entries for which it has room in the end.
    pub(crate) const fn entries_max(&self) -> usize {
        self.entries_max
    }

    fn may_grow(&self) -> bool {
        self.ring.buffer().capacity() < self.entries_max
    }

    /// Returns whether there is room for two more entries.
    pub(crate) fn has_room_for_two(&self) -> bool {
        self.may_grow() || self.ring.slots() >= 2
    }

    /// Puts an entry in. The entry, if there is no room.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), T> {
        let Err(PushError::Full(entry)) = self.ring.push(entry) else { return Ok(()) };
        if !self.may_grow() {
            return Err(entry);
        }
        let entries = (self.ring.buffer().capacity() * 2).clamp(1, self.entries_max);
        let (mut writer, reader) = RingBuffer::new(entries);
        let pushed = writer.push(entry);
        // Before this one ends, at which the reader looks for the next.
        self.later.lock().unwrap_or_else(PoisonError::into_inner).push_back(reader);
        self.ring = writer;
        pushed.map_err(|PushError::Full(entry)| entry)
    }

    /// Returns whether nothing that goes in will come out.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.later) == 1
    }
}

impl<T> RingReader<T> {
    /// Goes on to the next ring, if this one is empty and stays so.
    fn advance(&mut self) {
        while self.ring.is_empty() && self.ring.is_abandoned() && self.ring.is_empty() {
            let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = later.pop_front() else { return };
            self.ring = next;
        }
    }

    /// Takes the oldest entry out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.advance();
        self.ring.pop().ok()
    }

    /// Returns whether there is no entry.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.advance();
        self.ring.is_empty()
    }
}

impl<T: Copy> RingReader<T> {
    /// The oldest entry.
    pub(crate) fn first(&mut self) -> Option<T> {
        self.advance();
        self.ring.peek().ok().copied()
    }

    /// The entry behind the oldest one.
    pub(crate) fn second(&mut self) -> Option<T> {
        self.advance();
        if let Ok(two) = self.ring.read_chunk(2) {
            let (first, second) = two.as_slices();
            return first.iter().chain(second).nth(1).copied();
        }
        // What goes in now goes into the next one.
        let is_followed = self.ring.is_abandoned() && self.ring.slots() == 1;
        let later = is_followed.then(|| self.later.lock().unwrap_or_else(PoisonError::into_inner));
        later.and_then(|later| later.front()?.peek().ok().copied())
    }

    /// Looks at entries from the oldest on, while `see` wants more.
    pub(crate) fn look_while(&mut self, mut see: impl FnMut(&T) -> bool) {
        self.advance();
        let mut goes_on = look_at(&mut self.ring, &mut see);
        if goes_on && self.ring.is_abandoned() {
            let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
            for ring in later.iter_mut() {
                goes_on = goes_on && look_at(ring, &mut see);
            }
        }
    }
}

/// Looks at the entries of a ring, while `see` wants more. Whether it still does.
fn look_at<T>(ring: &mut Consumer<T>, see: impl FnMut(&T) -> bool) -> bool {
    let Ok(entries) = ring.read_chunk(ring.slots()) else { return true };
    let (first, second) = entries.as_slices();
    first.iter().chain(second).all(see)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use xsched_core::rng::SplitMix64;

    use super::*;

    const MAX: usize = 100;

    #[test]
    fn what_goes_in_comes_out_in_order_however_full_it_is() {
        for seed in 0..200 {
            let mut rng = SplitMix64::new(seed);
            let (mut writer, mut reader) = growing_ring(MAX);
            let (mut model, mut next) = (VecDeque::new(), 0);
            for _ in 0..2_000 {
                // Longer runs of one kind, so that it grows and is emptied.
                let is_in = rng.chance(if next / 64 % 2 == 0 { 700 } else { 300 });
                if is_in {
                    let is_taken = writer.push(next).is_ok();
                    assert!(is_taken || model.len() >= MAX, "{} are too many", model.len());
                    model.extend(is_taken.then_some(next));
                    next += 1;
                } else {
                    assert_eq!(reader.first(), model.front().copied());
                    assert_eq!(reader.second(), model.get(1).copied());
                    let mut seen = Vec::new();
                    reader.look_while(|entry| {
                        seen.push(*entry);
                        seen.len() < 3
                    });
                    assert_eq!(seen, model.iter().copied().take(3).collect::<Vec<_>>());
                    assert_eq!(reader.pop(), model.pop_front());
                    assert_eq!(reader.is_empty(), model.is_empty());
                }
                assert!(writer.has_room_for_two() || model.len() + 2 > MAX);
            }
        }
    }

    #[test]
    fn a_full_one_gives_entries_back_and_one_without_a_reader_is_known() {
        let (mut writer, mut reader) = growing_ring(MAX);
        while writer.push(1).is_ok() {}
        assert!(!writer.has_room_for_two() && !writer.is_abandoned());
        let count = std::iter::from_fn(|| reader.pop()).count();
        assert!((MAX..3 * MAX).contains(&count), "{count}");
        assert!(writer.has_room_for_two());
        drop(reader);
        assert!(writer.is_abandoned());
    }

    #[test]
    fn threads_at_both_ends_lose_nothing() {
        let (mut writer, mut reader) = growing_ring(1_000);
        let writing = thread::spawn(move || {
            for entry in 0..100_000 {
                let mut left = writer.push(entry);
                while let Err(entry) = left {
                    left = writer.push(entry);
                }
            }
        });
        let mut next = 0;
        while next < 100_000 {
            if let Some(entry) = reader.pop() {
                assert_eq!(entry, next);
                next += 1;
            }
        }
        writing.join().expect("no panic");
        assert!(reader.is_empty());
    }
}
