//! Costs of the runtime (rows 7.4.1 and 7.4.2 of the XSched paper): the time of commands in a
//! row, of a lone tiny command, and of the processor.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime};

use crate::device::mode::{Mode, SPACING_US};
use crate::device::task::{LaunchPath, Runner};
use crate::device::{BenchDevice, Described, LabError};
use crate::pace::Pace;
use crate::stats::{Processor, Quantiles};

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Device times of commands, in nanoseconds.
    pub(crate) commands_ns: Vec<u64>,
    /// Device time of a row of commands, in nanoseconds.
    pub(crate) row_ns: u64,
    /// Rows for each, taken in turns, of which the median counts.
    pub(crate) rounds: u32,
    /// Lone tiny commands.
    pub(crate) lone: u32,
    /// Commands in flight.
    pub(crate) threshold: u32,
    /// Commands per fence.
    pub(crate) batch: u32,
}

/// The ways that a device has.
fn modes(level: u8) -> Vec<Mode> {
    let all = [
        Mode::Plain,
        Mode::Lv1,
        Mode::Gate { spacing_us: 0 },
        Mode::Gate { spacing_us: SPACING_US },
        Mode::Lv3,
    ];
    all.into_iter().filter(|mode| mode.level() <= level).collect()
}

fn way(mode: Mode, plan: &Plan) -> LaunchPath {
    let making = mode.making(false);
    match mode {
        Mode::Plain => LaunchPath::Plain { urgent: false },
        _ => {
            LaunchPath::Queue { making, priority: 0, threshold: plan.threshold, batch: plan.batch }
        }
    }
}

/// Commands in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// How they reached the device.
    pub(crate) mode: Mode,
    /// Device time of a command, in nanoseconds.
    pub(crate) command_ns: u64,
    /// How many there are.
    pub(crate) commands: u32,
    /// The row's time.
    pub(crate) row: Quantiles,
    /// Median over the median of the plain stream, less 1.
    pub(crate) overhead: f64,
    /// Processors in use.
    pub(crate) processors: f64,
}

/// Lone tiny commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lone {
    /// How they reached the device.
    pub(crate) mode: Mode,
    /// From the launch to the end of the wait.
    pub(crate) time: Quantiles,
    /// Median less the median of the plain stream, in microseconds.
    pub(crate) added_us: f64,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Commands in a row.
    pub(crate) rows: Vec<Row>,
    /// Lone tiny commands.
    pub(crate) lone: Vec<Lone>,
    /// Processors in use by a runtime with queues that have nothing to do.
    pub(crate) idle_processors: f64,
}

/// On a slow device a row of commands takes no longer, unless it is of two.
const ROW_MAX: Duration = Duration::from_secs(1);
/// Time for which the runtime with its queues is left idle.
const IDLE: Duration = Duration::from_secs(2);

/// Runs everything. `pace` is told the share that is done.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let described = bench.describe();
    let modes = modes(described.level);
    let mut rows = Vec::new();
    for (n, &command_ns) in plan.commands_ns.iter().enumerate() {
        let part = (n + 1) as f64 / (plan.commands_ns.len() + 1) as f64;
        rows.extend(row(bench, &device, plan, (&modes, command_ns), (pace, part))?);
        pace.show(part);
    }
    let lone = lone(bench, &device, plan, &modes, pace)?;
    let _queues: Vec<_> = modes
        .iter()
        .map(|mode| Runner::new(bench, &device, way(*mode, plan)))
        .collect::<Result<_, _>>()?;
    let before = Processor::now();
    thread::sleep(IDLE);
    let idle_processors = Processor::now().share_since(&before);
    Ok(Results { device: described, plan: plan.clone(), rows, lone, idle_processors })
}

/// Commands that take no longer than `ROW_MAX` if one takes `one`.
pub(crate) fn affordable(one: Duration) -> u32 {
    let count = ROW_MAX.as_nanos() / one.as_nanos().max(1);
    u32::try_from(count).unwrap_or(u32::MAX).max(2)
}

/// Commands of one length in a row, in all modes by turns, so that a drift of the clock hits all.
pub(crate) fn row<B: BenchDevice>(
    bench: &B,
    device: &Device<B::Backend>,
    plan: &Plan,
    (modes, command_ns): (&[Mode], u64),
    (pace, part): (&Pace<'_>, f64),
) -> Result<Vec<Row>, LabError> {
    let command = bench.command(command_ns, 1)?;
    let commands = u32::try_from(plan.row_ns / command_ns.max(1)).unwrap_or(u32::MAX).max(1);
    let mut runners: Vec<Runner<B>> = modes
        .iter()
        .map(|mode| Runner::new(bench, device, way(*mode, plan)))
        .collect::<Result<_, _>>()?;
    // On a slow device there are fewer.
    let one = runners.iter_mut().next().map(|runner| runner.run(&command, 1)).transpose()?;
    let commands = commands.min(affordable(one.unwrap_or_default()));
    let mut times: Vec<Vec<u64>> = vec![Vec::new(); modes.len()];
    let mut used = vec![0.0; modes.len()];
    for round in 0..=plan.rounds {
        if !pace.wants_more(times.first().map_or(0, Vec::len), part) {
            break;
        }
        for (n, runner) in runners.iter_mut().enumerate() {
            let before = Processor::now();
            let took = runner.run(&command, commands)?;
            // The first is for warming up.
            if round > 0 {
                times[n].push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                used[n] += Processor::now().share_since(&before);
            }
        }
    }
    let medians: Vec<Quantiles> = times.iter().map(|times| Quantiles::of(times)).collect();
    let plain = medians[0].p50_us.max(f64::MIN_POSITIVE);
    let rows = modes.iter().zip(medians).zip(used);
    let row = |((&mode, row), processors): ((&Mode, Quantiles), f64)| {
        let overhead = row.p50_us / plain - 1.0;
        let processors = processors / row.samples.max(1) as f64;
        Row { mode, command_ns, commands, row, overhead, processors }
    };
    Ok(rows.map(row).collect())
}

/// Lone tiny commands, in all modes by turns.
fn lone<B: BenchDevice>(
    bench: &B,
    device: &Device<B::Backend>,
    plan: &Plan,
    modes: &[Mode],
    pace: &Pace<'_>,
) -> Result<Vec<Lone>, LabError> {
    let nothing = bench.nothing();
    let mut runners: Vec<Runner<B>> = modes
        .iter()
        .map(|mode| Runner::new(bench, device, way(*mode, plan)))
        .collect::<Result<_, _>>()?;
    let mut times = vec![Vec::new(); modes.len()];
    let start = Instant::now();
    for n in 0..plan.lone {
        for (runner, times) in runners.iter_mut().zip(&mut times) {
            let took = runner.run(&nothing, 1)?;
            times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        // A device that takes milliseconds for each says what it has to say sooner.
        let slow = n >= 100 && start.elapsed() > Duration::from_secs(20);
        if slow || !pace.wants_more(n as usize, 1.0) {
            break;
        }
    }
    let medians: Vec<Quantiles> = times.iter().map(|times| Quantiles::of(times)).collect();
    let plain = medians[0].p50_us;
    let lone =
        |(&mode, time): (&Mode, Quantiles)| Lone { mode, time, added_us: time.p50_us - plain };
    Ok(modes.iter().zip(medians).map(lone).collect())
}
