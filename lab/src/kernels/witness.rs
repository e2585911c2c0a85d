//! Commands of the host device that write down when they run.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use xsched_hal_host::{BusyLoop, HostCommand};

/// Work between two stamps of a [`Witness`], in nanoseconds.
pub(crate) const STAMP_NS: u64 = 1_000;

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// A command that computes for about `ns` nanoseconds of device time and writes down the time once
/// in a microsecond of its work, which adds a few percent to its length.
pub(crate) fn witnessed(busy: BusyLoop, ns: u64, witness: &Arc<Witness>) -> HostCommand {
    let (each, witness) = (busy.iterations(STAMP_NS), Arc::clone(witness));
    // Now, so that the function that reads the clock is loaded when a command calls it.
    now_ns();
    let command = HostCommand::new(move || {
        witness.enter();
        for _ in 0..ns / STAMP_NS {
            compute(each);
            witness.stamp();
        }
        witness.leave();
    });
    // SAFETY: it computes, reads the clock, which takes no lock and which the code above has
    // loaded, and writes atomics that live as long as the command. Readers of those expect any of
    // them to be as old as the stop. It cannot panic and allocates nothing.
    unsafe { command.interruptible() }
}

/// Spins like [`BusyLoop::command`].
fn compute(iterations: u64) {
    let mut x = 1_u64;
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// Moments that [`witnessed`] commands write down while they run. All times are nanoseconds of the
/// monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    last_ns: AtomicU64,
    first_ns: AtomicU64,
    armed: AtomicBool,
    inside: AtomicBool,
    stamps: AtomicU64,
}

impl Witness {
    /// The clock of the stamps.
    pub(crate) fn now_ns() -> u64 {
        now_ns()
    }

    /// A command starts.
    pub(crate) fn enter(&self) {
        self.inside.store(true, Ordering::Relaxed);
    }

    /// A command has ended.
    pub(crate) fn leave(&self) {
        self.inside.store(false, Ordering::Relaxed);
    }

    pub(crate) fn stamp(&self) {
        // Before the clock is read: between the two, the command may be stopped for long, and then
        // the time is from before the stop.
        let armed = self.armed.load(Ordering::Acquire);
        let now_ns = now_ns();
        self.last_ns.store(now_ns, Ordering::Relaxed);
        self.stamps.fetch_add(1, Ordering::Relaxed);
        if armed {
            self.first_ns.store(now_ns, Ordering::Relaxed);
            self.armed.store(false, Ordering::Release);
        }
    }

    /// When a command was last seen to run; 0 if none was.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed)
    }

    /// How often a command was seen to run.
    pub(crate) fn stamps(&self) -> u64 {
        self.stamps.load(Ordering::Relaxed)
    }

    /// Returns whether a command has started and not ended; it may be stopped.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }

    /// Has the next time that a command is seen to run kept for [`Witness::first_ns`].
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Release);
    }

    /// When a command was first seen to run since [`Witness::arm`], if one was.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        (!self.armed.load(Ordering::Acquire)).then(|| self.first_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_remembers_the_first_stamp_after_it_was_armed() {
        let witness = Arc::new(Witness::default());
        let command = witnessed(BusyLoop::calibrate(), 5_000, &witness);
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
