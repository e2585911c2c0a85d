//! Descriptive statistics: the one place where a mean, a spread or a quantile is computed.
//!
//! Quantiles follow the nearest-rank rule: the quantile `q` of `n` samples is the smallest sample
//! with at least `q * n` samples at or below it. It is always one of the samples, never a value
//! between two. Spreads are population standard deviations (divided by `n`).

use std::fmt;

use serde::{Serialize, Serializer};

/// The statistics of a set of times in nanoseconds.
///
/// All figures are `None` when there are no samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The samples in ascending order.
    sorted: Vec<u64>,
    /// Sum, exact.
    sum: u128,
}

impl Summary {
    /// Takes samples in any order.
    #[must_use]
    pub fn new(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let sum = samples.iter().map(|&sample| u128::from(sample)).sum();
        Self { sorted: samples, sum }
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// The samples in ascending order, in nanoseconds.
    #[must_use]
    pub fn sorted(&self) -> &[u64] {
        &self.sorted
    }

    /// Arithmetic mean in nanoseconds.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        if self.sorted.is_empty() {
            return None;
        }
        // Split into whole and rest, because a sum above 2^53 would lose its last digits as a
        // floating-point number.
        let n = self.sorted.len() as u128;
        Some((self.sum / n) as f64 + (self.sum % n) as f64 / n as f64)
    }

    /// Population standard deviation in nanoseconds; 0 for a single sample.
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        // Around the mean rather than from the sum of squares, which cancels badly when the
        // samples are large and close together. Ascending order makes the result independent of
        // the order in which the samples came.
        let squares: f64 = self.sorted.iter().map(|&sample| (sample as f64 - mean).powi(2)).sum();
        Some((squares / self.sorted.len() as f64).sqrt())
    }

    /// Smallest sample in nanoseconds.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.sorted.first().copied()
    }

    /// Largest sample in nanoseconds.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.sorted.last().copied()
    }

    /// The given percentile in nanoseconds, by nearest rank. `percent` is 0 to 100 (0 gives the
    /// smallest sample, anything above 100 counts as 100).
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<u64> {
        nearest_rank(&self.sorted, percent).copied()
    }
}

/// Where a figure lies over several runs: the 5th percentile, the median and the 95th percentile,
/// all by nearest rank and in the unit of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// How many runs had the figure; at least 1.
    pub runs: u64,
}

impl Band {
    /// The band of these values, or `None` if there are none. Values that are not numbers are
    /// left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            p5: *nearest_rank(&sorted, 5)?,
            median: *nearest_rank(&sorted, 50)?,
            p95: *nearest_rank(&sorted, 95)?,
            runs: sorted.len() as u64,
        })
    }

    /// True if a value lies within the band, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.p5 <= value && value <= self.p95
    }
}

/// The nearest-rank percentile of ascending samples. The rank is computed in whole numbers, since
/// 0.07 * 100 is a little above 7 in floating point and would pick the eighth sample.
fn nearest_rank<T>(sorted: &[T], percent: u32) -> Option<&T> {
    nearest_rank_of(sorted, percent, 100)
}

/// The nearest rank for a quantile of `part` over `whole`, which is not 0.
pub(crate) fn nearest_rank_of<T>(sorted: &[T], part: u32, whole: u32) -> Option<&T> {
    let rank = sorted.len() as u128 * u128::from(part.min(whole));
    let rank = rank.div_ceil(u128::from(whole));
    // The rank is at most the length, so it fits.
    let index = (rank as usize).saturating_sub(1);
    sorted.get(index)
}

/// Bound that a value has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Between these, ends included.
    Between(f64, f64),
}

impl Goal {
    /// Returns whether the value meets the goal. A value that is not a number never does.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => least <= value && value <= most,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::Between(least, most) => write!(f, "{least} – {most}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_samples_give_no_figures() {
        let summary = Summary::new(Vec::new());
        assert_eq!(summary.count(), 0);
        assert_eq!(summary.mean(), None);
        assert_eq!(summary.std(), None);
        assert_eq!(summary.min(), None);
        assert_eq!(summary.max(), None);
        assert_eq!(summary.percentile(50), None);
        assert_eq!(Band::of([]), None);
        assert_eq!(Band::of([f64::NAN]), None);
    }

    #[test]
    fn one_sample_is_every_figure() {
        let summary = Summary::new(vec![7]);
        assert_eq!(summary.mean(), Some(7.0));
        assert_eq!(summary.std(), Some(0.0));
        for percent in [0, 1, 50, 99, 100, 1000] {
            assert_eq!(summary.percentile(percent), Some(7));
        }
    }

    #[test]
    fn a_textbook_population() {
        // Mean 5; squared distances 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32; 32 / 8 = 4; root 2.
        let summary = Summary::new(vec![9, 2, 5, 4, 4, 5, 4, 7]);
        assert_eq!(summary.count(), 8);
        assert_eq!(summary.mean(), Some(5.0));
        assert_eq!(summary.std(), Some(2.0));
        assert_eq!(summary.min(), Some(2));
        assert_eq!(summary.max(), Some(9));
        assert_eq!(summary.sorted(), [2, 4, 4, 4, 5, 5, 7, 9]);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        // Ranks of 5 samples: 5 % -> 0.25 -> 1st, 30 % -> 1.5 -> 2nd, 40 % -> 2 -> 2nd,
        // 50 % -> 2.5 -> 3rd, 99 % -> 4.95 -> 5th.
        let summary = Summary::new(vec![15, 20, 35, 40, 50]);
        assert_eq!(summary.percentile(5), Some(15));
        assert_eq!(summary.percentile(30), Some(20));
        assert_eq!(summary.percentile(40), Some(20));
        assert_eq!(summary.percentile(50), Some(35));
        assert_eq!(summary.percentile(99), Some(50));
        assert_eq!(summary.percentile(100), Some(50));
    }

    #[test]
    fn whole_ranks_are_exact() {
        // With the samples 1 to 100 the percentile is the sample of the same number, for every
        // one, also where a product in floating point would round up.
        let summary = Summary::new((1..=100).rev().collect());
        for percent in 1..=100 {
            assert_eq!(summary.percentile(percent), Some(u64::from(percent)));
        }
        let thousand = Summary::new((1..=1000).collect());
        assert_eq!(thousand.percentile(99), Some(990));
        assert_eq!(thousand.percentile(95), Some(950));
    }

    #[test]
    fn large_samples_keep_their_digits() {
        let big = 1 << 60;
        let summary = Summary::new(vec![big, big + 512]);
        assert_eq!(summary.mean(), Some((big + 256) as f64));
        assert_eq!(summary.std(), Some(256.0));
        assert_eq!(Summary::new(vec![u64::MAX; 3]).mean(), Some(u64::MAX as f64));
    }

    #[test]
    fn a_band_by_hand() {
        // 21 values 0 to 20: ranks 1.05 -> 2nd, 10.5 -> 11th, 19.95 -> 20th.
        let band = Band::of((0..=20).rev().map(f64::from));
        assert_eq!(band, Some(Band { runs: 21, p5: 1.0, median: 10.0, p95: 19.0 }));
        // Two values: the median is the lower one, as it already has half the values at or below.
        let two = Band::of([3.0, 1.0]);
        assert_eq!(two, Some(Band { runs: 2, p5: 1.0, median: 1.0, p95: 3.0 }));
        let band = Band { runs: 1, p5: 1.0, median: 2.0, p95: 3.0 };
        assert!(band.contains(1.0) && band.contains(3.0));
        assert!(!band.contains(0.999) && !band.contains(f64::NAN));
    }
}
