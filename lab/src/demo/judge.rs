//! Whether the priority took effect.

use serde::Serialize;
use xsched_core::level::Level;
use xsched_sim::report::{LatencyFigures, RunFigures};

use super::device::Request;
use super::workload::{Task, WINDOW};

/// At the median, the task of highest priority takes at most this much of its latency alone.
const P50_AT_MOST: f64 = 1.15;
/// The same at the 99th percentile, compared with the 99th percentile alone.
const P99_AT_MOST: f64 = 1.5;
/// Without a policy it takes at least this much at the median, or there was nothing to schedule.
const UNSCHEDULED_AT_LEAST: f64 = 1.6;

/// The figures of the three modes of the demo; all have the same tasks in the same order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Modes {
    /// Each task by itself.
    pub alone: RunFigures,
    /// All tasks, without holds.
    pub unscheduled: RunFigures,
    /// All tasks under the policy.
    pub scheduled: RunFigures,
}

/// Something that has to hold, and the figure that shows whether it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Criterion {
    /// What is looked at.
    pub what: String,
    /// The figure; `None` without samples, which is as bad as a wrong one.
    pub value: Option<f64>,
    /// The least that the figure may be, if there is such a bound.
    pub at_least: Option<f64>,
    /// The most that the figure may be, if there is such a bound.
    pub at_most: Option<f64>,
    /// Whether the figure is within its bounds.
    pub reached: bool,
    /// Decimals that people want to see.
    #[serde(skip)]
    pub decimals: usize,
}

impl Criterion {
    fn at_least(what: String, value: Option<f64>, least: f64) -> Self {
        let reached = value.is_some_and(|value| value >= least);
        Self { what, value, at_least: Some(least), at_most: None, reached, decimals: 2 }
    }

    fn at_most(what: String, value: Option<f64>, most: f64) -> Self {
        let reached = value.is_some_and(|value| value <= most);
        Self { what, value, at_least: None, at_most: Some(most), reached, decimals: 2 }
    }
}

/// Everything that has to hold for the priority to have taken effect.
pub fn judge(modes: &Modes, tasks: &[Task], request: Request, level: Level) -> Vec<Criterion> {
    let leftover = leftover(request, level);
    let high = tasks.first().map_or("", |task| task.name);
    let of = |run: &RunFigures, figure: fn(&LatencyFigures) -> Option<f64>| {
        ratio(latency(run, 0, figure), latency(&modes.alone, 0, figure))
    };
    let before = of(&modes.unscheduled, |l| l.p50);
    let [p50, p99] = [of(&modes.scheduled, |l| l.p50), of(&modes.scheduled, |l| l.p99)];
    let what = |words: &str| format!("{high}: {words} alone");
    let mut criteria = vec![
        Criterion::at_least(what("P50 unscheduled / P50"), before, UNSCHEDULED_AT_LEAST),
        Criterion::at_most(what("P50 scheduled / P50"), p50, P50_AT_MOST + leftover),
        Criterion::at_most(what("P99 scheduled / P99"), p99, P99_AT_MOST + leftover),
    ];
    for (task, figures) in tasks.iter().zip(&modes.scheduled.tasks) {
        let what = format!("{}: requests scheduled", task.name);
        let made = Some(figures.completed as f64);
        let criterion = Criterion::at_least(what, made, task.requests as f64);
        criteria.push(Criterion { decimals: 0, ..criterion });
    }
    criteria
}

/// What a held task may still run at this level, as a share of a request: at Lv1 the window that is
/// in flight, at Lv2 the kernel that runs, at Lv3 nothing.
fn leftover(request: Request, level: Level) -> f64 {
    let kernels = match level {
        Level::Block => WINDOW.0,
        Level::Deactivate => 1,
        Level::Interrupt => 0,
    };
    f64::from(kernels) / f64::from(request.kernels.max(1))
}

/// A latency figure of the task at this place.
pub fn latency(
    run: &RunFigures,
    place: usize,
    figure: fn(&LatencyFigures) -> Option<f64>,
) -> Option<f64> {
    run.tasks.get(place).and_then(|task| figure(&task.latency_ms))
}

/// One figure over another; `None` if there is none, or nothing to divide by.
pub fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    let base = base.filter(|&base| base > 0.0)?;
    value.map(|value| value / base)
}

#[cfg(test)]
mod tests {
    use super::super::workload::tasks;
    use super::*;
    use xsched_sim::outcome::{Outcome, TaskOutcome};

    /// Figures of three tasks, with so many requests each, of such latencies in milliseconds.
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
            alone: figures(10, [alone, 100, 100]),
            unscheduled: figures(10, [unscheduled, 150, 200]),
            scheduled: figures(10, [scheduled, 170, 400]),
        }
    }

    const REQUEST: Request = Request { kernels: 24, kernel_ns: 1 };

    fn failed(modes: &Modes, level: Level) -> Vec<String> {
        let criteria = judge(modes, &tasks(10), REQUEST, level);
        assert_eq!(criteria.len(), 6);
        criteria.into_iter().filter(|c| !c.reached).map(|c| c.what).collect()
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
        few.scheduled = figures(1, [100, 150, 200]);
        let few = failed(&few, Level::Interrupt);
        assert_eq!(
            few,
            ["high: requests scheduled", "mid: requests scheduled", "low: requests scheduled"]
        );
        let mut none = modes(100, 200, 100);
        none.alone = figures(0, [100, 100, 100]);
        assert_eq!(failed(&none, Level::Interrupt).len(), 3);
    }

    #[test]
    fn lower_levels_leave_more_running() {
        let slow = modes(100, 200, 148);
        assert_eq!(failed(&slow, Level::Block), [""; 0]);
        assert_eq!(failed(&slow, Level::Deactivate), ["high: P50 scheduled / P50 alone"]);
    }
}
