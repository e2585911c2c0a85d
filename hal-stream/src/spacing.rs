//! Where gates go: how far they are apart, and which commands get one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much predicted work, in nanoseconds of device time, may lie between two gates of a queue:
/// a hold waits for that and at most one and a half commands more. 0 puts a gate in front of every
/// command. Clones are the same spacing, and changing it takes effect with the next launch.
#[derive(Clone, Debug)]
pub struct Spacing {
    ns: Arc<AtomicU64>,
    widens: bool,
}

/// Device time that a gate takes, in nanoseconds: see [`spacing_ns`].
const GATE_NS: u64 = 2_300;
/// How much more the time counts for which a hold waits for a gate than the time that gates take.
const WAIT_WEIGHT: u64 = 10;
/// The widest spacing where others may hold a stream that they have not held for long: what waits
/// for it does not wait longer than for a time slice of an NVIDIA GPU.
const RARE_MAX_NS: u64 = 2_000_000;

/// Predicted work between two gates, in nanoseconds, of a stream that was held last this long ago.
///
/// Gates a spacing `s` apart cost `GATE_NS / s` of the time, and a hold waits for half of `s`. If
/// holds come each `t`, the least of both together is where `s² = 2 t GATE_NS / WAIT_WEIGHT`. The
/// weight is the one for which that is 100 µs with holds each 20 ms, which is the spacing that was
/// measured with them.
pub(crate) fn rare_spacing_ns(spacing_ns: u64, since_hold: Duration) -> u64 {
    let since_ns = u64::try_from(since_hold.as_nanos()).unwrap_or(u64::MAX);
    let best = since_ns.saturating_mul(2 * GATE_NS / WAIT_WEIGHT).isqrt();
    best.min(RARE_MAX_NS).max(spacing_ns)
}

impl Spacing {
    /// A spacing of this many nanoseconds.
    #[must_use]
    pub fn of_ns(ns: u64) -> Self {
        Self { ns: Arc::new(AtomicU64::new(ns)), widens: false }
    }

    /// The default spacing, which is up to 2 ms where other processes may hold a stream and have
    /// not for long: it goes with the square root of that time, since gates then cost more than
    /// what waits for them.
    #[must_use]
    pub fn widening() -> Self {
        Self { widens: true, ..Self::default() }
    }

    /// Returns whether the spacing widens.
    pub(crate) const fn widens(&self) -> bool {
        self.widens
    }

    /// The spacing in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    /// Changes it.
    pub fn set_ns(&self, ns: u64) {
        self.ns.store(ns, Ordering::Relaxed);
    }
}

/// For whom streams are held, which decides how near their gates have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFor {
    /// Other streams of the process, by its own scheduler.
    Process,
    /// Other processes, by the scheduler of the node.
    Others,
    /// No other process, though the scheduler of the node can hold them.
    None,
}

/// Where gates are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatesIn {
    /// Between the commands of a stream. They follow a change with the next launch.
    Stream,
    /// Between the nodes of a graph, where they stay.
    Graph,
}

/// Predicted work between two gates, in nanoseconds. A gate takes 2.3 µs of an H200
/// (`benches/results/h200-2026-11-21/overhead.json`).
#[must_use]
pub const fn spacing_ns(held_for: HeldFor, gates_in: GatesIn) -> u64 {
    match (held_for, gates_in) {
        // Gates cost 2.3 %, and what waits for them are programs.
        (HeldFor::Others, _) => 100_000,
        // They cost less than 1 %.
        (HeldFor::Process, _) | (HeldFor::None, GatesIn::Graph) => 300_000,
        // They cost nothing that can be measured. A hold by hand alone waits for them.
        (HeldFor::None, GatesIn::Stream) => 10_000_000,
    }
}

impl Default for Spacing {
    /// Spacing for [`HeldFor::Process`].
    fn default() -> Self {
        Self::of_ns(spacing_ns(HeldFor::Process, GatesIn::Stream))
    }
}

/// Tells whether a command gets a gate in front of it, by predicted work, all in nanoseconds.
///
/// The nearest place: a command that goes past the spacing by less than half of itself still
/// belongs before the gate.
pub(crate) const fn is_time(since_ns: u64, work_ns: u64, spacing_ns: u64) -> bool {
    since_ns.saturating_add(work_ns / 2) >= spacing_ns
}

/// Decides which commands get a gate in front of them.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// Predicted work since the last gate, in nanoseconds. More than any spacing if some command
    /// could not be predicted.
    since_ns: u64,
}

impl Placement {
    /// Tells whether the next command gets a gate. `idle`: nothing is in flight, so there is
    /// nothing to hold it behind. `closed`: it must not start now. `expected_ns`: what it will
    /// take.
    pub(crate) fn gate(
        &mut self,
        idle: bool,
        closed: bool,
        expected_ns: Option<u64>,
        spacing_ns: u64,
    ) -> bool {
        let work = expected_ns.unwrap_or(u64::MAX);
        let gate = closed || !idle && self.is_due(expected_ns, spacing_ns);
        self.since_ns = if gate || idle { work } else { self.since_ns.saturating_add(work) };
        gate
    }

    /// Predicted work for which no gate is due yet, in nanoseconds.
    pub(crate) const fn left_ns(&self, spacing_ns: u64) -> u64 {
        spacing_ns.saturating_sub(self.since_ns)
    }

    /// Notes `ns` nanoseconds of predicted work that follow without a gate.
    pub(crate) const fn add_ns(&mut self, ns: u64) {
        self.since_ns = self.since_ns.saturating_add(ns);
    }

    /// Tells whether the next command gets a gate unless nothing is in flight.
    pub(crate) const fn is_due(&self, expected_ns: Option<u64>, spacing_ns: u64) -> bool {
        let work = match expected_ns {
            Some(ns) => ns,
            None => u64::MAX,
        };
        is_time(self.since_ns, work, spacing_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(count: usize, expected_ns: Option<u64>, spacing_ns: u64) -> Vec<bool> {
        let mut placement = Placement::default();
        (0..count).map(|n| placement.gate(n == 0, false, expected_ns, spacing_ns)).collect()
    }

    #[test]
    fn gates_are_a_spacing_apart() {
        let count = |ns, spacing| gates(101, Some(ns), spacing).iter().filter(|g| **g).count();
        assert_eq!(count(100_000, 0), 100);
        assert_eq!(count(100_000, 100_000), 100);
        assert_eq!(count(103_000, 100_000), 100);
        assert_eq!(count(103_000, 200_000), 50);
        assert_eq!(count(100_000, 200_000), 50);
        assert_eq!(count(10_000, 200_000), 5);
        assert_eq!(count(500_000, 200_000), 100);
    }

    #[test]
    fn gates_of_a_stream_that_is_rarely_held_are_farther_apart() {
        let of = |ms| rare_spacing_ns(100_000, Duration::from_millis(ms));
        assert_eq!([0, 20, 1_000].map(of), [100_000, 100_000, 678_232]);
        assert_eq!(of(60_000), RARE_MAX_NS);
        let wide = rare_spacing_ns(10_000_000, Duration::from_secs(60));
        assert_eq!(wide, 10_000_000, "it was wider before");
    }

    #[test]
    fn the_first_of_an_idle_queue_has_none_and_an_unknown_one_has() {
        assert_eq!(gates(3, None, 200_000), [false, true, true]);
    }

    #[test]
    fn a_closed_gate_is_put_in_front_of_any_command() {
        let mut placement = Placement::default();
        assert!(placement.gate(true, true, Some(1), 200_000));
        assert!(placement.gate(false, true, Some(1), 200_000));
        assert!(!placement.gate(false, false, Some(1), 200_000));
    }
}
