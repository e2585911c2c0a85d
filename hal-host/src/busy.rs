//! Commands that keep a compute unit busy for a known device time.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::command::HostCommand;
use crate::sys;

/// Iterations of one calibration round: some 100 µs.
const ROUND: u64 = 50_000;
/// Calibration rounds, of which the fastest counts: the others were disturbed.
const ROUNDS: u32 = 64;
/// Work between two stamps of a [`Witness`], in nanoseconds.
pub(crate) const STAMP_NS: u64 = 1_000;

/// How fast this processor computes, for commands of a known length.
///
/// The length of such a command is a number of iterations, not a time that has to pass: a command
/// that was stopped still has all the rest of its work before it. Commands can be stopped at any
/// instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Iterations in a millisecond, at least 1.
    per_ms: u64,
}

impl Busy {
    /// Measures the processor. Takes a few milliseconds, in which nothing else should run.
    #[must_use]
    pub fn calibrate() -> Self {
        let round = |_| {
            let start = sys::now_ns();
            compute(ROUND, 0);
            sys::now_ns().saturating_sub(start)
        };
        let fastest_ns = (0..ROUNDS).map(round).min().unwrap_or(0).max(1);
        Self { per_ms: (ROUND * 1_000_000 / fastest_ns).max(1) }
    }

    pub(crate) fn iterations(self, ns: u64) -> u64 {
        let iterations = u128::from(ns) * u128::from(self.per_ms) / 1_000_000;
        u64::try_from(iterations).unwrap_or(u64::MAX)
    }

    /// A command that computes for about `ns` nanoseconds of device time. Launching it allocates
    /// nothing.
    #[must_use]
    pub fn command(self, ns: u64) -> HostCommand {
        let command = HostCommand::function(compute, self.iterations(ns), 0);
        // SAFETY: `compute` works in registers: it holds nothing, calls nothing and cannot panic.
        unsafe { command.interruptible() }
    }

    /// The same, but once in a microsecond of its work it writes down the time, which adds a few
    /// percent to its length.
    #[must_use]
    pub fn witnessed(self, ns: u64, witness: &Arc<Witness>) -> HostCommand {
        let (each, witness) = (self.iterations(STAMP_NS), Arc::clone(witness));
        // Now, so that the function that reads the clock is loaded when a command calls it.
        sys::now_ns();
        let command = HostCommand::new(move || {
            witness.enter();
            for _ in 0..ns / STAMP_NS {
                compute(each, 0);
                witness.stamp();
            }
            witness.leave();
        });
        // SAFETY: it computes, reads the clock, which takes no lock and which the code above has
        // loaded, and writes atomics that live as long as the command. Who reads those expects any
        // of them to be as old as the stop. It cannot panic and allocates nothing.
        unsafe { command.interruptible() }
    }
}

/// Each result is needed for the next, so that the time per iteration is the processor's latency
/// and nothing can be left out.
fn compute(iterations: u64, seed: u64) {
    let mut x = seed | 1;
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// What [`Busy::witnessed`] commands write down while they run. All times are nanoseconds of the
/// monotonic clock.
#[derive(Debug, Default)]
pub struct Witness {
    last_ns: AtomicU64,
    first_ns: AtomicU64,
    armed: AtomicBool,
    inside: AtomicBool,
    stamps: AtomicU64,
}

impl Witness {
    /// The clock of the stamps.
    #[must_use]
    pub fn now_ns() -> u64 {
        sys::now_ns()
    }

    /// A command starts.
    pub(crate) fn enter(&self) {
        self.inside.store(true, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn leave(&self) {
        self.inside.store(false, Ordering::Relaxed);
    }

    pub(crate) fn stamp(&self) {
        // Before the clock is read: between the two, the command may be stopped for long, and then
        // the time is from before the stop.
        let armed = self.armed.load(Ordering::Acquire);
        let now_ns = sys::now_ns();
        self.last_ns.store(now_ns, Ordering::Relaxed);
        self.stamps.fetch_add(1, Ordering::Relaxed);
        if armed {
            self.first_ns.store(now_ns, Ordering::Relaxed);
            self.armed.store(false, Ordering::Release);
        }
    }

    /// When a command was last seen to run; 0 if none was.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed)
    }

    /// How often a command was seen to run.
    #[must_use]
    pub fn stamps(&self) -> u64 {
        self.stamps.load(Ordering::Relaxed)
    }

    /// Whether a command has started and not ended; it may be stopped.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }

    /// Has the next time that a command is seen to run kept for [`Witness::first_ns`].
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Release);
    }

    /// When a command was first seen to run since [`Witness::arm`], if one was.
    #[must_use]
    pub fn first_ns(&self) -> Option<u64> {
        (!self.armed.load(Ordering::Acquire)).then(|| self.first_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_proportional_to_the_time() {
        let busy = Busy { per_ms: 2_000 };
        assert_eq!(busy.iterations(0), 0);
        assert_eq!(busy.iterations(1_000_000), 2_000);
        assert_eq!(busy.iterations(500), 1);
        assert_eq!(Busy { per_ms: u64::MAX }.iterations(u64::MAX), u64::MAX);
        assert!(Busy::calibrate().per_ms > 0);
    }

    #[test]
    fn a_witness_remembers_the_first_stamp_after_it_was_armed() {
        let witness = Arc::new(Witness::default());
        let command = Busy { per_ms: 1_000 }.witnessed(5_000, &witness);
        command.call();
        let before = witness.last_ns();
        assert_eq!((witness.stamps(), witness.is_inside()), (5, false));
        witness.arm();
        assert_eq!(witness.first_ns(), None);
        command.call();
        assert!(witness.first_ns().unwrap() >= before);
        assert!(witness.first_ns().unwrap() <= witness.last_ns());
    }
}
