//! Parameters drawn from a fixed seed.

use xsched_core::rng::SplitMix64;

/// The generator.
#[derive(Debug)]
pub(crate) struct Draw(SplitMix64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// A number in a range, evenly.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.below(1 << 30) as f64 / f64::from(1 << 30)
    }

    /// A positive number in a range, evenly in its logarithm.
    pub(crate) fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}
