//! Commands whose results are checked, to see that being stopped changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::busy::{Busy, STAMP_NS, Witness};
use crate::command::HostCommand;
use crate::sys;

/// Words of memory that [`Work::Memory`] walks through: 256 KiB, more than a first-level cache.
const WORDS: usize = 1 << 15;
/// Steps of [`Work::Memory`] and [`Work::Atomics`] take about so many times as long as one of
/// [`Work::Registers`].
const SLOWER: u64 = 4;
/// What a command's state begins with.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a checked command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Computes in registers.
    Registers,
    /// Reads and writes 256 KiB of memory.
    Memory,
    /// Adds to shared counters atomically.
    Atomics,
}

/// What [`Busy::checked`] commands found out about themselves.
#[derive(Debug, Default)]
pub struct Tally {
    finished: AtomicU64,
    wrong: AtomicU64,
}

impl Tally {
    /// Commands that ran to their end.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Those of them whose result was not what it should have been.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Acquire)
    }

    fn add(&self, right: bool) {
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::Release);
    }
}

impl Busy {
    /// A command that works for about `ns` nanoseconds of device time, writes down the time once in
    /// a microsecond of its work, and compares its result with that of the same work done when this
    /// was called. Commands of one queue may share it, those of several may not.
    #[must_use]
    pub fn checked(
        self,
        work: Work,
        ns: u64,
        witness: &Arc<Witness>,
        tally: &Arc<Tally>,
    ) -> HostCommand {
        let steps = match work {
            Work::Registers => self.iterations(STAMP_NS),
            Work::Memory | Work::Atomics => self.iterations(STAMP_NS) / SLOWER,
        };
        let job = Job::new(work, ns / STAMP_NS, steps.max(1));
        let expected = job.run(|| {});
        let (witness, tally) = (Arc::clone(witness), Arc::clone(tally));
        // Now, so that the function that reads the clock is loaded when a command calls it.
        sys::now_ns();
        let command = HostCommand::new(move || {
            witness.enter();
            let result = job.run(|| witness.stamp());
            tally.add(result == expected);
            witness.leave();
        });
        // SAFETY: it computes, reads the clock, which takes no lock and which the code above has
        // loaded, and reads and writes atomics that live as long as the command. Who else reads
        // those expects any of them to be as old as the stop. It indexes memory in bounds, so it
        // cannot panic, and allocates nothing.
        unsafe { command.interruptible() }
    }
}

/// Work in pieces of about a microsecond.
#[derive(Debug)]
struct Job {
    work: Work,
    pieces: u64,
    steps: u64,
    memory: Box<[AtomicU64]>,
}

impl Job {
    fn new(work: Work, pieces: u64, steps: u64) -> Self {
        let memory = std::iter::repeat_with(AtomicU64::default).take(WORDS).collect();
        Self { work, pieces, steps, memory }
    }

    /// Does it from the beginning, with a call after each piece.
    fn run(&self, mut after_each: impl FnMut()) -> u64 {
        for (word, n) in self.memory.iter().zip(SEED..) {
            word.store(n, Ordering::Relaxed);
        }
        let mut state = SEED;
        for _ in 0..self.pieces {
            state = match self.work {
                Work::Registers => (0..self.steps).fold(state, |state, _| mix(state)),
                Work::Memory => (0..self.steps).fold(state, |state, _| self.walk(state)),
                Work::Atomics => (0..self.steps).fold(state, |state, _| self.count(state)),
            };
            after_each();
        }
        let words = self.memory.iter().map(|word| word.load(Ordering::Relaxed));
        words.fold(state, |sum, word| mix(sum ^ word))
    }

    /// Exchanges a word that the state chooses for another.
    fn walk(&self, state: u64) -> u64 {
        let Some(word) = self.memory.get(state as usize % WORDS) else { return state };
        let read = word.load(Ordering::Relaxed);
        word.store(read.wrapping_add(state), Ordering::Relaxed);
        mix(state ^ read)
    }

    /// Adds to a word that the state chooses.
    fn count(&self, state: u64) -> u64 {
        let Some(word) = self.memory.get(state as usize % WORDS) else { return state };
        let before = word.fetch_add(state, Ordering::Relaxed);
        mix(state ^ before)
    }
}

/// One step of a sequence in which each number needs the one before. Different numbers stay
/// different.
const fn mix(state: u64) -> u64 {
    let mut x = state.wrapping_add(SEED);
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undisturbed_commands_are_right_and_leave_stamps() {
        for work in [Work::Registers, Work::Memory, Work::Atomics] {
            let (witness, tally) = (Arc::default(), Arc::default());
            let command = Busy::calibrate().checked(work, 5_000, &witness, &tally);
            assert!(command.is_interruptible());
            for _ in 0..3 {
                command.call();
            }
            assert_eq!((tally.finished(), tally.wrong()), (3, 0), "{work:?}");
            assert_eq!((witness.stamps(), witness.is_inside()), (15, false), "{work:?}");
        }
    }

    #[test]
    fn a_word_that_somebody_else_changes_is_noticed() {
        for work in [Work::Memory, Work::Atomics] {
            let job = Job::new(work, 4, 1_000);
            let right = job.run(|| {});
            assert_eq!(job.run(|| {}), right, "{work:?}: it begins anew each time");
            let mut first = true;
            let disturbed = job.run(|| {
                if std::mem::take(&mut first) {
                    job.memory[7].fetch_xor(1, Ordering::Relaxed);
                }
            });
            assert_ne!(disturbed, right, "{work:?}");
        }
        let short = Job::new(Work::Registers, 3, 1_000).run(|| {});
        assert_ne!(Job::new(Work::Registers, 4, 1_000).run(|| {}), short);
        assert_ne!(Job::new(Work::Registers, 3, 1_001).run(|| {}), short);
    }
}
