//! Quantiles, and the processor time of this program.

use std::fs;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longer times than this, in nanoseconds, count as this; what takes as long is a hang.
const LONGEST_NS: u64 = 100_000_000_000;
/// Significant digits that are kept.
const DIGITS: u8 = 4;
/// Samples that a P99 needs.
pub(crate) const P99_SAMPLES: usize = 1_000;

/// Quantiles in microseconds, each the smallest sample that so many samples do not exceed (nearest
/// rank), to four significant digits.
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

    /// The same with another number of samples that a P99 needs.
    pub(crate) fn with_p99_from(p99_samples: usize, samples_ns: &[u64]) -> Self {
        // These are valid bounds and a valid precision, so this does not fail.
        let histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, DIGITS);
        let Ok(mut histogram) = histogram else { return Self::default() };
        for &sample in samples_ns {
            histogram.saturating_record(sample);
        }
        if histogram.is_empty() {
            return Self::default();
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        let sum: u128 = samples_ns.iter().map(|&ns| u128::from(ns)).sum();
        Self {
            samples: samples_ns.len(),
            mean_us: sum as f64 / samples_ns.len() as f64 / 1e3,
            min_us: us(histogram.min()),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: (samples_ns.len() >= p99_samples).then(|| at(0.99)),
            max_us: us(histogram.max()),
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
    /// What the system says now, to a hundredth of a second. Nothing where it does not say.
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
        let close = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 2e-4;
        assert!(
            close(q.p50_us, 500.0) && close(q.p90_us, 900.0) && close(q.p95_us, 950.0),
            "{q:?}"
        );
        assert!(q.p99_us.is_some_and(|p99| close(p99, 990.0)), "{q:?}");
        assert!(close(q.min_us, 1.0) && close(q.max_us, 1_000.0), "{q:?}");
        assert_eq!((q.mean_us, q.samples), (500.5, 1_000));
        assert_eq!(Quantiles::of(&samples[..999]).p99_us, None);
        assert_eq!(Quantiles::of(&[]), Quantiles::default());
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
