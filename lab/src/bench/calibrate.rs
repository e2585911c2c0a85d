//! Costs of a device that the simulator needs, measured with one queue at a time: nothing here
//! depends on how two of them share it.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime, XQueue};
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::rng::SplitMix64;

use crate::bench::overhead::affordable;
use crate::device::foreground::Foreground;
use crate::device::task::{LaunchPath, Runner};
use crate::device::{BenchDevice, Described, LabError, QueueParams};
use crate::pace::Pace;
use crate::stats::{Quantiles, ns_of};

/// Where the pauses follow from.
const SEED: u64 = 1;
/// Launches in a row of which the time of one is taken.
const LAUNCHES: u32 = 64;
/// Commands in flight, and per fence, of the rows.
pub(crate) const ROW_WINDOW: (u32, u32) = (16, 8);
/// A wait that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many values a distribution is written down as.
const VALUES: usize = 50;

/// Runs to make, with their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The task whose times say what waking up takes.
    pub(crate) task: Foreground,
    /// Device time of a row of commands, in nanoseconds.
    pub(crate) row_ns: u64,
    /// Rows of each kind.
    pub(crate) rounds: u32,
    /// Lone tiny commands, each way.
    pub(crate) lone: u32,
    /// Holds, at each level.
    pub(crate) holds: u32,
}

/// A hold of a queue with four commands of the task's length, of which the first runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Held {
    /// Number of the level, 1 to 3.
    pub(crate) level: u8,
    /// From the hold until the runtime says that it is in effect.
    pub(crate) detect: Quantiles,
    /// From its end until the next command has completed and the waiter knows, less the command's
    /// device time; at Lv3 it is the command that was interrupted, and what it had done before is
    /// taken out as well.
    pub(crate) resume: Quantiles,
}

/// Figures of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Where the pauses followed from.
    pub(crate) seed: u64,
    /// Host time of a launch behind others, on a plain stream.
    pub(crate) launch: Quantiles,
    /// Host time of a submission behind others.
    pub(crate) submit: Quantiles,
    /// A lone tiny command on a plain stream, right after another one.
    pub(crate) lone: Quantiles,
    /// A lone tiny command through an XQueue.
    pub(crate) lone_queue: Quantiles,
    /// Time per command in a row of commands of the task's length, on a plain stream.
    pub(crate) row: Quantiles,
    /// Time per command in such a row through an XQueue at Lv1.
    pub(crate) row_queue: Quantiles,
    /// Time per command in such a row at Lv2 with a gate for each, where the device has gates.
    pub(crate) row_gates: Option<Quantiles>,
    /// The task after pauses, on a plain stream.
    pub(crate) task: Quantiles,
    /// The task after pauses, through an XQueue.
    pub(crate) task_queue: Quantiles,
    /// Middles of equal parts of the distribution of the task's times on a plain stream, less its
    /// commands and a lone tiny command: the time that waking up takes, in microseconds, not
    /// below 0.
    pub(crate) wake_us: Vec<f64>,
    /// Time that waking up takes through an XQueue, in microseconds, computed as `wake_us`.
    pub(crate) queue_wake_us: Vec<f64>,
    /// By how much a sleep exceeds what was asked for.
    pub(crate) oversleep: Quantiles,
    /// Holds at each level.
    pub(crate) holds: Vec<Held>,
}

/// Runs everything. `pace` is told the share that is done.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let described = bench.describe();
    let on = Subject { bench, device, plan, pace };
    let [launch, submit] = [on.launches(PLAIN)?, on.launches(queue(Level::Block, 255, 1))?];
    pace.show(0.1);
    let [lone, lone_queue] = on.lone()?;
    pace.show(0.2);
    let (row, row_queue, row_gates) = on.rows(described.level)?;
    pace.show(0.3);
    let task = on.task(PLAIN, 0.5)?;
    pace.show(0.5);
    let task_queue = on.task(queue(Level::Block, 64, 16), 0.7)?;
    pace.show(0.7);
    let oversleep = on.oversleep();
    pace.show(0.8);
    let levels = Level::ALL.into_iter().filter(|level| level.number() <= described.level);
    // What a command takes, which is longer than was asked for where nothing is that short.
    let command_ns = ((row.p50_us * 1e3) as u64).max(plan.task.command_ns);
    let holds = levels.map(|level| on.holds(level, command_ns)).collect::<Result<_, _>>()?;
    let base_us = (u64::from(plan.task.commands) * plan.task.command_ns) as f64 / 1e3 + lone.p50_us;
    Ok(Results {
        device: described,
        plan: *plan,
        seed: SEED,
        launch,
        submit,
        lone,
        lone_queue,
        row,
        row_queue,
        row_gates,
        task: Quantiles::of(&task),
        task_queue: Quantiles::of(&task_queue),
        wake_us: beyond(task, base_us),
        queue_wake_us: beyond(task_queue, base_us),
        oversleep,
        holds,
    })
}

const PLAIN: LaunchPath = LaunchPath::Plain { urgent: false };

const fn queue(level: Level, threshold: u32, batch: u32) -> LaunchPath {
    LaunchPath::Queue { making: QueueParams::at(level), priority: 0, threshold, batch }
}

/// The middles of equal parts of a distribution, less a base, not below 0.
fn beyond(mut times_ns: Vec<u64>, base_us: f64) -> Vec<f64> {
    times_ns.sort_unstable();
    let parts = VALUES.min(times_ns.len());
    let middle = |part: usize| times_ns[(2 * part + 1) * times_ns.len() / (2 * parts)];
    (0..parts).map(|part| (middle(part) as f64 / 1e3 - base_us).max(0.0)).collect()
}

/// A device and what is run on it.
struct Subject<'a, B: BenchDevice> {
    bench: &'a B,
    device: Device<B::Backend>,
    plan: &'a Plan,
    pace: &'a Pace<'a>,
}

impl<B: BenchDevice> Subject<'_, B> {
    fn runner(&self, way: LaunchPath) -> Result<Runner<B>, LabError> {
        Runner::new(self.bench, &self.device, way)
    }

    fn command(&self) -> Result<B::Command, LabError> {
        self.bench.command(self.plan.task.command_ns, 1)
    }

    /// Returns the times of launches or submissions in a row behind a command that runs.
    fn launches(&self, way: LaunchPath) -> Result<Quantiles, LabError> {
        let (command, mut runner) = (self.command()?, self.runner(way)?);
        let mut times = Vec::new();
        let count = LAUNCHES.min(affordable(runner.run(&command, 1)?));
        for n in 0..self.plan.rounds.max(1) * 4 {
            if !self.pace.wants_more(n as usize, 0.1) {
                break;
            }
            runner.launch(&command)?;
            let start = Instant::now();
            (0..count).try_for_each(|_| runner.launch(&command).map(drop))?;
            times.push(ns_of(start.elapsed()) / u64::from(count));
            runner.run(&command, 1)?;
        }
        Ok(Quantiles::of(&times))
    }

    /// Lone tiny commands, both ways by turns.
    fn lone(&self) -> Result<[Quantiles; 2], LabError> {
        let nothing = self.bench.nothing();
        let mut runners = [self.runner(PLAIN)?, self.runner(queue(Level::Block, 64, 16))?];
        let mut times = [Vec::new(), Vec::new()];
        let start = Instant::now();
        for n in 0..self.plan.lone {
            for (runner, times) in runners.iter_mut().zip(&mut times) {
                times.push(ns_of(runner.run(&nothing, 1)?));
            }
            // A device that takes milliseconds for each says what it has to say sooner.
            let slow = n >= 100 && start.elapsed() > Duration::from_secs(10);
            if slow || !self.pace.wants_more(n as usize, 0.2) {
                break;
            }
        }
        Ok(times.map(|times| Quantiles::of(&times)))
    }

    /// Rows of commands, all ways by turns, so that a drift of the clock hits all.
    fn rows(&self, level: u8) -> Result<(Quantiles, Quantiles, Option<Quantiles>), LabError> {
        let (threshold, batch) = ROW_WINDOW;
        let mut ways = vec![PLAIN, queue(Level::Block, threshold, batch)];
        if level >= Level::Deactivate.number() {
            ways.push(queue(Level::Deactivate, threshold, batch));
        }
        let runners = ways.iter().map(|way| self.runner(*way));
        let mut runners = runners.collect::<Result<Vec<_>, _>>()?;
        let command = self.command()?;
        let count = self.plan.row_ns / self.plan.task.command_ns.max(1);
        let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let one = runners.iter_mut().next().map(|runner| runner.run(&command, 1)).transpose()?;
        let count = count.min(affordable(one.unwrap_or_default()));
        let mut times: Vec<Vec<u64>> = vec![Vec::new(); runners.len()];
        for round in 0..=self.plan.rounds {
            if !self.pace.wants_more(times.first().map_or(0, Vec::len), 0.3) {
                break;
            }
            for (runner, times) in runners.iter_mut().zip(&mut times) {
                let took = ns_of(runner.run(&command, count)?) / u64::from(count);
                // The first is for warming up.
                times.extend((round > 0).then_some(took));
            }
        }
        let mut rows = times.iter().map(|times| Quantiles::of(times));
        Ok((rows.next().unwrap_or_default(), rows.next().unwrap_or_default(), rows.next()))
    }

    /// The task again and again, with pauses. The time of each run in nanoseconds.
    fn task(&self, way: LaunchPath, part: f64) -> Result<Vec<u64>, LabError> {
        let mut runner = self.runner(way)?;
        let (random, on) = (&mut SplitMix64::new(SEED), (self.pace, part));
        self.plan.task.measure(self.bench, &mut runner, random, None, on)
    }

    fn oversleep(&self) -> Quantiles {
        let (least, most) = self.plan.task.pause_ns;
        let mut random = SplitMix64::new(SEED);
        let times = (0..self.plan.holds.max(1)).map(|_| {
            let asked = least + random.below((most - least).max(1));
            let start = Instant::now();
            thread::sleep(Duration::from_nanos(asked));
            ns_of(start.elapsed()).saturating_sub(asked)
        });
        Quantiles::of(&times.collect::<Vec<_>>())
    }

    /// Holds a queue whose first command runs, and lets it go on.
    fn holds(&self, level: Level, command_ns: u64) -> Result<Held, LabError> {
        // At Lv1 what is not launched waits; deeper, it is launched and waits.
        let threshold = if level == Level::Block { 1 } else { 8 };
        let runner = self.runner(queue(level, threshold, 1))?;
        let queue = runner.queue().ok_or_else(|| LabError::new("there is no queue"))?;
        let command = self.command()?;
        let (mut detect, mut resume) = (Vec::new(), Vec::new());
        for n in 0..self.plan.holds {
            if !self.pace.wants_more(n as usize, 1.0) {
                break;
            }
            let (detected, resumed) = self.hold(&queue, (&command, command_ns), level)?;
            detect.push(detected);
            resume.push(resumed);
        }
        Ok(Held {
            level: level.number(),
            detect: Quantiles::of(&detect),
            resume: Quantiles::of(&resume),
        })
    }

    /// One hold: until it is in effect, and what going on takes, in nanoseconds.
    fn hold(
        &self,
        queue: &XQueue<B::Command>,
        (command, command_ns): (&B::Command, u64),
        level: Level,
    ) -> Result<(u64, u64), LabError> {
        let started = Instant::now();
        let mut tickets = Vec::new();
        for _ in 0..4 {
            let ticket = queue.submit(command.clone());
            tickets.push(ticket.map_err(|_| LabError::new("the device was lost"))?);
        }
        // In the middle of the first command, whatever submitting took.
        while ns_of(started.elapsed()) < command_ns / 2 {
            std::hint::spin_loop();
        }
        let held = Instant::now();
        queue.suspend(level);
        while !matches!(queue.stats().hold, HoldState::Held(deep) if deep >= level) {
            if held.elapsed() > PATIENCE {
                queue.resume();
                return Err(LabError::new("a hold did not come into effect"));
            }
            std::hint::spin_loop();
        }
        let detect_ns = ns_of(held.elapsed());
        let first = usize::from(level < Level::Interrupt);
        let ran_ns = if first == 0 { ns_of(held - started) } else { 0 };
        // The first command ends meanwhile, unless it is interrupted.
        thread::sleep(Duration::from_nanos(command_ns * 2 + 200_000));
        let resumed = Instant::now();
        queue.resume();
        queue.wait_timeout(tickets[first], PATIENCE).map_err(LabError::new)?;
        let resume_ns = ns_of(resumed.elapsed());
        queue.wait_all_timeout(PATIENCE).map_err(LabError::new)?;
        Ok((detect_ns, (resume_ns + ran_ns).saturating_sub(command_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;

    #[test]
    fn the_host_is_measured() {
        let task = Foreground {
            commands: 4,
            command_ns: 50_000,
            pause_ns: (200_000, 400_000),
            samples: 20,
        };
        let plan = Plan { task, row_ns: 500_000, rounds: 3, lone: 20, holds: 5 };
        let outcome = run(&Host::open().unwrap(), &plan, &Pace::free()).unwrap();
        let levels: Vec<u8> = outcome.holds.iter().map(|held| held.level).collect();
        assert_eq!(levels, [1, 2, 3]);
        assert_eq!((outcome.wake_us.len(), outcome.queue_wake_us.len()), (20, 20));
        assert!(outcome.wake_us.is_sorted(), "{:?}", outcome.wake_us);
        assert!(outcome.task.p50_us >= 200.0 * 0.8 && outcome.row_gates.is_some(), "{outcome:?}");
    }

    #[test]
    fn a_distribution_becomes_the_middles_of_its_parts() {
        let times: Vec<u64> = (0..100).rev().map(|n| n * 1_000).collect();
        let values = beyond(times, 10.0);
        assert_eq!(values.len(), VALUES);
        assert_eq!((values[0], values[10], values[49]), (0.0, 11.0, 89.0));
        assert_eq!(beyond(vec![], 1.0), Vec::<f64>::new());
    }
}
