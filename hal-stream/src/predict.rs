//! How long commands will take, and where gates go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Kinds of commands that are told apart.
const KINDS: usize = 512;
const BITS: usize = u64::BITS as usize;
/// A measurement counts for one part in so many.
const SMOOTHING: i64 = 8;

/// Mean device times of a queue's commands, by kind. Written by the half that polls completions,
/// read by the half that launches.
#[derive(Debug)]
pub(crate) struct Predictor {
    /// In nanoseconds; 0 if nothing is known.
    means: [AtomicU32; KINDS],
    /// The kinds, a bit each, that were measured while no other queue had work on the device.
    certain: [AtomicU64; KINDS / BITS],
}

impl Predictor {
    pub(crate) const fn new() -> Self {
        Self {
            means: [const { AtomicU32::new(0) }; KINDS],
            certain: [const { AtomicU64::new(0) }; KINDS / BITS],
        }
    }

    const fn mean(&self, kind: u32) -> &AtomicU32 {
        &self.means[kind as usize % KINDS]
    }

    /// What a command of this kind will take, in nanoseconds, if one has been measured.
    pub(crate) fn expected_ns(&self, kind: u32) -> Option<u64> {
        let mean = self.mean(kind).load(Ordering::Relaxed);
        (mean > 0).then_some(u64::from(mean))
    }

    /// Whether a command of this kind was measured while no other queue had work on the device.
    pub(crate) fn is_certain(&self, kind: u32) -> bool {
        let (bits, bit) = self.bit(kind);
        bits.load(Ordering::Relaxed) & bit != 0
    }

    /// Where it is noted whether a kind is certain.
    const fn bit(&self, kind: u32) -> (&AtomicU64, u64) {
        let place = kind as usize % KINDS;
        (&self.certain[place / BITS], 1 << (place % BITS))
    }

    /// A command of this kind took so long, while no other queue had work on the device. The first
    /// such measurement takes the place of what was estimated.
    pub(crate) fn measured(&self, kind: u32, ns: u64) {
        let (bits, bit) = self.bit(kind);
        if bits.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.mean(kind).store(0, Ordering::Relaxed);
        }
        self.estimated(kind, ns);
    }

    /// A command of this kind took so long beside what other processes ran, which is a bit of the
    /// time too much, or a lot. Follows what a fifth of them stay below.
    pub(crate) fn taken_in_turn(&self, kind: u32, ns: u64) {
        let mean = self.mean(kind);
        let before = mean.load(Ordering::Relaxed);
        if before == 0 {
            return self.estimated(kind, ns);
        }
        let (ns, step) = (u32::try_from(ns).unwrap_or(u32::MAX).max(1), before / 256 + 1);
        let after = if ns < before {
            // What was measured first may be far too much.
            before.saturating_sub((4 * step).max((before - ns) / SMOOTHING as u32)).max(ns)
        } else {
            before.saturating_add(step).min(ns)
        };
        mean.store(after, Ordering::Relaxed);
    }

    /// A command of this kind probably took so long.
    pub(crate) fn estimated(&self, kind: u32, ns: u64) {
        let mean = self.mean(kind);
        let (before, ns) = (i64::from(mean.load(Ordering::Relaxed)), ns.min(u64::from(u32::MAX)));
        let after = if before == 0 { ns as i64 } else { before + (ns as i64 - before) / SMOOTHING };
        mean.store(u32::try_from(after.max(1)).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

/// How much predicted work, in nanoseconds of device time, may lie between two gates of a queue:
/// a hold waits for that and at most one and a half commands more. 0 puts a gate in front of every
/// command. Clones are the same spacing, and changing it takes effect with the next launch.
#[derive(Clone, Debug)]
pub struct Spacing(Arc<AtomicU64>);

impl Spacing {
    /// A spacing of so many nanoseconds.
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

impl Default for Spacing {
    /// 300 µs: a gate takes 2.3 µs of an H200, so gates cost less than 1 %.
    fn default() -> Self {
        Self::of_ns(300_000)
    }
}

/// Whether it is time for a gate in front of a command, by predicted work, all in nanoseconds.
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
    /// Whether the next command gets a gate. `idle`: nothing is in flight, so there is nothing to
    /// hold it behind. `closed`: it must not start now. `expected_ns`: what it will take.
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

    /// Whether the next command gets a gate unless nothing is in flight.
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

    #[test]
    fn a_prediction_follows_what_is_measured() {
        let predictor = Predictor::new();
        assert_eq!(predictor.expected_ns(3), None);
        predictor.measured(3, 1_000);
        assert_eq!(predictor.expected_ns(3), Some(1_000));
        (0..100).for_each(|_| predictor.measured(3, 2_000));
        assert!(predictor.expected_ns(3).is_some_and(|ns| (1_990..=2_000).contains(&ns)));
        assert_eq!(predictor.expected_ns(4), None);
        predictor.measured(4, u64::MAX);
        assert_eq!(predictor.expected_ns(4), Some(u64::from(u32::MAX)));
    }

    #[test]
    fn times_of_turns_lead_to_what_a_fifth_stays_below() {
        let predictor = Predictor::new();
        predictor.estimated(3, 50_000);
        // Evenly between 100 and 200 µs.
        (0..40_000_u64).for_each(|n| predictor.taken_in_turn(3, 100_000 + n * 7_919 % 100_000));
        let known = predictor.expected_ns(3).expect("a time");
        assert!((112_000..=128_000).contains(&known), "{known}");
    }

    #[test]
    fn a_first_measurement_that_is_far_too_much_is_soon_forgotten() {
        let predictor = Predictor::new();
        predictor.taken_in_turn(3, 2_000_000);
        (0..100)
            .for_each(|n| predictor.taken_in_turn(3, if n % 3 == 0 { 2_000_000 } else { 10_000 }));
        let known = predictor.expected_ns(3).expect("a time");
        assert!((10_000..=12_000).contains(&known), "{known}");
    }

    #[test]
    fn the_first_measurement_on_an_undisturbed_device_replaces_estimates() {
        let predictor = Predictor::new();
        (0..100).for_each(|_| predictor.estimated(3, 1_000));
        assert!(!predictor.is_certain(3));
        predictor.measured(3, 500);
        assert!(predictor.is_certain(3) && !predictor.is_certain(4));
        assert_eq!(predictor.expected_ns(3), Some(500));
    }
}
