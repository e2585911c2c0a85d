//! Lengths of kernels in the shape of a model.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use xsched_core::rng::SplitMix64;

/// How the kernels of one request of a model are distributed, all times in nanoseconds. Quantiles
/// are nearest ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// The model.
    pub(crate) name: Cow<'static, str>,
    /// Kernels of a request.
    pub(crate) kernels: usize,
    /// The 50th percentile of their lengths.
    pub(crate) p50_ns: u64,
    /// The 99th percentile.
    pub(crate) p99_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
    /// All of them together.
    pub(crate) total_ns: u64,
}

/// BERT-base with 32-bit numbers: figures of a request that was captured on an H200.
pub(crate) const BERT_BASE_FP32: Shape = Shape {
    name: Cow::Borrowed("bert-base-fp32"),
    kernels: 157,
    p50_ns: 30_700,
    p99_ns: 132_500,
    max_ns: 133_300,
    total_ns: 4_600_000,
};

/// BERT-large with 16-bit numbers: figures of a request that was captured on an H200.
pub(crate) const BERT_LARGE_FP16: Shape = Shape {
    name: Cow::Borrowed("bert-large-fp16"),
    kernels: 299,
    p50_ns: 5_000,
    p99_ns: 10_400,
    max_ns: 11_100,
    total_ns: 1_429_000,
};

/// How steeply lengths above the median rise: most are near the median.
const TAIL: f64 = 8.0;
/// Where the order follows from.
const SEED: u64 = 1;

impl Shape {
    /// Lengths with this count and these quantiles, and this total to within a nanosecond for each,
    /// in an order that looks like no order. Always the same.
    ///
    /// Between the quantiles they are on a curve; the lower half's is bent until the total fits.
    pub(crate) fn lengths(&self) -> Vec<u64> {
        // Bent all the way down, and not at all.
        let (mut steep, mut flat) = (64.0, 0.0);
        for _ in 0..60 {
            let bend = f64::midpoint(steep, flat);
            let total: u64 = self.sorted(bend).iter().sum();
            *(if total < self.total_ns { &mut steep } else { &mut flat }) = bend;
        }
        let mut lengths = self.sorted(flat);
        let mut random = SplitMix64::new(SEED);
        for last in (1..lengths.len()).rev() {
            lengths.swap(last, random.below(last as u64 + 1) as usize);
        }
        lengths
    }

    /// Lengths from the shortest to the longest, whose lower half is bent by `bend`.
    fn sorted(&self, bend: f64) -> Vec<u64> {
        let rank = |share: f64| (self.kernels as f64 * share).ceil() as usize;
        let (median, high) = (rank(0.5), rank(0.99));
        let between = |from: u64, to: u64, at: usize, places: usize, bend: f64| {
            let part = (at as f64 / places.max(1) as f64).powf(bend);
            from + ((to - from) as f64 * part).round() as u64
        };
        let length = |rank: usize| {
            if rank <= median {
                between(0, self.p50_ns, rank, median, bend)
            } else if rank <= high {
                between(self.p50_ns, self.p99_ns, rank - median, high - median, TAIL)
            } else {
                between(self.p99_ns, self.max_ns, rank - high, self.kernels - high, 1.0)
            }
        };
        (1..=self.kernels).map(length).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Quantiles;

    #[test]
    fn lengths_have_the_shape_that_was_measured() {
        for shape in [BERT_BASE_FP32, BERT_LARGE_FP16] {
            let lengths = shape.lengths();
            assert_eq!(lengths.len(), shape.kernels);
            let mut sorted = lengths.clone();
            sorted.sort_unstable();
            assert_ne!(sorted, lengths);
            let rank = |share: f64| sorted[(sorted.len() as f64 * share).ceil() as usize - 1];
            assert_eq!(rank(0.5), shape.p50_ns, "{}", shape.name);
            assert_eq!(rank(0.99), shape.p99_ns, "{}", shape.name);
            assert_eq!(sorted.last(), Some(&shape.max_ns), "{}", shape.name);
            let off = lengths.iter().sum::<u64>().abs_diff(shape.total_ns);
            assert!(off <= shape.kernels as u64, "{}: {off}", shape.name);
            assert_eq!(lengths, shape.lengths());
            assert!(Quantiles::of(&lengths).min_us > 0.05, "{sorted:?}");
        }
    }
}
