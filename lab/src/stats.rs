//! Quantiles, and the processor time of this program.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_sim::sample::{Rng, Sampler};
use xsched_sim::scenario::Dist;

/// Samples that a P99 needs.
pub(crate) const P99_SAMPLES: usize = 1_000;

/// Samples that anything else needs to be judged: with fewer, a mean is not nearly normal.
pub(crate) const SAMPLES_MIN: usize = 30;
/// Pairs that a median needs to be judged: all of them lie on one side of the true median in one of
/// 2^5 cases, so that their range is a 95 % interval.
pub(crate) const PAIRS_MIN: usize = 6;

/// Quantiles in microseconds, each the smallest sample that the quantile's part of the samples does
/// not exceed (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    /// How many samples there are.
    pub(crate) samples: usize,
    /// Mean.
    pub(crate) mean_us: f64,
    /// Smallest.
    pub(crate) min_us: f64,
    /// 50th percentile.
    pub(crate) p50_us: f64,
    /// 90th percentile.
    #[serde(default)]
    pub(crate) p90_us: f64,
    /// 95th percentile.
    pub(crate) p95_us: f64,
    /// 99th percentile; `None` with fewer than [`P99_SAMPLES`].
    pub(crate) p99_us: Option<f64>,
    /// Largest.
    pub(crate) max_us: f64,
}

impl Quantiles {
    /// The quantiles of these samples in nanoseconds. All zero if there are none.
    pub(crate) fn of(samples_ns: &[u64]) -> Self {
        Self::with_p99_from(P99_SAMPLES, samples_ns)
    }

    /// Quantiles with another number of samples that a P99 needs.
    pub(crate) fn with_p99_from(p99_samples: usize, samples_ns: &[u64]) -> Self {
        let mut sorted = samples_ns.to_vec();
        sorted.sort_unstable();
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let us = |ns: u64| ns as f64 / 1e3;
        let rank = |percent: usize| (sorted.len() * percent).div_ceil(100).max(1) - 1;
        let at = |percent| sorted.get(rank(percent)).copied().map_or(0.0, us);
        let sum: u128 = sorted.iter().map(|&ns| u128::from(ns)).sum();
        Self {
            samples: sorted.len(),
            mean_us: sum as f64 / sorted.len() as f64 / 1e3,
            min_us: us(*first),
            p50_us: at(50),
            p90_us: at(90),
            p95_us: at(95),
            p99_us: (sorted.len() >= p99_samples).then(|| at(99)),
            max_us: us(*last),
        }
    }

    /// The 99th percentile over another one's.
    pub(crate) fn p99_over(&self, alone: &Self) -> Option<f64> {
        Some(self.p99_us? / alone.p99_us.filter(|&p99| p99 > 0.0)?)
    }
}

/// Why there is no verdict on what is faster beside others than alone.
pub(crate) const FASTER_THAN_ALONE: &str =
    "faster than alone, so the run alone was disturbed; measure again";

/// Returns whether work is faster beside others than alone by more than a goal tells apart: its
/// time over that alone is as far below 1 as the goal lets it be above. Sharing a device makes
/// nothing faster, so the run alone was disturbed by at least that factor, and the ratio shows
/// neither that the goal is met nor that it is missed.
pub(crate) fn is_faster_than_alone(over_alone: f64, at_most: f64) -> bool {
    over_alone * at_most.max(1.0) < 1.0
}

/// The middle value; of an even number the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// As many values, drawn anew with replacement for a bootstrap. Neighbours in time are alike, so
/// they are drawn in blocks; a block has the cube root of the number of values (Künsch 1989).
pub(crate) fn drawn<T: Copy>(values: &[T], random: &mut Rng) -> Vec<T> {
    let count = values.len();
    let block = (count as f64).cbrt().round() as usize;
    let mut places = Sampler::new(&Dist::Uniform { min_ns: 0, max_ns: count.max(1) as u64 - 1 });
    let mut all: Vec<T> = Vec::with_capacity(count + block);
    while all.len() < count {
        let (before, behind) = values.split_at(places.draw(random) as usize);
        all.extend(behind.iter().chain(before).take(block));
    }
    all.truncate(count);
    all
}

/// A span in nanoseconds, at most what fits.
pub(crate) fn ns_of(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time of all threads of this program, at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor {
    at: Instant,
    /// Since the program started.
    seconds: f64,
}

impl Processor {
    /// Reads what the system says now, to a hundredth of a second. Nothing where it does not say.
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name may contain anything, so what follows its end counts.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks =
            fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok());
        Self { at: Instant::now(), seconds: ticks.sum::<f64>() / 100.0 }
    }

    /// Processors in use since an earlier moment, on average.
    pub(crate) fn share_since(&self, before: &Self) -> f64 {
        let wall = self.at.saturating_duration_since(before.at).as_secs_f64();
        if wall > 0.0 { (self.seconds - before.seconds).max(0.0) / wall } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use xsched_sim::sample::generator;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![7.0, 1.0, 3.0]), Some(3.0));
    }

    #[test]
    fn faster_than_alone_is_what_a_goal_tells_from_alone() {
        let faster = |ratios: [f64; 3], most| ratios.map(|ratio| is_faster_than_alone(ratio, most));
        assert_eq!(faster([0.54, 0.86, 0.88], 1.15), [true, true, false]);
        assert_eq!(faster([0.54, 0.76, 0.78], 1.3), [true, true, false]);
        assert_eq!(faster([0.99, 1.0, f64::INFINITY], 0.5), [true, false, false]);
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let samples: Vec<u64> = (1..=1_000).rev().map(|n| n * 1_000).collect();
        let q = Quantiles::of(&samples);
        assert_eq!([q.min_us, q.p50_us, q.p90_us], [1.0, 500.0, 900.0]);
        assert_eq!((q.p95_us, q.p99_us, q.max_us), (950.0, Some(990.0), 1_000.0));
        assert_eq!((q.mean_us, q.samples), (500.5, 1_000));
        assert_eq!(Quantiles::of(&samples[..999]).p99_us, None);
        assert_eq!(Quantiles::of(&[]), Quantiles::default());
    }

    #[test]
    fn values_are_drawn_anew_in_blocks_of_neighbours() {
        let values: Vec<u64> = (0..1_000).collect();
        let draw = |seed| drawn(&values, &mut generator(seed, 0));
        let one = draw(1);
        assert_eq!((one.len(), &one), (1_000, &draw(1)));
        assert_ne!(one, draw(2));
        let follows = |pair: &&[u64]| pair[1] == (pair[0] + 1) % 1_000;
        assert!(one.windows(2).filter(follows).count() >= 900, "blocks have ten");
        let distinct: BTreeSet<u64> = one.into_iter().collect();
        assert!((400..900).contains(&distinct.len()), "with replacement: {}", distinct.len());
        assert_eq!(drawn(&[7], &mut generator(1, 0)), [7]);
        assert!(drawn::<u64>(&[], &mut generator(1, 0)).is_empty());
    }

    #[test]
    fn a_busy_thread_uses_a_processor() {
        let before = Processor::now();
        while before.at.elapsed().as_millis() < 120 {
            std::hint::spin_loop();
        }
        let share = Processor::now().share_since(&before);
        assert!(share > 0.0, "{share}");
    }
}
