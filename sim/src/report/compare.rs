//! Several policies and levels side by side.

use serde::Serialize;

use super::bands::Series;
use crate::stats::Band;

/// A policy with a level to run it at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Policy name.
    pub policy: String,
    /// Preemption level, 1 to 3; `None` for a policy that never holds a queue, for which levels
    /// make no difference.
    pub level: Option<u8>,
}

impl Combination {
    /// For headings and legends: `policy Lv2`, or just the policy when it never holds.
    #[must_use]
    pub fn label(&self) -> String {
        match self.level {
            Some(level) => format!("{} Lv{level}", self.policy),
            None => self.policy.clone(),
        }
    }
}

/// Every policy with every level, policies first, repetitions left out. A policy for which
/// `never_holds` is true comes once.
///
/// ```
/// use xsched_sim::report::combinations;
/// use xsched_sim::run::never_holds;
///
/// let policies = ["fcfs", "hpf"].map(str::to_owned);
/// let labels = combinations(&policies, &[1, 2], never_holds).into_iter().map(|one| one.label());
/// assert_eq!(labels.collect::<Vec<_>>(), ["fcfs", "hpf Lv1", "hpf Lv2"]);
/// ```
#[must_use]
pub fn combinations(
    policies: &[String],
    levels: &[u8],
    never_holds: impl Fn(&str) -> bool,
) -> Vec<Combination> {
    let mut combinations = Vec::new();
    for policy in policies {
        for &level in levels {
            let level = (!never_holds(policy)).then_some(level);
            let combination = Combination { policy: policy.clone(), level };
            if !combinations.contains(&combination) {
                combinations.push(combination);
            }
        }
    }
    combinations
}

/// The results of several combinations on one scenario with the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Scenario name.
    pub scenario: String,
    /// First seed of every combination.
    pub seed: u64,
    /// The results, the one that the others are compared with first.
    pub runs: Vec<Series>,
    /// Combinations, in the order of `runs`; not in the JSON.
    #[serde(skip)]
    pub combinations: Vec<Combination>,
}

/// One line of a comparison: a task under one combination. Latencies are in milliseconds and
/// everything is a median over the seeds; `None` where there are no samples.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareRow {
    /// Policy and level.
    pub combination: Combination,
    /// Task name.
    pub task: String,
    /// Mean latency.
    pub mean: Option<f64>,
    /// Median latency.
    pub p50: Option<f64>,
    /// 99th percentile of the latency.
    pub p99: Option<f64>,
    /// Largest latency.
    pub max: Option<f64>,
    /// Requests per second.
    pub throughput_rps: Option<f64>,
    /// Counted requests.
    pub completed: Option<f64>,
    /// Counted requests that ended after the task's deadline; `None` without a deadline.
    pub deadline_misses: Option<f64>,
    /// 99th percentile over that of the same task under the first combination.
    pub p99_ratio: Option<f64>,
    /// Requests per second over those of the same task under the first combination.
    pub throughput_ratio: Option<f64>,
    /// Requests per second of all tasks over those of the first combination.
    pub total_ratio: Option<f64>,
}

impl Comparison {
    /// One line per combination and task.
    #[must_use]
    pub fn rows(&self) -> Vec<CompareRow> {
        let Some(base) = self.runs.first() else { return Vec::new() };
        let pairs = self.combinations.iter().zip(&self.runs);
        pairs.flat_map(|(combination, series)| rows(combination, series, base)).collect()
    }

    /// Violations of all invariants in all runs.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.runs.iter().map(Series::violations).sum()
    }
}

fn rows<'a>(
    combination: &'a Combination,
    series: &'a Series,
    base: &'a Series,
) -> impl Iterator<Item = CompareRow> + 'a {
    let total = |series: &Series| median(series.bands().total.throughput_rps);
    let total_ratio = ratio(total(series), total(base));
    series.bands().tasks.iter().enumerate().map(move |(place, task)| {
        // Runs of one scenario have the same tasks in each place.
        let base = base.bands().tasks.get(place);
        let base_p99 = base.and_then(|base| median(base.latency_ms.p99));
        let base_rps = base.and_then(|base| median(base.throughput_rps));
        let throughput_rps = median(task.throughput_rps);
        let p99 = median(task.latency_ms.p99);
        CompareRow {
            combination: combination.clone(),
            task: task.name.clone(),
            mean: median(task.latency_ms.mean),
            p50: median(task.latency_ms.p50),
            p99,
            max: median(task.latency_ms.max),
            throughput_rps,
            completed: median(task.completed),
            deadline_misses: median(task.deadline_misses),
            p99_ratio: ratio(p99, base_p99),
            throughput_ratio: ratio(throughput_rps, base_rps),
            total_ratio,
        }
    })
}

fn median(band: Option<Band>) -> Option<f64> {
    band.map(|band| band.median)
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    let base = base.filter(|&base| base > 0.0)?;
    value.map(|value| value / base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RunFigures;
    use crate::report::samples::{scaled, to_json};

    fn comparison() -> Comparison {
        let series = |factor| {
            let runs: Vec<_> =
                (0..3).map(|n| RunFigures::of(&scaled(7 + n, factor * (n + 1)))).collect();
            Series::new(&runs, &[])
        };
        let policies = ["fcfs".to_owned(), "hpf".to_owned()];
        Comparison {
            scenario: "demo".into(),
            seed: 7,
            runs: vec![series(4), series(2), series(1)],
            combinations: combinations(&policies, &[1, 3], |policy| policy == "fcfs"),
        }
    }

    #[test]
    fn a_policy_that_never_holds_comes_once() {
        let policies = ["hpf".to_owned(), "fcfs".to_owned(), "hpf".to_owned()];
        let combinations = combinations(&policies, &[1, 3, 1], |policy| policy == "fcfs");
        let labels: Vec<_> = combinations.iter().map(Combination::label).collect();
        assert_eq!(labels, ["hpf Lv1", "hpf Lv3", "fcfs"]);
    }

    #[test]
    fn rows_are_medians_relative_to_the_first_combination() {
        let rows = comparison().rows();
        assert_eq!(rows.len(), 6);
        // Medians over the factors 4, 8, 12 and 1, 2, 3.
        assert_eq!((rows[0].p99, rows[0].p99_ratio), (Some(32.0), Some(1.0)));
        assert_eq!((rows[4].p99, rows[4].p99_ratio), (Some(8.0), Some(0.25)));
        assert_eq!(rows[4].combination.label(), "hpf Lv3");
        assert_eq!(rows[4].total_ratio, Some(1.0));
        assert_eq!((rows[5].task.as_str(), rows[5].p99_ratio), ("idle", None));
    }

    #[test]
    fn the_document_lists_run_documents() {
        let comparison = comparison();
        let text = to_json(&comparison);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 3);
        assert_eq!(json["runs"].as_array().unwrap().len(), 3);
        assert_eq!(json["runs"][0]["seeds"], 3);
        assert_eq!(json["seed"], 7);
        assert_eq!(text, to_json(&comparison));
    }
}
