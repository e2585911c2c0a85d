//! Means over several seeds, with their standard error, and comparing them with what is expected.

use xsched_sim::outcome::TaskOutcome;

/// The largest deviation from a closed form that is accepted.
const WITHIN: f64 = 0.03;
/// The largest relative standard error with which a comparison means something.
const ERROR_MAX: f64 = 0.012;

/// A mean over several seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Standard error of the mean.
    pub(crate) error: f64,
}

impl Estimate {
    pub(crate) fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, error: (squares / (n - 1.0) / n).sqrt() }
    }
}

/// The mean of each figure over the seeds from 1 on.
pub(crate) fn over_seeds(seeds: u64, figures: impl Fn(u64) -> Vec<f64>) -> Vec<Estimate> {
    let runs: Vec<Vec<f64>> = (1..=seeds).map(figures).collect();
    let column = |i: usize| Estimate::of(&runs.iter().map(|run| run[i]).collect::<Vec<_>>());
    (0..runs[0].len()).map(column).collect()
}

/// Fails unless the estimate is sharp and agrees with what is expected.
pub(crate) fn assert_agrees(what: &str, found: Estimate, expected: f64) {
    let off = found.mean / expected - 1.0;
    let error = found.error / expected;
    let line = format!(
        "{what}: {:.1}, expected {expected:.1}: {:+.2} % off, standard error {:.2} %",
        found.mean,
        off * 100.0,
        error * 100.0
    );
    println!("{line}");
    assert!(error < ERROR_MAX, "too noisy to tell: {line}");
    assert!(off.abs() < WITHIN, "{line}");
}

/// Mean of times.
pub(crate) fn mean(times: &[u64]) -> f64 {
    times.iter().map(|&ns| ns as f64).sum::<f64>() / times.len() as f64
}

/// Mean sojourn of a task's requests.
pub(crate) fn mean_latency(task: &TaskOutcome) -> f64 {
    mean(&task.latencies_ns)
}

/// The time that this share of a task's requests stays below.
pub(crate) fn quantile(task: &TaskOutcome, share: f64) -> f64 {
    let mut sorted = task.latencies_ns.clone();
    sorted.sort_unstable();
    sorted[(share * sorted.len() as f64) as usize] as f64
}
