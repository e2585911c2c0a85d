//! Reproducible draws from the distributions of a scenario.
//!
//! ```
//! use xsched_sim::sample::{Sampler, generator};
//! use xsched_sim::scenario::Dist;
//!
//! let mut length = Sampler::new(&Dist::Exponential { mean_ns: 1_000.0 });
//! let first = length.draw(&mut generator(1, 0));
//! assert_eq!(first, length.draw(&mut generator(1, 0)), "the same seed gives the same draws");
//! ```

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;
use xsched_core::rng::SplitMix64;

use crate::scenario::Dist;

/// A random number generator. Each purpose has one of its own, so that the draws of one task do not
/// shift those of another.
pub type Rng = Pcg64Mcg;

/// Makes generator number `stream` of the run with this seed.
#[must_use]
pub fn generator(seed: u64, stream: u64) -> Rng {
    let mut mix = SplitMix64::new(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mix.next_u64();
    Rng::seed_from_u64(mix.next_u64())
}

/// A distribution, prepared for drawing.
#[derive(Clone, Debug)]
pub struct Sampler(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Constant(u64),
    Exponential { mean_ns: f64 },
    LogNormal { mu: f64, sigma: f64 },
    Uniform { min_ns: u64, max_ns: u64 },
    Empirical { values_ns: std::sync::Arc<[u64]>, upto: Box<[f64]> },
    Sequence { values_ns: std::sync::Arc<[u64]>, next: usize },
}

impl Sampler {
    /// Prepares the distribution for drawing.
    #[must_use]
    pub fn new(dist: &Dist) -> Self {
        Self(match dist {
            Dist::Constant(ns) => Kind::Constant(*ns),
            Dist::Exponential { mean_ns } => Kind::Exponential { mean_ns: *mean_ns },
            // The mean of a log-normal is exp(mu + sigma² / 2).
            Dist::LogNormal { mean_ns, sigma } => {
                Kind::LogNormal { mu: mean_ns.ln() - sigma * sigma / 2.0, sigma: *sigma }
            }
            Dist::Uniform { min_ns, max_ns } => Kind::Uniform { min_ns: *min_ns, max_ns: *max_ns },
            Dist::Sequence { values_ns } => {
                Kind::Sequence { values_ns: values_ns.clone(), next: 0 }
            }
            Dist::Empirical { values_ns, weights } => {
                let weight = |i: usize| weights.get(i).copied().unwrap_or(1.0);
                let mut sum = 0.0;
                let upto = (0..values_ns.len()).map(|i| {
                    sum += weight(i);
                    sum
                });
                let upto: Box<[f64]> = upto.collect();
                Kind::Empirical { values_ns: values_ns.clone(), upto }
            }
        })
    }

    /// Draws a time in nanoseconds.
    pub fn draw(&mut self, rng: &mut Rng) -> u64 {
        match &mut self.0 {
            Kind::Constant(ns) => *ns,
            Kind::Exponential { mean_ns } => {
                let e: f64 = Exp1.sample(rng);
                round(e * *mean_ns)
            }
            Kind::LogNormal { mu, sigma } => {
                let n: f64 = StandardNormal.sample(rng);
                round(n.mul_add(*sigma, *mu).exp())
            }
            Kind::Uniform { min_ns, max_ns } => rng.random_range(*min_ns..=*max_ns),
            Kind::Sequence { values_ns, next } => {
                let value = values_ns[*next];
                *next = (*next + 1) % values_ns.len();
                value
            }
            Kind::Empirical { values_ns, upto } => {
                let total = upto.last().copied().unwrap_or(0.0);
                let at = rng.random_range(0.0..1.0) * total;
                let index = upto.partition_point(|&sum| sum <= at).min(values_ns.len() - 1);
                values_ns[index]
            }
        }
    }

    /// Begins a sequence again at its first value. Other distributions have no state.
    pub fn restart(&mut self) {
        if let Kind::Sequence { next, .. } = &mut self.0 {
            *next = 0;
        }
    }

    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        match &self.0 {
            Kind::Constant(ns) => *ns as f64,
            Kind::Exponential { mean_ns } => *mean_ns,
            Kind::LogNormal { mu, sigma } => (mu + sigma * sigma / 2.0).exp(),
            Kind::Uniform { min_ns, max_ns } => (*min_ns as f64 + *max_ns as f64) / 2.0,
            Kind::Sequence { values_ns, .. } => {
                values_ns.iter().map(|ns| *ns as f64).sum::<f64>() / values_ns.len() as f64
            }
            Kind::Empirical { values_ns, upto } => {
                let mut before = 0.0;
                let mut sum = 0.0;
                for (value, &upto) in values_ns.iter().zip(&**upto) {
                    sum += *value as f64 * (upto - before);
                    before = upto;
                }
                sum / before.max(f64::MIN_POSITIVE)
            }
        }
    }
}

/// The nearest whole number, halves up; 0 for less than 0. The same as the standard library's
/// `round`, but without a call of the mathematics library for every command.
fn round(x: f64) -> u64 {
    let whole = x as u64;
    whole.saturating_add(u64::from(x - whole as f64 >= 0.5))
}

/// A uniform time in `±half_width_ns` around `centre_ns`, not below 0.
pub(crate) fn jitter(centre_ns: u64, half_width_ns: u64, rng: &mut Rng) -> u64 {
    if half_width_ns == 0 {
        return centre_ns;
    }
    let low = centre_ns.saturating_sub(half_width_ns);
    rng.random_range(low..=centre_ns.saturating_add(half_width_ns))
}

/// A number below `n` (at least 1).
pub(crate) fn below(n: usize, rng: &mut Rng) -> usize {
    rng.random_range(0..n.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_means_are_those_promised() {
        let dists = [
            Dist::Constant(1_000),
            Dist::Exponential { mean_ns: 1_000.0 },
            Dist::LogNormal { mean_ns: 1_000.0, sigma: 0.7 },
            Dist::Uniform { min_ns: 500, max_ns: 1_500 },
            Dist::Empirical { values_ns: [400, 1_600].into(), weights: [1.0, 1.0].into() },
            Dist::Sequence { values_ns: [400, 1_600].into() },
        ];
        for dist in dists {
            let mut sampler = Sampler::new(&dist);
            let mut rng = generator(1, 2);
            let n = 200_000;
            let sum: u64 = (0..n).map(|_| sampler.draw(&mut rng)).sum();
            let mean = sum as f64 / f64::from(n);
            assert!((mean / 1_000.0 - 1.0).abs() < 0.01, "{dist:?}: {mean}");
            assert!((sampler.mean_ns() / 1_000.0 - 1.0).abs() < 1e-9, "{dist:?}");
        }
    }

    #[test]
    fn rounding_is_that_of_the_standard_library() {
        let mut mix = SplitMix64::new(3);
        let halves = (0..1_000).map(|n| f64::from(n) / 2.0);
        let drawn = (0..100_000).map(|_| f64::from_bits(mix.next_u64()));
        let edges = [0.499_999_999_999_999_94, 4_503_599_627_370_497.5, f64::MAX, f64::INFINITY];
        for x in halves.chain(drawn).chain(edges) {
            assert_eq!(round(x), x.round() as u64, "{x}");
        }
    }
}
