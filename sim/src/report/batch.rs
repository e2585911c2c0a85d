//! Many simulations on several threads, with results that do not depend on how many.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::bands::Series;
use super::compare::{Combination, Comparison};
use super::distributions::{Distributions, RUNS_MAX};
use super::figures::RunFigures;
use crate::outcome::Outcome;
use crate::run::{RunError, RunOptions, run};
use crate::scenario::{Reference, Scenario};

/// Callback with the part of the work that is done, 0.0 to 1.0, from any thread.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// Runs the scenario with `seeds` consecutive seeds (at least 1; after the largest seed comes 0)
/// on at most `threads` threads. The first seed is that of the options or else of the scenario.
///
/// Returns the figures and the whole outcome of the first seed, which is the only one to keep a
/// timeline.
///
/// # Errors
///
/// The error of the earliest seed that could not be run.
pub fn run_series(
    scenario: &Scenario,
    options: &RunOptions,
    seeds: u64,
    threads: usize,
    progress: Progress<'_>,
) -> Result<(Series, Outcome), RunError> {
    let first_seed = options.seed.unwrap_or(scenario.seed);
    let jobs: Vec<RunOptions> = (0..seeds.max(1))
        .map(|offset| RunOptions {
            seed: Some(first_seed.wrapping_add(offset)),
            timeline_spans: if offset == 0 { options.timeline_spans } else { 0 },
            ..options.clone()
        })
        .collect();
    let mut results = run_all(scenario, &jobs, 1, threads, progress)?;
    let first = results.first_mut().and_then(|result| result.outcome.take()).unwrap_or_default();
    Ok((series(results, &scenario.references), first))
}

/// Runs the scenario under each combination with `seeds` consecutive seeds from `seed` (or that of
/// the scenario) on, as [`run_series`] does, with the checkers on.
///
/// # Errors
///
/// The error of the earliest run that failed.
pub fn run_comparison(
    scenario: &Scenario,
    combinations: &[Combination],
    seed: Option<u64>,
    seeds: u64,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Comparison, RunError> {
    let seed = seed.unwrap_or(scenario.seed);
    // All combinations with the first seed come first, so that a policy that does not exist is
    // noticed early.
    let jobs: Vec<RunOptions> = (0..seeds.max(1))
        .flat_map(|offset| {
            combinations.iter().map(move |combination| RunOptions {
                policy: Some(combination.policy.clone()),
                level: combination.level,
                seed: Some(seed.wrapping_add(offset)),
                checks: true,
                ..RunOptions::default()
            })
        })
        .collect();
    let results = run_all(scenario, &jobs, combinations.len(), threads, progress)?;
    let mut single: Vec<Vec<OneRun>> = combinations.iter().map(|_| Vec::new()).collect();
    for (index, result) in results.into_iter().enumerate() {
        single[index % combinations.len()].push(result);
    }
    Ok(Comparison {
        scenario: scenario.name.clone(),
        seed,
        runs: single.into_iter().map(|runs| series(runs, &scenario.references)).collect(),
        combinations: combinations.to_vec(),
    })
}

/// Rest of a run.
struct OneRun {
    figures: RunFigures,
    distributions: Distributions,
    /// The whole outcome, of the first run alone: it is too large to keep them all.
    outcome: Option<Outcome>,
}

fn series(results: Vec<OneRun>, references: &[Reference]) -> Series {
    let mut figures = Vec::with_capacity(results.len());
    let mut distributions: Option<Distributions> = None;
    for result in results {
        figures.push(result.figures);
        match &mut distributions {
            None => distributions = Some(result.distributions),
            Some(earlier) => earlier.append(result.distributions),
        }
    }
    Series::new(&figures, references).with_distributions(distributions.unwrap_or_default())
}

/// Runs the scenario once for each entry of `jobs`, which are those of `side_by_side` combinations
/// with the first seed, then with the second, and so on. The results come in the order of the jobs.
fn run_all(
    scenario: &Scenario,
    jobs: &[RunOptions],
    side_by_side: usize,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Vec<OneRun>, RunError> {
    let meter = Meter::new(jobs.len(), progress);
    let drawn = side_by_side.saturating_mul(RUNS_MAX as usize);
    in_order(jobs, threads, &|index, options| {
        let outcome = run(scenario, options, &mut |part| meter.set(index, part))?;
        meter.set(index, 1.0);
        let figures = RunFigures::of(&outcome);
        let distributions = if index < drawn {
            Distributions::of(&outcome)
        } else {
            Distributions { runs: 1, ..Distributions::default() }
        };
        Ok(OneRun { figures, distributions, outcome: (index == 0).then_some(outcome) })
    })
}

/// Turns the progress of single jobs into that of all of them.
struct Meter<'a> {
    /// Thousandths done of each job.
    parts: Vec<AtomicU64>,
    /// The sum of the parts.
    sum: AtomicU64,
    progress: Progress<'a>,
}

impl<'a> Meter<'a> {
    fn new(jobs: usize, progress: Progress<'a>) -> Self {
        let parts = (0..jobs).map(|_| AtomicU64::new(0)).collect();
        Self { parts, sum: AtomicU64::new(0), progress }
    }

    /// Notes that a job has come this far, 0.0 to 1.0. Steps back are ignored.
    fn set(&self, job: usize, part: f64) {
        let Some(cell) = self.parts.get(job) else { return };
        // A conversion to an integer saturates, and takes what is not a number as 0.
        let now = (part.min(1.0) * 1000.0) as u64;
        let step = now.saturating_sub(cell.fetch_max(now, Ordering::Relaxed));
        let sum = self.sum.fetch_add(step, Ordering::Relaxed) + step;
        (self.progress)(sum as f64 / (1000 * self.parts.len()) as f64);
    }
}

/// Calls `job` with each of `inputs` and its index on at most `threads` threads and collects the
/// results in that order. Inputs are given out in order, and none after a failure.
///
/// ```
/// use xsched_sim::report::in_order;
///
/// let squares = in_order(&[1, 2, 3], 2, &|_, n| Ok::<i32, ()>(n * n));
/// assert_eq!(squares, Ok(vec![1, 4, 9]));
/// ```
///
/// # Errors
///
/// The error of the first input, in their order, whose job failed.
pub fn in_order<I: Sync, T: Send, E: Send>(
    inputs: &[I],
    threads: usize,
    job: &(dyn Fn(usize, &I) -> Result<T, E> + Sync),
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results = Mutex::new(Vec::with_capacity(inputs.len()));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(input) = inputs.get(index) else { break };
            let result = job(index, input);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    thread::scope(|scope| {
        // This thread works too.
        for _ in 1..threads.min(inputs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn results_come_in_order_on_any_number_of_threads() {
        for threads in [0, 1, 2, 7, 100] {
            // Early jobs take longest, so that later ones finish before them.
            let job = |index, factor: &usize| {
                thread::sleep(Duration::from_millis(4 - index as u64));
                Ok::<_, ()>(index * factor)
            };
            assert_eq!(in_order(&[5, 4, 3, 2], threads, &job), Ok(vec![0, 4, 6, 6]));
        }
        assert_eq!(in_order(&[], 4, &|_, &()| Ok::<u8, ()>(0)), Ok(vec![]));
    }

    #[test]
    fn the_earliest_failure_is_reported() {
        let job = |index, _: &u8| if index % 3 == 2 { Err(index) } else { Ok(index) };
        assert_eq!(in_order(&[0; 10], 1, &job), Err(2));
        assert_eq!(in_order(&[0; 10], 4, &job), Err(2));
    }

    #[test]
    fn nothing_starts_after_a_failure() {
        let started = AtomicUsize::new(0);
        let job = |index, _: &u8| {
            started.fetch_add(1, Ordering::Relaxed);
            if index == 1 { Err(()) } else { Ok(()) }
        };
        assert_eq!(in_order(&[0; 1000], 1, &job), Err(()));
        assert_eq!(started.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn progress_is_the_mean_of_the_jobs() {
        let seen = Mutex::new(Vec::new());
        let progress = |part| seen.lock().unwrap().push(part);
        let meter = Meter::new(2, &progress);
        meter.set(0, 0.5);
        meter.set(1, 1.5);
        meter.set(0, 0.25);
        meter.set(0, f64::NAN);
        meter.set(0, 1.0);
        meter.set(7, 1.0);
        assert_eq!(*seen.lock().unwrap(), [0.25, 0.75, 0.75, 1.0, 1.0]);
    }
}
