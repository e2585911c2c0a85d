//! How long things took, by powers of ten.

use std::time::Duration;

/// How often something took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// By bucket, the last for what took longer than the last bound.
    counts: [u64; Self::BOUNDS_NS.len() + 1],
    sum_ns: u64,
}

impl Latencies {
    /// The upper bounds of the buckets in nanoseconds: 1 µs to 10 s.
    pub const BOUNDS_NS: [u64; 8] =
        [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

    pub(crate) fn record(&mut self, ns: u64) {
        let bucket = Self::BOUNDS_NS.iter().take_while(|&&bound| ns > bound).count();
        self.counts[bucket] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// How many were measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All together.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The mean, if any were measured.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// How many took as long as each bucket says: at most its bound, and longer than the bound
    /// before. The last bucket has none.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = Self::BOUNDS_NS.map(|ns| Some(Duration::from_nanos(ns)));
        bounds.into_iter().chain([None]).zip(self.counts)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_in_one_bucket() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.mean(), None);
        for ns in [0, 1_000, 1_001, 20_000_000_000] {
            latencies.record(ns);
        }
        let counts: Vec<_> = latencies.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((latencies.count(), latencies.sum().as_secs()), (4, 20));
        assert_eq!(latencies.buckets().last(), Some((None, 1)));
    }
}
