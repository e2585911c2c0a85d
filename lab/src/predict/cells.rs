//! Predictions of the simulator for each combination of a bench.

use xsched::policies::any::Any;
use xsched::policies::hpf::Hpf;
use xsched_core::policy::Policy;
use xsched_sim::outcome::Outcome;
use xsched_sim::run::{RunError, RunOptions, run_with};
use xsched_sim::scenario::{DeviceSpec, Scenario};

use super::scenario::{Endless, NO_POLICY, beside, busy};
use super::{Cell, Pair, Prediction};
use crate::bench::partition;
use crate::bench::priority;
use crate::device::QueueParams;
use crate::device::foreground::Foreground;
use crate::device::mode::Mode;
use crate::device::task::LaunchPath;
use crate::stats::P99_SAMPLES;
use crate::stats::Quantiles;

pub(crate) fn simulate(scenario: &Scenario, policy: impl Policy) -> Result<Outcome, RunError> {
    run_with(scenario, policy, &RunOptions::default(), &mut |_| {})
}

fn named(name: &str) -> Result<Any, RunError> {
    name.parse().map_err(|_| RunError::UnknownPolicy { name: name.to_owned() })
}

/// Returns the times of the simulated task, under the policy of the bench if XSched has any part in
/// it.
fn times_of(scenario: &Scenario, way: LaunchPath) -> Result<Quantiles, RunError> {
    let outcome = match way {
        LaunchPath::Plain { .. } => simulate(scenario, named(NO_POLICY)?)?,
        LaunchPath::Queue { .. } => simulate(scenario, Hpf::default())?,
    };
    Ok(outcome.tasks.first().map(|task| Quantiles::of(&task.latencies_ns)).unwrap_or_default())
}

fn compare(name: [String; 3], measured: &Quantiles, predicted: &Quantiles) -> Cell {
    let p99 = measured.p99_us.zip(predicted.p99_us);
    let pairs = vec![
        Some(Pair::of(measured.p50_us, predicted.p50_us)),
        p99.map(|(measured, predicted)| Pair::of(measured, predicted)),
    ];
    Cell { name: name.to_vec(), pairs, counts: true }
}

/// The task alone, plain and through an XQueue. The description of the device comes from
/// these, so that they prove nothing.
fn by_itself(
    device: &DeviceSpec,
    (task, threshold): (Foreground, u32),
    alone: [&Quantiles; 2],
) -> Result<Vec<Cell>, RunError> {
    let queue = Mode::Lv1.ways(threshold).0;
    let ways = [("alone, plain", LaunchPath::Plain { urgent: false }), ("alone, XQueue", queue)];
    let cell = |((name, way), measured): ((&str, LaunchPath), &Quantiles)| {
        let times = times_of(&beside(device, (task, way), None), way)?;
        let name = ["-", "-", name].map(str::to_owned);
        Ok(Cell { counts: false, ..compare(name, measured, &times) })
    };
    ways.into_iter().zip(alone).map(cell).collect()
}

/// Predicts the cells of `bench fixed-priority`. The first two are the task alone.
pub(crate) fn fixed_priority(
    device: &DeviceSpec,
    plan: &priority::Plan,
    alone: [&Quantiles; 2],
    cells: &[priority::Cell],
) -> Result<Prediction, RunError> {
    let mut task = plan.foreground;
    task.samples = task.samples.max(P99_SAMPLES as u32);
    let mut predicted = Vec::with_capacity(alone.len() + cells.len());
    predicted.extend(by_itself(device, (task, plan.threshold), alone)?);
    // How the device divides its time between processes is not modelled.
    let here = |cell: &&priority::Cell| !matches!(cell.mode, Mode::Processes(_));
    for cell in cells.iter().filter(here) {
        let (way, other) = cell.mode.ways(plan.threshold);
        let background = Endless {
            way: other,
            command_ns: cell.background_ns,
            waves: cell.waves,
            threshold: plan.threshold,
            percent: None,
        };
        let times = times_of(&beside(device, (task, way), Some(background)), way)?;
        let us = cell.background_ns / 1_000;
        let name = [cell.waves.to_string(), us.to_string(), cell.mode.to_string()];
        predicted.push(compare(name, &cell.foreground, &times));
    }
    let figures = [("P50", false), ("P99", true)];
    Ok(Prediction::new(device, &["waves", "background", "<way"], &figures, predicted))
}

/// Returns the parts of the device that the first `tasks` tasks of a plan use.
fn parts_of(
    device: &DeviceSpec,
    plan: &partition::Plan,
    level: Option<u8>,
    tasks: usize,
) -> Result<Vec<f64>, RunError> {
    let threshold = plan.threshold;
    let queue = |level| {
        let making = QueueParams { level, spacing_ns: 0, urgent: false };
        LaunchPath::Queue { making, priority: 0, threshold, batch: 1 }
    };
    let way = level.map_or(LaunchPath::Plain { urgent: false }, queue);
    let policy = if level.is_some() { plan.policy.as_str() } else { NO_POLICY };
    let each = [(plan.commands_ns.0, plan.shares.0), (plan.commands_ns.1, plan.shares.1)];
    let endless = |(command_ns, percent)| Endless {
        way,
        command_ns,
        waves: 1,
        threshold,
        percent: Some(percent),
    };
    let tasks: Vec<Endless> = each.into_iter().take(tasks).map(endless).collect();
    let scenario = busy(device, policy, &tasks, plan.measured_ms.saturating_mul(1_000_000));
    let outcome = simulate(&scenario, named(policy)?)?;
    let share = |ns: u64| ns as f64 / outcome.duration_ns.max(1) as f64;
    Ok(outcome.tasks.iter().map(|task| share(task.device_time_ns)).collect())
}

/// Predicts the cells of `bench partition`.
pub(crate) fn partition(
    device: &DeviceSpec,
    plan: &partition::Plan,
    cells: &[partition::Cell],
) -> Result<Prediction, RunError> {
    let alone: f64 = parts_of(device, plan, None, 1)?.iter().sum();
    let mut predicted = Vec::with_capacity(cells.len());
    for cell in cells {
        let parts = parts_of(device, plan, cell.level, 2)?;
        let sum: f64 = parts.iter().sum();
        let first = 100.0 * parts.first().copied().unwrap_or_default() / sum.max(f64::MIN_POSITIVE);
        let total = sum / alone.max(f64::MIN_POSITIVE);
        let name = cell.level.map_or_else(|| "plain".to_owned(), |level| format!("lv{level}"));
        let pairs = [
            (cell.first_percent, first),
            (100.0 - cell.first_percent, 100.0 - first),
            (cell.total, total),
        ];
        let pairs = pairs.map(|(measured, predicted)| Some(Pair::of(measured, predicted)));
        predicted.push(Cell { name: vec![name], pairs: pairs.to_vec(), counts: true });
    }
    let figures = [("first", true), ("second", true), ("total", true)];
    Ok(Prediction::new(device, &["<way"], &figures, predicted))
}
