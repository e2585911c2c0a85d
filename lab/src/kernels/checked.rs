//! Commands of the host device that check their results, to see that a stop changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_hal_host::{BusyLoop, HostCommand};

use super::witness::{STAMP_NS, Witness, now_ns};

/// Words of memory that [`CheckedKind::Memory`] walks through: 256 KiB, more than a first-level
/// cache.
const WORDS: usize = 1 << 15;
/// Ratio of the time of a step of [`CheckedKind::Memory`] or [`CheckedKind::Atomics`] to that
/// of one of [`CheckedKind::Registers`], about.
const SLOWER: u64 = 4;
/// Value that a command's state begins with.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Work of a checked command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckedKind {
    /// Computes in registers.
    Registers,
    /// Reads and writes 256 KiB of memory.
    Memory,
    /// Adds to shared counters atomically.
    Atomics,
}

/// Results that [`checked`] commands found out about themselves.
#[derive(Debug, Default)]
pub(crate) struct CheckCounters {
    finished: AtomicU64,
    wrong: AtomicU64,
}

impl CheckCounters {
    /// Commands that ran to their end.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Returns the commands whose result was not what it should have been.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Acquire)
    }

    fn add(&self, right: bool) {
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::Release);
    }
}

/// A command that works for about `ns` nanoseconds of device time, writes down the time once in a
/// microsecond of its kind, and compares its result with that of the same work done when this was
/// called. Commands of one queue may share it, those of several may not.
pub(crate) fn checked(
    busy: BusyLoop,
    kind: CheckedKind,
    ns: u64,
    witness: &Arc<Witness>,
    counters: &Arc<CheckCounters>,
) -> HostCommand {
    let steps = match kind {
        CheckedKind::Registers => busy.iterations(STAMP_NS),
        CheckedKind::Memory | CheckedKind::Atomics => busy.iterations(STAMP_NS) / SLOWER,
    };
    let job = Job::new(kind, ns / STAMP_NS, steps.max(1));
    let expected = job.run(|| {});
    let (witness, counters) = (Arc::clone(witness), Arc::clone(counters));
    // Now, so that the function that reads the clock is loaded when a command calls it.
    now_ns();
    let command = HostCommand::new(move || {
        witness.enter();
        let result = job.run(|| witness.stamp());
        counters.add(result == expected);
        witness.leave();
    });
    // SAFETY: it computes, reads the clock, which takes no lock and which the code above has
    // loaded, and reads and writes atomics that live as long as the command. Other readers of
    // those expect any of them to be as old as the stop. It indexes memory in bounds, so it cannot
    // panic, and allocates nothing.
    unsafe { command.interruptible() }
}

/// Work in pieces of about a microsecond.
#[derive(Debug)]
struct Job {
    kind: CheckedKind,
    pieces: u64,
    steps: u64,
    memory: Box<[AtomicU64]>,
}

impl Job {
    fn new(kind: CheckedKind, pieces: u64, steps: u64) -> Self {
        let memory = std::iter::repeat_with(AtomicU64::default).take(WORDS).collect();
        Self { kind, pieces, steps, memory }
    }

    /// Does it from the beginning, with a call after each piece.
    fn run(&self, mut after_each: impl FnMut()) -> u64 {
        for (word, n) in self.memory.iter().zip(SEED..) {
            word.store(n, Ordering::Relaxed);
        }
        let mut state = SEED;
        for _ in 0..self.pieces {
            state = match self.kind {
                CheckedKind::Registers => (0..self.steps).fold(state, |state, _| mix(state)),
                CheckedKind::Memory => (0..self.steps).fold(state, |state, _| self.walk(state)),
                CheckedKind::Atomics => (0..self.steps).fold(state, |state, _| self.count(state)),
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
        for kind in [CheckedKind::Registers, CheckedKind::Memory, CheckedKind::Atomics] {
            let (witness, counters) = (Arc::default(), Arc::default());
            let command = checked(BusyLoop::calibrate(), kind, 5_000, &witness, &counters);
            assert!(command.is_interruptible());
            for _ in 0..3 {
                command.call();
            }
            assert_eq!((counters.finished(), counters.wrong()), (3, 0), "{kind:?}");
            assert_eq!((witness.stamps(), witness.is_inside()), (15, false), "{kind:?}");
        }
    }

    #[test]
    fn a_word_that_another_thread_changes_is_noticed() {
        for kind in [CheckedKind::Memory, CheckedKind::Atomics] {
            let job = Job::new(kind, 4, 1_000);
            let right = job.run(|| {});
            assert_eq!(job.run(|| {}), right, "{kind:?}: it begins anew each time");
            let mut first = true;
            let disturbed = job.run(|| {
                if std::mem::take(&mut first) {
                    job.memory[7].fetch_xor(1, Ordering::Relaxed);
                }
            });
            assert_ne!(disturbed, right, "{kind:?}");
        }
        let short = Job::new(CheckedKind::Registers, 3, 1_000).run(|| {});
        assert_ne!(Job::new(CheckedKind::Registers, 4, 1_000).run(|| {}), short);
        assert_ne!(Job::new(CheckedKind::Registers, 3, 1_001).run(|| {}), short);
    }
}
