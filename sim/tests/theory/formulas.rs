//! The closed forms.

use xsched_sim::scenario::Dist;

/// First and second moment of a time, in nanoseconds and their square.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) mean: f64,
    pub(crate) square: f64,
}

impl Moments {
    pub(crate) fn of(dist: &Dist) -> Self {
        let (mean, square) = match dist {
            Dist::Constant(ns) => (*ns as f64, (*ns as f64).powi(2)),
            Dist::Exponential { mean_ns } => (*mean_ns, 2.0 * mean_ns * mean_ns),
            Dist::LogNormal { mean_ns, sigma } => {
                (*mean_ns, mean_ns.powi(2) * (sigma * sigma).exp())
            }
            Dist::Uniform { min_ns, max_ns } => {
                let (a, b) = (*min_ns as f64, *max_ns as f64);
                ((a + b) / 2.0, (a * a + a * b + b * b) / 3.0)
            }
            Dist::Empirical { values_ns, weights } => {
                let weight = |i: usize| weights.get(i).copied().unwrap_or(1.0);
                let all: f64 = (0..values_ns.len()).map(weight).sum();
                let moment = |k: i32| {
                    let term = |(i, ns): (usize, &u64)| weight(i) / all * (*ns as f64).powi(k);
                    values_ns.iter().enumerate().map(term).sum()
                };
                (moment(1), moment(2))
            }
            other => panic!("no moments of {other:?}"),
        };
        Self { mean, square }
    }

    /// The moments of the sum of `n` independent times.
    pub(crate) fn sum_of(self, n: u32) -> Self {
        let n = f64::from(n);
        let variance = n * (self.square - self.mean * self.mean);
        let mean = n * self.mean;
        Self { mean, square: variance + mean * mean }
    }
}

/// Mean time in an M/G/1 queue, waiting and service (Pollaczek and Khinchine).
pub(crate) fn sojourn(gap_ns: f64, service: Moments) -> f64 {
    let load = service.mean / gap_ns;
    service.mean + service.square / gap_ns / (2.0 * (1.0 - load))
}

/// A class of customers: the mean gap between its arrivals, and its service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class {
    pub(crate) gap_ns: f64,
    pub(crate) service: Moments,
}

impl Class {
    fn load(&self) -> f64 {
        self.service.mean / self.gap_ns
    }

    /// Part of the mean work that is left of whatever is in service.
    fn residual(&self) -> f64 {
        self.service.square / (2.0 * self.gap_ns)
    }
}

fn idle_above(classes: &[Class], below: usize) -> f64 {
    1.0 - classes[..below].iter().map(Class::load).sum::<f64>()
}

/// Mean sojourn of each class, highest priority first, where a higher class interrupts a lower one,
/// which later continues.
pub(crate) fn preemptive(classes: &[Class]) -> Vec<f64> {
    let sojourn = |k: usize| {
        let (above, with) = (idle_above(classes, k), idle_above(classes, k + 1));
        let residual: f64 = classes[..=k].iter().map(Class::residual).sum();
        classes[k].service.mean / above + residual / (above * with)
    };
    (0..classes.len()).map(sojourn).collect()
}

/// Mean sojourn of each class, highest priority first, where what has begun is finished first
/// (Cobham).
pub(crate) fn not_preemptive(classes: &[Class]) -> Vec<f64> {
    let residual: f64 = classes.iter().map(Class::residual).sum();
    let sojourn = |k: usize| {
        let (above, with) = (idle_above(classes, k), idle_above(classes, k + 1));
        classes[k].service.mean + residual / (above * with)
    };
    (0..classes.len()).map(sojourn).collect()
}

/// Mean response time of a station that `customers` visit after pauses of a mean of `pause_ns`. It
/// serves one customer in `service_ns`, and `n` of them `speed(n)` times as fast together.
pub(crate) fn closed_loop(
    customers: u32,
    pause_ns: f64,
    service_ns: f64,
    speed: impl Fn(u32) -> f64,
) -> f64 {
    // The chances of n customers at the station, up to a factor.
    let (mut chance, mut all, mut present, mut rate) = (1.0, 1.0, 0.0, 0.0);
    for n in 1..=customers {
        let arrivals = f64::from(customers - n + 1) / pause_ns;
        chance *= arrivals * service_ns / speed(n);
        all += chance;
        present += chance * f64::from(n);
        rate += chance * speed(n) / service_ns;
    }
    (present / all) / (rate / all)
}

/// One customer at a time.
pub(crate) fn one_server(_present: u32) -> f64 {
    1.0
}
