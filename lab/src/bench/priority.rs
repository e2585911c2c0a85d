//! Fixed priority (row 7.2.1 of the XSched paper): how long a foreground task takes beside a
//! background that is always busy.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime};
use xsched_core::rng::SplitMix64;

use crate::device::foreground::Foreground;
use crate::device::mode::Mode;
use crate::device::processes::{BackgroundProcess, Launcher, Request};
use crate::device::task::{Background, LaunchPath, Runner};
use crate::device::{BenchDevice, Described, LabError};
use crate::pace::Pace;
use crate::stats::{Processor, Quantiles};

/// Where the pauses follow from.
pub(crate) const SEED: u64 = 1;
/// Time in which the background fills the device, before the first sample.
const SETTLE: Duration = Duration::from_millis(30);
/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The foreground task.
    pub(crate) foreground: Foreground,
    /// Device times of the background's commands, in nanoseconds.
    pub(crate) background_ns: Vec<u64>,
    /// Waves of blocks of the background's commands.
    pub(crate) waves: Vec<u32>,
    /// Commands that the background keeps in flight.
    pub(crate) threshold: u32,
    /// How the two are kept apart.
    pub(crate) modes: Vec<Mode>,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// How the two were kept apart.
    pub(crate) mode: Mode,
    /// Device time of the background's commands, in nanoseconds.
    pub(crate) background_ns: u64,
    /// Waves of the background's commands.
    pub(crate) waves: u32,
    /// The foreground's runs.
    pub(crate) foreground: Quantiles,
    /// The 99th percentile over that of the task alone, without XSched.
    pub(crate) p99_over_alone: Option<f64>,
    /// Device time of the background over the time that passed.
    pub(crate) background_share: f64,
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
    /// Where the pauses followed from.
    pub(crate) seed: u64,
    /// The foreground alone, on a plain stream.
    pub(crate) alone: Quantiles,
    /// The foreground alone, through an XQueue.
    pub(crate) alone_queue: Quantiles,
    /// Each combination.
    pub(crate) cells: Vec<Cell>,
}

/// Runs all combinations. `launcher` makes the command lines of backgrounds in processes of their
/// own; `pace` is told the share that is done.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    launcher: Launcher<'_>,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let mut random = SplitMix64::new(SEED);
    let total = plan.background_ns.len() * plan.waves.len() * plan.modes.len();
    // As many parts as there are combinations, and two for the task alone.
    let part = |done: usize| (done + 2) as f64 / (total + 2) as f64;
    let mut alone = |way| -> Result<Quantiles, LabError> {
        let mut runner = Runner::new(bench, &device, way)?;
        let on = (pace, part(0));
        let times = plan.foreground.measure(bench, &mut runner, &mut random, None, on)?;
        Ok(Quantiles::of(&times))
    };
    let plain = alone(LaunchPath::Plain { urgent: false })?;
    let queue = alone(Mode::Lv1.ways(plan.threshold).0)?;

    let mut cells = Vec::with_capacity(total);
    for &waves in &plan.waves {
        for &background_ns in &plan.background_ns {
            for &mode in &plan.modes {
                let on = (pace, part(cells.len() + 1));
                let of = (mode, background_ns, waves);
                let mut cell = cell(bench, &device, plan, (launcher, on), of)?;
                cell.p99_over_alone = cell.foreground.p99_over(&plain);
                cells.push(cell);
                pace.show(part(cells.len()));
            }
        }
    }
    Ok(Results {
        device: bench.describe(),
        plan: plan.clone(),
        seed: SEED,
        alone: plain,
        alone_queue: queue,
        cells,
    })
}

/// The time of the bench, and with which share of it something ends.
type Share<'a> = (&'a Pace<'a>, f64);

fn cell<B: BenchDevice>(
    bench: &B,
    device: &Device<B::Backend>,
    plan: &Plan,
    (launcher, on): (Launcher<'_>, Share<'_>),
    (mode, command_ns, waves): (Mode, u64, u32),
) -> Result<Cell, LabError> {
    let combination = (mode, command_ns, waves);
    let Mode::Processes(apart) = mode else {
        return beside(bench, device, (plan, on), combination);
    };
    let (page, threshold) = (PathBuf::new(), plan.threshold);
    let request = Request { page, apart, command_ns, waves, threshold };
    let victim = BackgroundProcess::start(launcher, request)?;
    beside_process(bench, device, (plan, on), combination, victim)
}

/// Both tasks at once, in this process.
fn beside<B: BenchDevice>(
    bench: &B,
    device: &Device<B::Backend>,
    (plan, on): (&Plan, Share<'_>),
    (mode, background_ns, waves): (Mode, u64, u32),
) -> Result<Cell, LabError> {
    let (fore, back) = mode.ways(plan.threshold);
    let mut foreground = Runner::new(bench, device, fore)?;
    let mut runner = Runner::new(bench, device, back)?;
    let command = bench.command(background_ns, waves)?;
    let background = Background::default();
    thread::scope(|scope| {
        let busy = scope.spawn(|| background.run(&mut runner, &command, plan.threshold));
        let measured = measure(bench, (plan, on), &mut foreground, None, || background.commands());
        background.stop();
        let ended = busy.join().map_err(|_| LabError::new("the background panicked"))?;
        ended?;
        Ok(measured?.cell(mode, background_ns, waves))
    })
}

/// The background in another process.
fn beside_process<B: BenchDevice>(
    bench: &B,
    device: &Device<B::Backend>,
    (plan, on): (&Plan, Share<'_>),
    (mode, background_ns, waves): (Mode, u64, u32),
    victim: BackgroundProcess,
) -> Result<Cell, LabError> {
    let mut foreground = Runner::new(bench, device, mode.ways(plan.threshold).0)?;
    let launched = || u64::from(victim.commands());
    let measured = measure(bench, (plan, on), &mut foreground, Some(&victim), launched);
    victim.end()?;
    Ok(measured?.cell(mode, background_ns, waves))
}

/// Figures that were measured beside a background.
struct Measured {
    foreground: Quantiles,
    /// Commands of the background, per second.
    rate: f64,
    processors: f64,
}

impl Measured {
    fn cell(self, mode: Mode, background_ns: u64, waves: u32) -> Cell {
        Cell {
            mode,
            background_ns,
            waves,
            foreground: self.foreground,
            p99_over_alone: None,
            background_share: self.rate * background_ns as f64 / 1e9,
            processors: self.processors,
        }
    }
}

fn measure<B: BenchDevice>(
    bench: &B,
    (plan, on): (&Plan, Share<'_>),
    foreground: &mut Runner<B>,
    victim: Option<&BackgroundProcess>,
    launched: impl Fn() -> u64,
) -> Result<Measured, LabError> {
    thread::sleep(SETTLE);
    let (start, before) = (Instant::now(), launched());
    let processor = Processor::now();
    let mut random = SplitMix64::new(SEED);
    let times = plan.foreground.measure(bench, foreground, &mut random, victim, on)?;
    let commands = launched().wrapping_sub(before) & u64::from(u32::MAX);
    let rate = commands as f64 / start.elapsed().as_secs_f64();
    let processors = Processor::now().share_since(&processor);
    Ok(Measured { foreground: Quantiles::of(&times), rate, processors })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;

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
            modes: vec![Mode::Plain, Mode::Lv1, Mode::Gate { spacing_us: 0 }, Mode::Lv3],
        };
        let nowhere = |_: &Request| Err(std::io::Error::other("not asked for"));
        let outcome = run(&Host::open().unwrap(), &plan, &nowhere, &Pace::free()).unwrap();
        assert_eq!(outcome.cells.len(), 4);
        let [plain, lv3] = [0, 3].map(|n| outcome.cells[n].foreground.p50_us);
        assert!(lv3 < plain, "{plain} {lv3}");
        assert!(outcome.cells.iter().all(|cell| cell.background_share > 0.0));
    }
}
