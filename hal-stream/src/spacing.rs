//! Where gates go: how far they are apart, and which commands get one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much predicted work, in nanoseconds of device time, may lie between two gates of a queue:
/// a hold waits for that and at most one and a half commands more. 0 puts a gate in front of every
/// command. Clones are the same spacing, and changing it takes effect with the next launch.
#[derive(Clone, Debug)]
pub struct Spacing(Arc<AtomicU64>);

impl Spacing {
    /// A spacing of this many nanoseconds.
    #[must_use]
    pub fn of_ns(ns: u64) -> Self {
        Self(Arc::new(AtomicU64::new(ns)))
    }

    /// The spacing in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it.
    pub fn set_ns(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
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
