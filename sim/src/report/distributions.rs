//! Latency distributions of runs with consecutive seeds, small enough to keep for a picture.

use crate::outcome::{Outcome, TaskOutcome};
use crate::stats::{Band, Summary, nearest_rank_of};

/// Shares of the requests at which a distribution is kept, from 0 to 100 %, less one.
pub(crate) const SHARES: u32 = 200;
/// Most runs of which distributions are kept. With 8 bytes for each share they take 412 KiB per
/// task.
pub(crate) const RUNS_MAX: u64 = 256;

/// The latency distributions of each task in runs of one scenario, under one policy at one level,
/// with consecutive seeds: what a picture shows. Those of the first 256 runs are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distributions {
    pub(crate) scenario: String,
    pub(crate) policy: String,
    pub(crate) level: u8,
    /// The first seed; `None` if the runs were measured.
    pub(crate) seed: Option<u64>,
    /// Runs whose distributions are kept.
    pub(crate) kept: u64,
    /// All runs.
    pub(crate) runs: u64,
    pub(crate) tasks: Vec<TaskDistributions>,
}

/// The distributions of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskDistributions {
    pub(crate) name: String,
    pub(crate) deadline_ns: Option<u64>,
    /// Requests of the runs that are kept.
    pub(crate) requests: u64,
    /// Requests of each of these runs that missed the deadline.
    misses: Vec<u64>,
    /// For each run in which requests completed, the latency at each share, in nanoseconds.
    runs: Vec<Box<[u64]>>,
}

/// A distribution over several runs: at each share the lowest latency of any run, the median and
/// the highest, in nanoseconds. With one run the three are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Curve {
    pub(crate) low: Vec<u64>,
    pub(crate) median: Vec<u64>,
    pub(crate) high: Vec<u64>,
}

impl Distributions {
    /// Distributions of a single run.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        Self {
            scenario: outcome.scenario.clone(),
            policy: outcome.policy.clone(),
            level: outcome.level,
            seed: Some(outcome.seed),
            kept: 1,
            runs: 1,
            tasks: outcome.tasks.iter().map(TaskDistributions::of).collect(),
        }
    }

    /// Distributions of a run on a device, in the form of an outcome.
    #[must_use]
    pub fn measured(outcome: &Outcome) -> Self {
        Self { seed: None, ..Self::of(outcome) }
    }

    /// Adds later runs of the same, or only counts them if enough are kept.
    pub(crate) fn append(&mut self, later: Self) {
        self.runs += later.runs;
        if later.kept == 0 || self.kept + later.kept > RUNS_MAX {
            return;
        }
        self.kept += later.kept;
        // Runs of one scenario have the same tasks in each place.
        for (task, later) in self.tasks.iter_mut().zip(later.tasks) {
            task.requests += later.requests;
            task.misses.extend(later.misses);
            task.runs.extend(later.runs);
        }
    }
}

impl TaskDistributions {
    fn of(task: &TaskOutcome) -> Self {
        let summary = Summary::new(task.latencies_ns.clone());
        let at = |share| nearest_rank_of(summary.sorted(), share, SHARES).copied();
        let run: Option<Box<[u64]>> = (0..=SHARES).map(at).collect();
        Self {
            name: task.name.clone(),
            deadline_ns: task.deadline_ns,
            requests: summary.count(),
            misses: vec![task.deadline_misses],
            runs: run.into_iter().collect(),
        }
    }

    /// Curve to draw; `None` if no request completed in any run.
    pub(crate) fn curve(&self) -> Option<Curve> {
        let first = self.runs.first()?;
        let mut curve = Curve { low: Vec::new(), median: Vec::new(), high: Vec::new() };
        for share in 0..first.len() {
            let all: Vec<u64> =
                self.runs.iter().filter_map(|run| run.get(share).copied()).collect();
            let summary = Summary::new(all);
            curve.low.extend(summary.min());
            curve.median.extend(summary.percentile(50));
            curve.high.extend(summary.max());
        }
        Some(curve)
    }

    /// Number of samples and of missed deadlines, for a legend.
    pub(crate) fn count(&self) -> String {
        let requests = self.requests;
        match (self.deadline_ns, &self.misses[..]) {
            (Some(_), [misses]) => format!("n = {requests}, {misses} late"),
            (Some(_), [_, ..]) => format!("n = {requests}, {} late a run", self.median_misses()),
            _ => format!("n = {requests}"),
        }
    }

    /// How many requests missed the deadline, and of how many: of several runs the median, as in
    /// tables.
    pub(crate) fn late(&self) -> String {
        match self.misses[..] {
            [misses] => format!("{misses} of {}", self.requests),
            _ => format!("{} a run", self.median_misses()),
        }
    }

    fn median_misses(&self) -> f64 {
        let misses = self.misses.iter().map(|misses| *misses as f64);
        Band::of(misses).map_or(0.0, |band| band.median)
    }
}

impl Curve {
    /// The smallest and the largest latency of any run.
    pub(crate) fn ends(&self) -> (u64, u64) {
        let first = self.low.first().copied().unwrap_or_default();
        (first, self.high.last().copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{empty_outcome, outcome, scaled};

    fn appended(outcomes: &[Outcome]) -> Distributions {
        let mut all = outcomes.iter().map(Distributions::of);
        let mut first = all.next().expect("some outcome");
        all.for_each(|later| first.append(later));
        first
    }

    #[test]
    fn a_run_keeps_its_shares_exactly() {
        let run = Distributions::of(&outcome());
        let curve = run.tasks[0].curve().expect("requests");
        assert_eq!((&curve.low, &curve.high), (&curve.median, &curve.median));
        let at = |percent: usize| curve.median[percent * 2] / 1_000_000;
        assert_eq!([0, 25, 26, 50, 75, 76, 100].map(at), [1, 1, 2, 2, 3, 4, 4]);
        assert_eq!(curve.ends(), (1_000_000, 4_000_000));
        assert_eq!(run.tasks[1].curve(), None);
        assert_eq!(Distributions::of(&empty_outcome()).tasks[0].curve(), None);
    }

    #[test]
    fn several_runs_have_a_median_between_the_lowest_and_the_highest() {
        let runs = appended(&[scaled(7, 2), scaled(8, 9), scaled(9, 1)]);
        let curve = runs.tasks[0].curve().expect("requests");
        let half = SHARES as usize / 2;
        let at_half = [&curve.low, &curve.median, &curve.high].map(|line| line[half] / 1_000_000);
        assert_eq!(at_half, [2, 4, 18]);
        assert_eq!((runs.seed, runs.kept, runs.runs), (Some(7), 3, 3));
        assert_eq!(runs.tasks[0].count(), "n = 12");
        let late = TaskDistributions { deadline_ns: Some(1), ..runs.tasks[0].clone() };
        assert_eq!((late.count(), late.late()), ("n = 12, 1 late a run".into(), "1 a run".into()));
        let one = Distributions::of(&scaled(7, 2)).tasks.remove(0);
        let one = TaskDistributions { deadline_ns: Some(1), ..one };
        assert_eq!((one.count(), one.late()), ("n = 4, 1 late".into(), "1 of 4".into()));
    }

    #[test]
    fn runs_past_the_bound_are_only_counted() {
        let outcomes: Vec<_> = (0..RUNS_MAX + 2).map(|seed| scaled(seed, seed + 1)).collect();
        let runs = appended(&outcomes);
        assert_eq!((runs.kept, runs.runs), (RUNS_MAX, RUNS_MAX + 2));
        let curve = runs.tasks[0].curve().expect("requests");
        assert_eq!(curve.ends().1, 4_000_000 * RUNS_MAX);
    }
}
