//! Fixed priority (row 7.2.1 of the XSched paper): how long a foreground task takes beside a
//! background that is always busy.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use xsched::core::level::Level;
use xsched::core::rng::SplitMix64;
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime};

use crate::bench::{Bench, Described, LabError, Making};
use crate::stats::{Processor, Quantiles};
use crate::task::{Background, Foreground, Runner, Way};

/// Where the pauses follow from.
pub const SEED: u64 = 1;
/// The background is given so long to fill the device.
const SETTLE: Duration = Duration::from_millis(30);
/// Priorities of the two tasks.
const PRIORITIES: (i32, i32) = (10, 0);
/// What the foreground may have in flight, in commands.
const FOREGROUND_WINDOW: u32 = 64;

/// How the two tasks are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Two plain streams.
    Plain,
    /// Two plain streams, one with the most urgent priority.
    Priority,
    /// XSched at Lv1.
    Lv1,
    /// XSched at Lv2 with a gate for each command.
    Gate,
    /// XSched at Lv2 with gates at the default spacing.
    Spaced,
    /// XSched at Lv2 with a gate for each command, and stream priorities.
    GatePriority,
    /// XSched at Lv3.
    Lv3,
}

impl Mode {
    /// Those that make sense on a device, up to a level.
    #[must_use]
    pub fn of(device: &Described, level_max: u8) -> Vec<Self> {
        let modes = [
            Self::Plain,
            Self::Priority,
            Self::Lv1,
            Self::Gate,
            Self::Spaced,
            Self::GatePriority,
            Self::Lv3,
        ];
        // Neither priorities nor gates at intervals mean anything to the processor as a device.
        let for_streams = [Self::Priority, Self::Spaced, Self::GatePriority];
        let applies = |mode: &Self| {
            mode.level() <= level_max.min(device.level)
                && (device.hal != "host" || !for_streams.contains(mode))
        };
        modes.into_iter().filter(applies).collect()
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Priority => "priority",
            Self::Lv1 => "lv1",
            Self::Gate => "gate",
            Self::Spaced => "gate, spaced",
            Self::GatePriority => "gate + priority",
            Self::Lv3 => "lv3",
        }
    }

    /// The number of the level that it needs, 1 to 3.
    fn level(self) -> u8 {
        self.making(false).level
    }

    const fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::Priority)
    }

    fn making(self, urgent: bool) -> Making {
        let level = match self {
            Self::Plain | Self::Priority | Self::Lv1 => Level::Block,
            Self::Gate | Self::Spaced | Self::GatePriority => Level::Deactivate,
            Self::Lv3 => Level::Interrupt,
        };
        let spacing_ns = if self == Self::Spaced { 200_000 } else { 0 };
        Making { spacing_ns, urgent, ..Making::at(level) }
    }

    /// How the foreground and the background reach the device.
    #[must_use]
    pub fn ways(self, threshold: u32) -> (Way, Way) {
        let urgent = matches!(self, Self::Priority | Self::GatePriority);
        if self.is_plain() {
            return (Way::Plain { urgent }, Way::Plain { urgent: false });
        }
        let (high, low) = PRIORITIES;
        // Nobody holds it, so it needs no gates, which it would pay for.
        let making = Making { urgent, ..Making::at(Level::Block) };
        let foreground = Way::Queue {
            making,
            priority: high,
            threshold: FOREGROUND_WINDOW,
            batch: FOREGROUND_WINDOW / 4,
        };
        let background =
            Way::Queue { making: self.making(false), priority: low, threshold, batch: 1 };
        (foreground, background)
    }
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The foreground task.
    pub foreground: Foreground,
    /// Device times of the background's commands, in nanoseconds.
    pub background_ns: Vec<u64>,
    /// Waves of blocks of the background's commands.
    pub waves: Vec<u32>,
    /// Commands that the background keeps in flight.
    pub threshold: u32,
    /// How the two are kept apart.
    pub modes: Vec<Mode>,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// How the two were kept apart.
    pub mode: Mode,
    /// Device time of the background's commands, in nanoseconds.
    pub background_ns: u64,
    /// Their waves.
    pub waves: u32,
    /// The foreground's runs.
    pub foreground: Quantiles,
    /// Their 99th percentile over that of the task alone, without XSched.
    pub p99_over_alone: Option<f64>,
    /// Device time of the background over the time that passed.
    pub background_share: f64,
    /// Processors in use, both tasks included.
    pub processors: f64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// On what.
    pub device: Described,
    /// What was run.
    pub plan: Plan,
    /// Where the pauses followed from.
    pub seed: u64,
    /// The foreground alone, on a plain stream.
    pub alone: Quantiles,
    /// The foreground alone, through an XQueue.
    pub alone_queue: Quantiles,
    /// Each combination.
    pub cells: Vec<Cell>,
}

/// Runs all combinations. `progress` gets the share that is done.
///
/// # Errors
/// If the device or the runtime refuses, or a command fails.
pub fn run<B: Bench>(bench: &B, plan: &Plan, progress: &dyn Fn(f64)) -> Result<Outcome, LabError> {
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let mut random = SplitMix64::new(SEED);
    let mut alone = |way| -> Result<Quantiles, LabError> {
        let mut runner = Runner::new(bench, &device, way)?;
        let times = plan.foreground.measure(bench, &mut runner, &mut random)?;
        Ok(Quantiles::of(&times))
    };
    let plain = alone(Way::Plain { urgent: false })?;
    let queue = alone(Mode::Gate.ways(plan.threshold).0)?;

    let total = plan.background_ns.len() * plan.waves.len() * plan.modes.len();
    let mut cells = Vec::with_capacity(total);
    for &waves in &plan.waves {
        for &background_ns in &plan.background_ns {
            for &mode in &plan.modes {
                let mut cell = cell(bench, &device, plan, mode, (background_ns, waves))?;
                cell.p99_over_alone = cell.foreground.p99_over(&plain);
                cells.push(cell);
                progress(cells.len() as f64 / total as f64);
            }
        }
    }
    Ok(Outcome {
        device: bench.describe(),
        plan: plan.clone(),
        seed: SEED,
        alone: plain,
        alone_queue: queue,
        cells,
    })
}

/// Both tasks at once.
fn cell<B: Bench>(
    bench: &B,
    device: &Device<B::Backend>,
    plan: &Plan,
    mode: Mode,
    (background_ns, waves): (u64, u32),
) -> Result<Cell, LabError> {
    let (fore, back) = mode.ways(plan.threshold);
    let mut foreground = Runner::new(bench, device, fore)?;
    let mut runner = Runner::new(bench, device, back)?;
    let command = bench.command(background_ns, waves)?;
    let background = Background::default();
    let mut random = SplitMix64::new(SEED);
    thread::scope(|scope| {
        let busy = scope.spawn(|| background.run(&mut runner, &command, plan.threshold));
        thread::sleep(SETTLE);
        let (start, before) = (Instant::now(), background.commands());
        let processor = Processor::now();
        let times = plan.foreground.measure(bench, &mut foreground, &mut random);
        let (wall, commands) = (start.elapsed(), background.commands() - before);
        let processors = Processor::now().share_since(&processor);
        background.stop();
        let ended = busy.join().map_err(|_| LabError::new("the background panicked"))?;
        ended?;
        let share = (commands * background_ns) as f64 / 1e9 / wall.as_secs_f64();
        Ok(Cell {
            mode,
            background_ns,
            waves,
            foreground: Quantiles::of(&times?),
            p99_over_alone: None,
            background_share: share,
            processors,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    #[test]
    fn on_the_host_a_hold_helps_the_foreground() {
        let foreground = Foreground {
            commands: 4,
            command_ns: 50_000,
            pause_ns: (500_000, 1_000_000),
            samples: 40,
        };
        let plan = Plan {
            foreground,
            background_ns: vec![500_000],
            waves: vec![1],
            threshold: 8,
            modes: vec![Mode::Plain, Mode::Lv1, Mode::Gate, Mode::Lv3],
        };
        let outcome = run(&Host::open().unwrap(), &plan, &|_| {}).unwrap();
        assert_eq!(outcome.cells.len(), 4);
        let [plain, lv3] = [0, 3].map(|n| outcome.cells[n].foreground.p50_us);
        assert!(lv3 < plain, "{plain} {lv3}");
        assert!(outcome.cells.iter().all(|cell| cell.background_share > 0.0));
    }
}
