//! Criteria that show that the priority took effect.

use serde::Serialize;
use xsched_core::level::Level;
use xsched_sim::report::{LatencyFigures, RunFigures, TaskFigures};

use super::device::Request;
use super::workload::{Task, WINDOW};
use crate::stats::{P99_SAMPLES, is_faster_than_alone};

/// At the median, the task of highest priority takes at most this much of its latency alone.
const P50_AT_MOST: f64 = 1.15;
/// Upper limit at the 99th percentile, compared with the 99th percentile alone.
const P99_AT_MOST: f64 = 1.5;
/// Without a policy it takes at least this much at the median, or there was nothing to schedule.
const UNSCHEDULED_AT_LEAST: f64 = 1.6;
/// Least ratio, under the policy, of requests of the task of lowest priority to those of the
/// highest. On a quiet machine it is six times, without a policy once.
const APART_AT_LEAST: f64 = 2.0;
/// A P99 of fewer requests is that of a few.
const P99_REQUESTS: u64 = P99_SAMPLES as u64;

/// The figures of the three modes of the demo; all have the same tasks in the same order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Modes {
    /// Each task by itself.
    pub(crate) alone: RunFigures,
    /// All tasks, without holds.
    pub(crate) unscheduled: RunFigures,
    /// All tasks under the policy.
    pub(crate) scheduled: RunFigures,
}

/// Verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The figure is within its bounds.
    Pass,
    /// The figure is not within its bounds.
    Fail,
    /// Noise or chance may be why the figure is, or is not, within its bounds.
    Inconclusive,
}

/// Something that has to hold, and the figure that shows whether it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Criterion {
    /// Figure that is looked at.
    pub(crate) what: String,
    /// The figure; `None` without samples, which is as bad as a wrong one.
    pub(crate) value: Option<f64>,
    /// The least that the figure may be, if there is such a bound.
    pub(crate) at_least: Option<f64>,
    /// The most that the figure may be, if there is such a bound.
    pub(crate) at_most: Option<f64>,
    /// Set if the figure is within its bounds, and compared with what was not disturbed.
    pub(crate) reached: bool,
    /// Verdict on the figure.
    pub(crate) verdict: Verdict,
    /// Decimals that people want to see.
    #[serde(skip)]
    pub(crate) decimals: usize,
}

impl Criterion {
    fn new(what: String, value: Option<f64>, bounds: [Option<f64>; 2]) -> Self {
        let [at_least, at_most] = bounds;
        let (reached, verdict, decimals) = (false, Verdict::Fail, 2);
        let mut new = Self { what, value, at_least, at_most, reached, verdict, decimals };
        new.reached = new.is_within();
        new.verdict = if new.reached { Verdict::Pass } else { Verdict::Fail };
        new
    }

    fn is_within(&self) -> bool {
        self.value.is_some_and(|value| {
            self.at_least.is_none_or(|least| value >= least)
                && self.at_most.is_none_or(|most| value <= most)
        })
    }

    /// Returns whether the figure is compared with a disturbed one.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.verdict == Verdict::Inconclusive && self.is_within()
    }

    fn at_least(what: String, value: Option<f64>, least: f64) -> Self {
        Self::new(what, value, [Some(least), None])
    }

    fn at_most(what: String, value: Option<f64>, most: f64) -> Self {
        Self::new(what, value, [None, Some(most)])
    }

    /// Returns the criterion; a figure out of bounds says nothing unless it is `sound`.
    fn sound_if(mut self, sound: bool) -> Self {
        if self.verdict == Verdict::Fail && !sound {
            self.verdict = Verdict::Inconclusive;
        }
        self
    }

    /// Takes the verdict back if the figure is compared with a disturbed run.
    fn inconclusive_if(mut self, is_disturbed: bool) -> Self {
        if is_disturbed {
            (self.reached, self.verdict) = (false, Verdict::Inconclusive);
        }
        self
    }
}

/// Everything that has to hold for the priority to have taken effect.
///
/// The figures of two modes can be compared only if other programs left the processors alone in
/// both: a task that is faster beside others than alone shows that they did not. Figures of one
/// mode have had the same noise, so they are compared in any case.
pub(crate) fn judge(
    modes: &Modes,
    tasks: &[Task],
    (request, level): (Request, Level),
    quiet: bool,
) -> Vec<Criterion> {
    let leftover = leftover(request, level);
    let high = tasks.first().map_or("", |task| task.name);
    let of = |run: &RunFigures, figure: fn(&LatencyFigures) -> Option<f64>| {
        ratio(latency(run, 0, figure), latency(&modes.alone, 0, figure))
    };
    let before = of(&modes.unscheduled, |l| l.p50);
    let [p50, p99] = [of(&modes.scheduled, |l| l.p50), of(&modes.scheduled, |l| l.p99)];
    let what = |words: &str| format!("{high}: {words} alone");
    let many = |run: &RunFigures| run.tasks.first().is_some_and(|t| t.completed >= P99_REQUESTS);
    let has_p99 = many(&modes.alone) && many(&modes.scheduled);
    let [p50_most, p99_most] = [P50_AT_MOST, P99_AT_MOST].map(|most| most + leftover);
    let disturbed = |ratio: Option<f64>, most| {
        ratio.is_some_and(|over_alone| is_faster_than_alone(over_alone, most))
    };
    let is_p50_disturbed = disturbed(p50, p50_most);
    let mut criteria = vec![
        Criterion::at_least(what("P50 unscheduled / P50"), before, UNSCHEDULED_AT_LEAST)
            .sound_if(quiet && !is_p50_disturbed),
        Criterion::at_most(what("P50 scheduled / P50"), p50, p50_most)
            .sound_if(quiet)
            .inconclusive_if(is_p50_disturbed),
        Criterion::at_most(what("P99 scheduled / P99"), p99, p99_most)
            .sound_if(quiet && has_p99)
            .inconclusive_if(has_p99 && disturbed(p99, p99_most)),
        apart(modes, tasks).sound_if(quiet || modes.scheduled.tasks.iter().all(has_mean)),
    ];
    for (task, figures) in tasks.iter().zip(&modes.scheduled.tasks) {
        let what = format!("{}: requests scheduled", task.name);
        let made = Some(figures.completed as f64);
        let criterion = Criterion::at_least(what, made, task.requests as f64).sound_if(quiet);
        criteria.push(Criterion { decimals: 0, ..criterion });
    }
    criteria
}

/// How far the policy sets the first task and the last apart, at the same time.
fn apart(modes: &Modes, tasks: &[Task]) -> Criterion {
    let name = |task: Option<&Task>| task.map_or("", |task| task.name);
    let mean = |place| latency(&modes.scheduled, place, |l| l.mean);
    let value = ratio(mean(tasks.len().saturating_sub(1)), mean(0));
    let (low, high) = (name(tasks.last()), name(tasks.first()));
    let what = format!("{low}: mean scheduled / mean of {high} scheduled");
    Criterion::at_least(what, value, APART_AT_LEAST)
}

/// Requests after which the mean of a task's latencies does not move much.
const MEAN_REQUESTS: u64 = 10;

fn has_mean(figures: &TaskFigures) -> bool {
    figures.completed >= MEAN_REQUESTS
}

/// Part of a request that a held task may still run at this level: at Lv1 the window that is in
/// flight, at Lv2 the kernel that runs, at Lv3 nothing.
fn leftover(request: Request, level: Level) -> f64 {
    let kernels = match level {
        Level::Block => WINDOW.0,
        Level::Deactivate => 1,
        Level::Interrupt => 0,
    };
    f64::from(kernels) / f64::from(request.kernels.max(1))
}

/// A latency figure of the task at this place.
pub(crate) fn latency(
    run: &RunFigures,
    place: usize,
    figure: fn(&LatencyFigures) -> Option<f64>,
) -> Option<f64> {
    run.tasks.get(place).and_then(|task| figure(&task.latency_ms))
}

/// One figure over another; `None` if there is none, or nothing to divide by.
pub(crate) fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    let base = base.filter(|&base| base > 0.0)?;
    value.map(|value| value / base)
}

#[cfg(test)]
mod tests {
    use super::super::workload::tasks;
    use super::*;
    use xsched_sim::outcome::{Outcome, TaskOutcome};

    /// Figures of three tasks with `requests` requests each, of these latencies in milliseconds.
    fn figures(requests: usize, latencies_ms: [u64; 3]) -> RunFigures {
        let task = |(name, ms): (&str, u64)| TaskOutcome {
            name: name.to_owned(),
            latencies_ns: vec![ms * 1_000_000; requests],
            measured_ns: 1_000_000_000,
            ..TaskOutcome::default()
        };
        let tasks = ["high", "mid", "low"].into_iter().zip(latencies_ms).map(task).collect();
        RunFigures::of(&Outcome { tasks, ..Outcome::default() })
    }

    /// The modes with these latencies of the first task in milliseconds.
    fn modes(alone: u64, unscheduled: u64, scheduled: u64) -> Modes {
        Modes {
            alone: figures(REQUESTS, [alone, 100, 100]),
            unscheduled: figures(REQUESTS, [unscheduled, 150, 200]),
            scheduled: figures(REQUESTS, [scheduled, 170, 400]),
        }
    }

    /// Enough for a P99.
    const REQUESTS: usize = 1_000;
    const REQUEST: Request = Request { kernels: 24, kernel_ns: 1 };

    /// Returns the figures with this verdict on a machine that was quiet or not.
    fn with(verdict: Verdict, modes: &Modes, level: Level, quiet: bool) -> Vec<String> {
        let criteria = judge(modes, &tasks(REQUESTS as u64), (REQUEST, level), quiet);
        assert_eq!(criteria.len(), 7);
        assert!(criteria.iter().all(|c| c.reached == (c.verdict == Verdict::Pass)));
        criteria.into_iter().filter(|c| c.verdict == verdict).map(|c| c.what).collect()
    }

    fn failed(modes: &Modes, level: Level) -> Vec<String> {
        with(Verdict::Fail, modes, level, true)
    }

    #[test]
    fn a_priority_that_took_effect() {
        assert_eq!(failed(&modes(100, 160, 115), Level::Interrupt), [""; 0]);
    }

    #[test]
    fn each_criterion_can_fail() {
        let idle = failed(&modes(100, 159, 100), Level::Interrupt);
        assert_eq!(idle, ["high: P50 unscheduled / P50 alone"]);
        let slow = failed(&modes(100, 200, 116), Level::Interrupt);
        assert_eq!(slow, ["high: P50 scheduled / P50 alone"]);
        let slower = failed(&modes(100, 200, 151), Level::Interrupt);
        assert_eq!(slower.len(), 2);
        let mut few = modes(100, 200, 100);
        few.scheduled = figures(99, [100, 150, 200]);
        let few = failed(&few, Level::Interrupt);
        assert_eq!(
            few,
            ["high: requests scheduled", "mid: requests scheduled", "low: requests scheduled"]
        );
        let mut none = modes(100, 200, 100);
        none.alone = figures(0, [100, 100, 100]);
        let none = failed(&none, Level::Interrupt);
        assert_eq!(none, ["high: P50 unscheduled / P50 alone", "high: P50 scheduled / P50 alone"]);
    }

    #[test]
    fn a_goal_that_noise_may_have_missed_is_inconclusive() {
        let slow = modes(100, 120, 190);
        let missed = with(Verdict::Inconclusive, &slow, Level::Interrupt, false);
        assert_eq!(missed.len(), 3, "{missed:?}");
        assert_eq!(with(Verdict::Fail, &slow, Level::Interrupt, false), [""; 0]);
        assert_eq!(failed(&slow, Level::Interrupt), missed, "a quiet machine has no excuse");
    }

    #[test]
    fn a_priority_without_effect_fails_beside_any_noise() {
        let mut same = modes(100, 200, 200);
        same.scheduled = figures(REQUESTS, [300, 300, 500]);
        let failed = with(Verdict::Fail, &same, Level::Interrupt, false);
        assert_eq!(failed, ["low: mean scheduled / mean of high scheduled"]);
        same.scheduled = figures(9, [300, 300, 500]);
        let failed = with(Verdict::Fail, &same, Level::Interrupt, false);
        assert_eq!(failed, [""; 0], "too few requests to say");
    }

    #[test]
    fn a_task_that_is_faster_than_alone_shows_nothing() {
        // The run alone took twice its time.
        let disturbed = modes(200, 230, 108);
        let found = with(Verdict::Inconclusive, &disturbed, Level::Interrupt, true);
        assert_eq!(
            found,
            [
                "high: P50 unscheduled / P50 alone",
                "high: P50 scheduled / P50 alone",
                "high: P99 scheduled / P99 alone"
            ]
        );
        assert_eq!(with(Verdict::Fail, &disturbed, Level::Interrupt, true), [""; 0]);
        let noise = modes(100, 200, 95);
        assert_eq!(with(Verdict::Inconclusive, &noise, Level::Interrupt, true), [""; 0]);
    }

    #[test]
    fn a_p99_of_few_requests_is_inconclusive() {
        let mut slow = modes(100, 200, 151);
        slow.alone = figures(40, [100, 100, 100]);
        let slow = with(Verdict::Inconclusive, &slow, Level::Interrupt, true);
        assert_eq!(slow, ["high: P99 scheduled / P99 alone"]);
    }

    #[test]
    fn lower_levels_leave_more_running() {
        let slow = modes(100, 200, 148);
        assert_eq!(failed(&slow, Level::Block), [""; 0]);
        assert_eq!(failed(&slow, Level::Deactivate), ["high: P50 scheduled / P50 alone"]);
    }
}
