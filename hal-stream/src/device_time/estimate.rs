//! Estimates of how long commands take, by kind.

use std::sync::atomic::Ordering;

use xsched_hal_process::burst::{Burst, KINDS};

/// A longer sample raises an estimate by one part in 32, a shorter one takes away half of the
/// difference: estimates stay near the shortest third of the samples, whatever the others contain.
const RISE: u32 = 32;

/// Set in a slot once a sample was measured without a disturbance.
const CLEAN: u64 = 1 << 32;
/// The lowest bit of what tells kinds of one slot apart, which has all bits above.
const TAG: u32 = 33;

/// Device times of a queue's commands, by kind. The half that polls completions writes them, the
/// half that launches reads them.
#[derive(Debug)]
pub(crate) struct Estimates {
    /// Nanoseconds in the lower half, 0 without an estimate; [`CLEAN`], and a tag.
    slots: Burst,
}

/// Contents of a sample besides the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quality {
    /// Nothing.
    Clean,
    /// Perhaps a hold, or work of other processes or other streams.
    Disturbed,
}

impl Estimates {
    /// Estimates that launches within this burst read.
    pub(crate) fn new(burst: &Burst) -> Self {
        Self { slots: burst.clone() }
    }

    /// Nanoseconds that a command of this kind will take, if one was measured.
    pub(crate) fn expected_ns(&self, kind: u32) -> Option<u64> {
        self.slots.state().expected_ns(kind).map(u64::from)
    }

    /// Learns from a sample that took this long. True if the estimate was another kind's.
    ///
    /// A disturbed sample is a bound from above: it counts if no clean one is known, or if it is
    /// less.
    pub(crate) fn learn(&self, kind: u32, ns: u64, quality: Quality) -> bool {
        let tag = u64::from(kind / KINDS as u32) << TAG;
        let slot = self.slots.state().estimate(kind);
        let old = slot.load(Ordering::Relaxed);
        let (known, was_clean) = (old as u32, old & CLEAN != 0);
        let ns = u32::try_from(ns).unwrap_or(u32::MAX).max(1);
        let after = match quality {
            Quality::Clean if !was_clean => ns,
            Quality::Disturbed if was_clean => step(known, ns.min(known)),
            Quality::Clean | Quality::Disturbed => step(known, ns),
        };
        let clean = if quality == Quality::Clean { CLEAN } else { old & CLEAN };
        slot.store(u64::from(after) | clean | tag, Ordering::Relaxed);
        old != 0 && old >> TAG != tag >> TAG
    }
}

/// An estimate after one more sample, in nanoseconds.
fn step(known: u32, ns: u32) -> u32 {
    match known {
        0 => ns,
        _ if ns < known => ns + (known - ns) / 2,
        _ => known.saturating_add(known / RISE + 1).min(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::Quality::{Clean, Disturbed};
    use super::*;

    #[test]
    fn an_estimate_follows_samples() {
        let estimates = Estimates::new(&Burst::take());
        assert_eq!(estimates.expected_ns(3), None);
        estimates.learn(3, 1_000, Clean);
        assert_eq!(estimates.expected_ns(3), Some(1_000));
        for ns in [2_000, 500] {
            (0..30).for_each(|_| {
                estimates.learn(3, ns, Clean);
            });
            assert_eq!(estimates.expected_ns(3), Some(ns));
        }
        assert_eq!(estimates.expected_ns(4), None);
        estimates.learn(4, u64::MAX, Clean);
        assert_eq!(estimates.expected_ns(4), Some(u64::from(u32::MAX)));
    }

    #[test]
    fn samples_that_contain_more_are_outweighed_by_shorter_ones() {
        let estimates = Estimates::new(&Burst::take());
        // Evenly between 100 and 200 µs.
        (0..40_000_u64).for_each(|n| {
            estimates.learn(3, 100_000 + n * 7_919 % 100_000, Disturbed);
        });
        let known = estimates.expected_ns(3).expect("an estimate");
        assert!((110_000..=145_000).contains(&known), "{known}");
        // The first one far too long, and each third.
        estimates.learn(4, 2_000_000, Clean);
        (0..100).for_each(|n| {
            estimates.learn(4, if n % 3 == 0 { 2_000_000 } else { 10_000 }, Clean);
        });
        let known = estimates.expected_ns(4).expect("an estimate");
        assert!((10_000..=10_500).contains(&known), "{known}");
    }

    #[test]
    fn a_clean_sample_replaces_disturbed_ones_which_only_lower_it_then() {
        let estimates = Estimates::new(&Burst::take());
        estimates.learn(3, 500, Disturbed);
        assert_eq!(estimates.expected_ns(3), Some(500));
        estimates.learn(3, 800, Clean);
        assert_eq!(estimates.expected_ns(3), Some(800));
        estimates.learn(3, 5_000, Disturbed);
        assert_eq!(estimates.expected_ns(3), Some(800));
        estimates.learn(3, 600, Disturbed);
        assert_eq!(estimates.expected_ns(3), Some(700), "it took no longer");
    }

    #[test]
    fn kinds_that_share_a_slot_are_noticed() {
        let estimates = Estimates::new(&Burst::take());
        let other = 3 + 5 * KINDS as u32;
        let learn = |kind| estimates.learn(kind, 1_000, Clean);
        assert_eq!([3, 3, 4, other, other, 3].map(learn), [false, false, false, true, false, true]);
    }
}
