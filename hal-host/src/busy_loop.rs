//! Commands that keep a compute unit busy for a known device time.

use std::hint::black_box;

use crate::command::HostCommand;
use crate::sys;

/// Iterations of one calibration round: some 100 µs.
const ROUND: u64 = 50_000;
/// Calibration rounds, of which the fastest counts: the rest were disturbed.
const ROUNDS: u32 = 64;

/// How fast this processor computes, for commands of a known length.
///
/// The length of such a command is a number of iterations, not a time that has to pass: a command
/// that was stopped still has all the rest of its work before it. Commands can be stopped at any
/// instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyLoop {
    /// Iterations in a millisecond, at least 1.
    per_ms: u64,
}

impl BusyLoop {
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

    /// Iterations that take about `ns` nanoseconds.
    #[must_use]
    pub fn iterations(self, ns: u64) -> u64 {
        let iterations = u128::from(ns) * u128::from(self.per_ms) / 1_000_000;
        u64::try_from(iterations).unwrap_or(u64::MAX)
    }

    /// A command that computes for about `ns` nanoseconds of device time. Launching it allocates
    /// nothing.
    ///
    /// ```
    /// let busy = xsched_hal_host::BusyLoop::calibrate();
    /// let half_a_millisecond = busy.command(500_000);
    /// assert!(half_a_millisecond.is_interruptible());
    /// ```
    #[must_use]
    pub fn command(self, ns: u64) -> HostCommand {
        Self::command_of(self.iterations(ns))
    }

    /// A command that computes for a number of iterations, as [`BusyLoop::iterations`] gives them.
    #[must_use]
    pub fn command_of(iterations: u64) -> HostCommand {
        let command = HostCommand::function(compute, iterations, 0);
        // SAFETY: `compute` works in registers: it holds nothing, calls nothing and cannot panic.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_proportional_to_the_time() {
        let busy = BusyLoop { per_ms: 2_000 };
        assert_eq!(busy.iterations(0), 0);
        assert_eq!(busy.iterations(1_000_000), 2_000);
        assert_eq!(busy.iterations(500), 1);
        assert_eq!(BusyLoop { per_ms: u64::MAX }.iterations(u64::MAX), u64::MAX);
        assert!(BusyLoop::calibrate().per_ms > 0);
    }
}
