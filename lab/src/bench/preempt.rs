//! How fast a busy queue stops and goes on (rows 7.3.1 and 7.3.2 of the XSched paper): it is held
//! again and again at random moments, and the victim itself says when it last ran.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::fcfs::Fcfs;
use xsched::{Device, Runtime, XQueue};
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::rng::SplitMix64;

use crate::device::mode::Mode;
use crate::device::task::{LaunchPath, Runner};
use crate::device::{BenchDevice, Described, LabError, Victim, until};
use crate::pace::Pace;
use crate::stats::{P99_SAMPLES, Quantiles};

/// Where the moments of the holds follow from.
pub(crate) const SEED: u64 = 1;
/// Commands that the victim runs between two holds at least, and up to as many more.
const RUN: u64 = 2;
/// A wait that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The 99th percentile of a hold at Lv3 is below this, in microseconds.
const INTERRUPT_US: f64 = 200.0;
/// Commands that are shorter than this, in microseconds, may end before the window is filled up.
const SHORT_US: f64 = 100.0;

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Device times of the victim's commands, in nanoseconds.
    pub(crate) commands_ns: Vec<u64>,
    /// The victim's levels and gates.
    pub(crate) modes: Vec<Mode>,
    /// Commands in flight, each with a fence, so that the window is full whenever it can be. At
    /// Lv1, where a hold waits for all of them, only the first is tried.
    pub(crate) thresholds: Vec<u32>,
    /// Holds in each combination.
    pub(crate) samples: u32,
}

/// Goal of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goal {
    /// In words.
    pub(crate) what: String,
    /// Set if the goal was reached; `None` with too few samples to say.
    pub(crate) reached: Option<bool>,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The victim's level and gates.
    pub(crate) mode: Mode,
    /// Number of the level, 1 to 3.
    pub(crate) level: u8,
    /// Device time of a command, in nanoseconds.
    pub(crate) command_ns: u64,
    /// Commands in flight.
    pub(crate) threshold: u32,
    /// From the hold to the victim's last instruction.
    pub(crate) quiet: Quantiles,
    /// From the hold until the runtime says that it is in effect.
    pub(crate) detect: Quantiles,
    /// From the end of the hold to the victim's next instruction.
    pub(crate) restart: Quantiles,
    /// Upper limit of the error of the victim's clock, in microseconds.
    pub(crate) uncertain_us: f64,
    /// Holds at Lv3 after which the victim ran though the runtime said that it did not.
    pub(crate) ran_on: u64,
    /// Goal of the row.
    pub(crate) goal: Goal,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Where the moments of the holds followed from.
    pub(crate) seed: u64,
    /// Each combination.
    pub(crate) rows: Vec<Row>,
}

impl Results {
    /// Returns whether a goal was missed.
    pub(crate) fn missed(&self) -> bool {
        self.rows.iter().any(|row| row.goal.reached == Some(false))
    }
}

/// Runs all combinations. `pace` is told the share that is done.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let runtime = Runtime::new(Fcfs).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let mut combinations = Vec::new();
    for &command_ns in &plan.commands_ns {
        for &mode in &plan.modes {
            let count = if mode.level() == 1 { 1 } else { plan.thresholds.len() };
            let thresholds = plan.thresholds.iter().take(count);
            combinations.extend(thresholds.map(|&threshold| (command_ns, mode, threshold)));
        }
    }
    let mut rows = Vec::with_capacity(combinations.len());
    for (n, &(command_ns, mode, threshold)) in combinations.iter().enumerate() {
        let part = |part: f64| (n as f64 + part) / combinations.len() as f64;
        let subject = Subject::new(bench, &device, command_ns, mode, threshold)?;
        rows.push(subject.measure(bench, plan.samples, (pace, &part))?);
    }
    Ok(Results { device: bench.describe(), plan: plan.clone(), seed: SEED, rows })
}

/// A queue that always has work.
struct Subject<B: BenchDevice> {
    queue: XQueue<B::Command>,
    victim: B::Victim,
    mode: Mode,
    level: Level,
    command_ns: u64,
    threshold: u32,
}

/// Outcome of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampled {
    Taken,
    /// The victim had run everything before the hold: its submitter was not scheduled in time.
    RanDry,
}

/// The times of one combination, one per sample, all in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Times {
    quiet_ns: Vec<u64>,
    detect_ns: Vec<u64>,
    restart_ns: Vec<u64>,
    uncertain_ns: u64,
}

impl<B: BenchDevice> Subject<B> {
    fn new(
        bench: &B,
        device: &Device<B::Backend>,
        command_ns: u64,
        mode: Mode,
        threshold: u32,
    ) -> Result<Self, LabError> {
        let victim = bench.victim(command_ns)?;
        let making = mode.making(false);
        let way = LaunchPath::Queue { making, priority: 0, threshold, batch: 1 };
        let runner = Runner::new(bench, device, way)?;
        let queue = runner.queue().ok_or_else(|| LabError::new("a plain stream has no hold"))?;
        let level = making.level();
        if bench.describe().level < level.number() {
            let why =
                format!("`{mode}` needs Lv{}, which the device does not have", level.number());
            return Err(LabError::new(why));
        }
        Ok(Self { queue, victim, mode, level, command_ns, threshold })
    }

    /// Holds the queue `samples` times at random moments.
    fn measure(
        mut self,
        bench: &B,
        samples: u32,
        (pace, part): (&Pace<'_>, &dyn Fn(f64) -> f64),
    ) -> Result<Row, LabError> {
        let mut random = SplitMix64::new(SEED);
        let mut times = Times::default();
        let (mut taken, mut dry) = (0, 0);
        while taken < samples && pace.wants_more(taken as usize, part(1.0)) {
            self.refill()?;
            let run_ns = RUN * self.command_ns;
            thread::sleep(Duration::from_nanos(run_ns + random.below(run_ns.max(1))));
            match self.sample(&mut times)? {
                Sampled::Taken => taken += 1,
                Sampled::RanDry if dry < samples => dry += 1,
                Sampled::RanDry => return Err(LabError::new("the victim keeps running dry")),
            }
            pace.show(part(f64::from(taken) / f64::from(samples)));
        }
        // What is left would run beside the next victim.
        self.queue.wait_all();
        let command_ns = self.used_ns();
        let slack_us = bench.slack_us();
        Ok(row(&times, (self.mode, command_ns, self.threshold), slack_us))
    }

    /// Device time of a command: what was asked for, and where noting down the time takes some as
    /// well, as measured, if that is about the same.
    fn used_ns(&self) -> u64 {
        if !self.victim.is_longer() {
            return self.command_ns;
        }
        let stats = self.queue.stats();
        let busy_ns = u64::try_from(stats.busy.as_nanos()).unwrap_or(u64::MAX);
        let measured = busy_ns.checked_div(stats.retired).unwrap_or(self.command_ns);
        measured.clamp(self.command_ns, self.command_ns + self.command_ns / 8)
    }

    /// Gives the victim commands for a while, and waits until it runs.
    fn refill(&mut self) -> Result<(), LabError> {
        let stats = self.queue.stats();
        // For as long as it runs, and as many again as are in flight, whatever they take.
        let ahead = u64::from(self.threshold) * 2 + RUN * 4;
        let marks = self.victim.marks();
        for _ in stats.submitted.saturating_sub(stats.retired)..ahead.max(64) {
            let ticket = self.queue.submit(self.victim.next());
            ticket.map_err(|_| LabError::new("the device was lost"))?;
        }
        until(PATIENCE, "the victim did not run", || (self.victim.marks() != marks).then_some(()))
    }

    /// One hold and its end.
    fn sample(&mut self, times: &mut Times) -> Result<Sampled, LabError> {
        let (level, victim) = (self.level, &mut self.victim);
        let held_ns = victim.now_ns();
        self.queue.suspend(level);
        let detect_ns = until(PATIENCE, "the hold did not come into effect", || {
            let held = matches!(self.queue.stats().hold, HoldState::Held(deep) if deep >= level);
            held.then(|| victim.now_ns().saturating_sub(held_ns))
        })?;
        settle(level, &self.queue, victim)?;
        let (last_ns, uncertain_ns) = victim.last_ns()?;

        victim.arm();
        let resumed_ns = victim.now_ns();
        self.queue.resume();
        let queue = &self.queue;
        let first_ns = until(PATIENCE, "the victim did not go on", || {
            // What it wrote before it retired is looked for once more.
            let drained = queue.stats().retired == queue.stats().submitted;
            victim.first_ns().map(Some).or(drained.then_some(None))
        })?;
        let Some(first_ns) = first_ns else { return Ok(Sampled::RanDry) };
        times.quiet_ns.push(last_ns.saturating_sub(held_ns));
        times.detect_ns.push(detect_ns);
        times.restart_ns.push(first_ns.saturating_sub(resumed_ns));
        times.uncertain_ns = times.uncertain_ns.max(uncertain_ns);
        Ok(Sampled::Taken)
    }
}

/// Waits until the victim runs no more.
fn settle<V: Victim>(level: Level, queue: &XQueue<V::Command>, victim: &V) -> Result<(), LabError> {
    let mut last = (victim.marks(), Instant::now());
    until(PATIENCE, "the victim did not stop", || {
        let marks = victim.marks();
        // The victim may have lost its processor for a while, so silence alone says little.
        let runs = match level {
            Level::Block => {
                let stats = queue.stats();
                stats.launched > stats.retired
            }
            Level::Deactivate => victim.is_inside(),
            Level::Interrupt => false,
        };
        if marks != last.0 || runs {
            last = (marks, Instant::now());
        }
        (last.1.elapsed() >= victim.settled()).then_some(())
    })
}

fn row(times: &Times, (mode, command_ns, threshold): (Mode, u64, u32), slack_us: f64) -> Row {
    let level = mode.level();
    let quiet = Quantiles::of(&times.quiet_ns);
    let ran_on = match level {
        3 => times.quiet_ns.iter().zip(&times.detect_ns).filter(|(q, d)| q > d).count() as u64,
        _ => 0,
    };
    let (what, reached) = goal(mode, command_ns as f64 / 1e3, threshold, slack_us, &quiet);
    let reached = (quiet.samples >= P99_SAMPLES).then_some(reached && ran_on == 0);
    Row {
        mode,
        level,
        command_ns,
        threshold,
        quiet,
        detect: Quantiles::of(&times.detect_ns),
        restart: Quantiles::of(&times.restart_ns),
        uncertain_us: times.uncertain_ns as f64 / 1e3,
        ran_on,
        goal: Goal { what, reached },
    }
}

/// The goal in words, and whether it is reached.
fn goal(
    mode: Mode,
    command_us: f64,
    threshold: u32,
    slack_us: f64,
    quiet: &Quantiles,
) -> (String, bool) {
    let p99_within = |most: f64| quiet.p99_us.is_some_and(|p99| p99 <= most);
    match mode.level() {
        // What is in flight: between 7 and 8 of 8 commands if the window is full, as it should be.
        1 => {
            let window_us = command_us * f64::from(threshold);
            let (least, most) = (window_us * 0.75, window_us + slack_us);
            if command_us < SHORT_US {
                return (format!("P99 at most {most:.0} µs"), p99_within(most));
            }
            let full = quiet.p50_us >= least && quiet.p50_us <= most;
            (format!("P50 {least:.0} to {most:.0} µs"), full)
        }
        2 => {
            let spacing_us = mode.making(false).spacing_ns as f64 / 1e3;
            let most = spacing_us + command_us + slack_us;
            (format!("P99 at most {most:.0} µs"), p99_within(most))
        }
        _ => {
            let reached = quiet.p99_us.is_some_and(|value| value < INTERRUPT_US);
            (format!("P99 below {INTERRUPT_US:.0} µs"), reached)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;

    const GATE: Mode = Mode::Gate { spacing_us: 0 };

    fn times(quiet_ns: u64, count: usize) -> Times {
        let same = vec![quiet_ns; count];
        Times {
            quiet_ns: same.clone(),
            detect_ns: same,
            restart_ns: vec![1; count],
            uncertain_ns: 0,
        }
    }

    fn reached(mode: Mode, quiet_ns: u64) -> Option<bool> {
        row(&times(quiet_ns, 1_000), (mode, 500_000, 8), 100.0).goal.reached
    }

    #[test]
    fn each_level_has_its_goal() {
        assert_eq!(reached(Mode::Lv1, 3_900_000), Some(true));
        assert_eq!(reached(Mode::Lv1, 2_900_000), Some(false), "the window was not full");
        assert_eq!(reached(Mode::Lv1, 4_200_000), Some(false));
        assert_eq!(reached(GATE, 599_000), Some(true));
        assert_eq!(reached(GATE, 602_000), Some(false));
        assert_eq!(reached(Mode::Gate { spacing_us: 200 }, 799_000), Some(true));
        assert_eq!(reached(Mode::Gate { spacing_us: 200 }, 802_000), Some(false));
        assert_eq!(reached(Mode::Lv3, 199_000), Some(true));
        assert_eq!(reached(Mode::Lv3, 201_000), Some(false));
        let short = row(&times(80_000, 1_000), (Mode::Lv1, 10_000, 8), 20.0);
        assert_eq!(short.goal.reached, Some(true));
        assert_eq!(
            row(&times(102_000, 1_000), (Mode::Lv1, 10_000, 8), 20.0).goal.reached,
            Some(false)
        );
    }

    #[test]
    fn few_samples_give_neither_a_p99_nor_a_verdict() {
        let few = row(&times(10, 999), (Mode::Lv3, 500_000, 8), 100.0);
        assert_eq!((few.quiet.p99_us, few.goal.reached), (None, None));
    }

    #[test]
    fn running_on_under_an_interrupt_is_a_failure() {
        let mut times = times(10_000, 1_000);
        times.quiet_ns[500] = 10_001;
        let lv3 = row(&times, (Mode::Lv3, 500_000, 8), 100.0);
        assert_eq!((lv3.ran_on, lv3.goal.reached), (1, Some(false)));
        assert_eq!(row(&times, (GATE, 500_000, 8), 100.0).goal.reached, Some(true));
    }

    #[test]
    fn every_combination_has_its_row_and_nothing_runs_under_an_interrupt() {
        let plan = Plan {
            commands_ns: vec![500_000],
            modes: vec![Mode::Lv1, GATE, Mode::Lv3],
            thresholds: vec![8, 16],
            samples: 3,
        };
        let outcome = run(&Host::open().unwrap(), &plan, &Pace::free()).unwrap();
        let rows: Vec<_> = outcome.rows.iter().map(|row| (row.level, row.threshold)).collect();
        assert_eq!(rows, [(1, 8), (2, 8), (2, 16), (3, 8), (3, 16)]);
        assert!(outcome.rows.iter().all(|row| row.quiet.samples == 3 && row.ran_on == 0));
        assert!(!outcome.missed(), "with 3 samples there is no verdict");
    }
}
