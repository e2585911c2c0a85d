//! Bandwidth partition (row 7.2.2 of the XSched paper): two tasks that are always busy share a
//! device in given parts.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::any::Any;
use xsched::{Runtime, XQueue};
use xsched_core::level::Level;

use crate::device::task::{Background, LaunchPath, Options, Runner};
use crate::device::{BenchDevice, Described, LabError, QueueParams};
use crate::pace::Pace;
use crate::stats::Processor;

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The policy's name: one with shares, such as `wfq`, `up` or `pup`.
    pub(crate) policy: String,
    /// Parts of the device in percent.
    pub(crate) shares: (u8, u8),
    /// Device times of the tasks' commands, in nanoseconds.
    pub(crate) commands_ns: (u64, u64),
    /// Commands that each task keeps in flight.
    pub(crate) threshold: u32,
    /// Levels to try.
    pub(crate) levels: Vec<u8>,
    /// How long is measured, in milliseconds.
    pub(crate) measured_ms: u64,
}

/// Two tasks at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The level, or nothing for two plain streams.
    pub(crate) level: Option<u8>,
    /// Of what both got, in percent, for the first.
    pub(crate) first_percent: f64,
    /// Device time of both tasks, over that of the first task alone on a plain stream.
    pub(crate) total: f64,
    /// Device time that the runtime counted for each, over what it used; 0 for plain streams.
    #[serde(default)]
    pub(crate) counted: (f64, f64),
    /// Processors in use, both tasks included.
    pub(crate) processors: f64,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Device time over time of the first task alone, on a plain stream.
    pub(crate) alone: f64,
    /// Plain streams, and each level.
    pub(crate) cells: Vec<Cell>,
}

/// Runs all levels. `pace` is told the share that is done.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let policy: Any = plan.policy.parse().map_err(LabError::new)?;
    let runtime = Runtime::new(policy).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let total = plan.levels.len() as f64 + 2.0;
    let plain = || Runner::new(bench, &device, LaunchPath::Plain { urgent: false });
    let alone = measure(bench, plan, vec![plain()?])?.used[0];
    pace.show(1.0 / total);
    let both = measure(bench, plan, vec![plain()?, plain()?])?;
    let mut cells = vec![both.cell(None, alone)];
    pace.show(2.0 / total);
    for (n, &level) in plan.levels.iter().enumerate() {
        let runners = [(0, plan.shares.0), (1, plan.shares.1)].map(|(process, percent)| {
            let making = QueueParams::at(Level::from_number(level).unwrap_or_default());
            let options = Options { process, percent: Some(percent), ..Options::default() };
            Runner::scheduled(bench, &device, making, options, (plan.threshold, 1))
        });
        let [first, second] = runners;
        let both = measure(bench, plan, vec![first?, second?])?;
        cells.push(both.cell(Some(level), alone));
        pace.show((n as f64 + 3.0) / total);
    }
    Ok(Results { device: bench.describe(), plan: plan.clone(), alone, cells })
}

/// Shares that tasks got.
#[derive(Clone, Debug)]
struct Got {
    /// Device time over time.
    used: Vec<f64>,
    /// Device time over time, as the runtime counts it.
    counted: Vec<f64>,
    processors: f64,
}

impl Got {
    fn cell(&self, level: Option<u8>, alone: f64) -> Cell {
        let sum: f64 = self.used.iter().sum();
        let percent = 100.0 * self.used[0] / sum.max(f64::MIN_POSITIVE);
        let total = sum / alone.max(f64::MIN_POSITIVE);
        let counted = |n: usize| self.counted[n] / self.used[n].max(f64::MIN_POSITIVE);
        let counted = (counted(0), counted(1));
        Cell { level, first_percent: percent, total, counted, processors: self.processors }
    }
}

/// Commands that a task has completed, or nearly: of plain streams it is known what was launched.
fn completed<B: BenchDevice>(queue: Option<&XQueue<B::Command>>, background: &Background) -> u64 {
    queue.map_or_else(|| background.commands(), |queue| queue.stats().retired)
}

/// Device time that the runtime has counted.
fn busy_of<B: BenchDevice>(queue: &Option<XQueue<B::Command>>) -> Duration {
    queue.as_ref().map_or(Duration::ZERO, |queue| queue.stats().busy)
}

/// Runs the tasks at once.
fn measure<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    mut runners: Vec<Runner<B>>,
) -> Result<Got, LabError> {
    let lengths = [plan.commands_ns.0, plan.commands_ns.1];
    let queues: Vec<_> = runners.iter().map(Runner::queue).collect();
    let tasks: Vec<Background> = runners.iter().map(|_| Background::default()).collect();
    let commands = lengths.map(|ns| bench.command(ns, 1));
    let [first, second] = commands;
    let commands = [first?, second?];
    thread::scope(|scope| {
        let running: Vec<_> = runners
            .iter_mut()
            .zip(&tasks)
            .zip(&commands)
            .map(|((runner, task), command)| {
                scope.spawn(move || task.run(runner, command, plan.threshold))
            })
            .collect();
        thread::sleep(WARM_UP);
        let counts = || -> Vec<u64> {
            let each = queues.iter().zip(&tasks);
            each.map(|(queue, task)| completed::<B>(queue.as_ref(), task)).collect()
        };
        let busy = || -> Vec<Duration> { queues.iter().map(busy_of::<B>).collect() };
        let (start, processor, before) = (Instant::now(), Processor::now(), (counts(), busy()));
        thread::sleep(Duration::from_millis(plan.measured_ms));
        let (wall, after) = (start.elapsed(), (counts(), busy()));
        let processors = Processor::now().share_since(&processor);
        tasks.iter().for_each(Background::stop);
        for task in running {
            task.join().map_err(|_| LabError::new("a task panicked"))??;
        }
        let counted = before.1.iter().zip(&after.1).map(|(before, after)| {
            after.saturating_sub(*before).as_secs_f64() / wall.as_secs_f64()
        });
        let used = before.0.iter().zip(&after.0).zip(lengths).map(|((before, after), ns)| {
            (after - before) as f64 * ns as f64 / 1e9 / wall.as_secs_f64()
        });
        Ok(Got { used: used.collect(), counted: counted.collect(), processors })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;

    fn plan(policy: &str) -> Plan {
        Plan {
            policy: policy.to_owned(),
            shares: (75, 25),
            commands_ns: (200_000, 200_000),
            threshold: 4,
            levels: vec![2],
            measured_ms: 600,
        }
    }

    #[test]
    fn the_larger_part_is_the_firsts() {
        let outcome = run(&Host::open().unwrap(), &plan("wfq"), &Pace::free()).unwrap();
        let levels: Vec<_> = outcome.cells.iter().map(|cell| cell.level).collect();
        assert_eq!(levels, [None, Some(2)]);
        // How much larger depends on what else the machine does.
        assert!(outcome.cells[1].first_percent > 50.0, "{outcome:?}");
    }

    #[test]
    fn an_unknown_policy_is_an_error_that_lists_those_there_are() {
        let error = run(&Host::open().unwrap(), &plan("best"), &Pace::free()).unwrap_err();
        assert!(error.to_string().contains("wfq"), "{error}");
    }
}
