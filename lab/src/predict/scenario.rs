//! The scenarios that stand for what the benches run.

use xsched_sim::scenario::{Arrival, DeviceSpec, Dist, Scenario, TaskSpec};

use crate::device::foreground::Foreground;
use crate::device::task::LaunchPath;

/// Where the pauses of the simulated tasks follow from.
const SEED: u64 = 1;
/// Time from the background's beginning to the first task's, in nanoseconds, as on the device.
const SETTLE_NS: u64 = 30_000_000;
/// Before anything counts in a partition, in nanoseconds.
const WARM_UP_NS: u64 = 300_000_000;
/// Entries that an XQueue has room for, as in the runtime's defaults.
const CAPACITY: u32 = 1_024;
/// A policy that holds no queue, for streams past XSched.
pub(crate) const NO_POLICY: &str = "fcfs";

/// A task that is always busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endless {
    /// How it reaches the device.
    pub(crate) way: LaunchPath,
    /// Device time of its commands, in nanoseconds.
    pub(crate) command_ns: u64,
    /// Waves of the commands.
    pub(crate) waves: u32,
    /// Commands that it keeps in flight past XSched.
    pub(crate) threshold: u32,
    /// Part of the device in percent.
    pub(crate) percent: Option<u8>,
}

/// A task that runs again and again, with pauses, beside one that is always busy.
pub(crate) fn beside(
    device: &DeviceSpec,
    (foreground, way): (Foreground, LaunchPath),
    background: Option<Endless>,
) -> Scenario {
    let (least, most) = foreground.pause_ns;
    let mut task = task("task", way, foreground.commands, foreground.commands);
    task.start_ns = SETTLE_NS;
    let think = Dist::Uniform { min_ns: least, max_ns: most.max(least) };
    task.arrival = Arrival::Closed { think, jitter_ns: 0 };
    // The first comes without a pause and does not count.
    task.requests = Some(u64::from(foreground.samples) + 1);
    task.command = Dist::Constant(foreground.command_ns.max(1));
    let background = background.map(|background| endless("background", background));
    let mut spec = device.clone();
    if let Some((_, spacing_ns)) = &background {
        spec.gate_spacing_ns = *spacing_ns;
    }
    let tasks = std::iter::once(task).chain(background.map(|(task, _)| task)).collect();
    Scenario { warmup_ns: SETTLE_NS + 1, ..scenario(spec, tasks) }
}

/// A task that is always busy and one that holds it `holds` times, at random moments, each time
/// until all that is in flight has run. Both run at once on a device that is not disturbed by that.
pub(crate) fn holder(device: &DeviceSpec, victim: Endless, holds: u32) -> Scenario {
    let command_ns = victim.command_ns.max(1);
    let (victim, spacing_ns) = endless("victim", victim);
    let mut holder = plain_task("holder", 1);
    holder.priority = 1;
    holder.start_ns = SETTLE_NS;
    holder.arrival = Arrival::Closed {
        think: Dist::Uniform { min_ns: 2 * command_ns, max_ns: 4 * command_ns },
        jitter_ns: 0,
    };
    holder.requests = Some(u64::from(holds));
    let in_flight = u64::from(victim.threshold) + 1;
    holder.command = Dist::Constant(command_ns * in_flight + SETTLE_NS);
    let device = DeviceSpec { gate_spacing_ns: spacing_ns, ..device.clone() };
    scenario(device, vec![victim, holder])
}

/// Tasks that are always busy, for this time, under this policy.
pub(crate) fn busy(
    device: &DeviceSpec,
    policy: &str,
    tasks: &[Endless],
    measured_ns: u64,
) -> Scenario {
    let mut spec = device.clone();
    let mut specs = Vec::with_capacity(tasks.len());
    for (n, &one) in tasks.iter().enumerate() {
        let (task, spacing_ns) = endless(&format!("task-{}", n + 1), one);
        spec.gate_spacing_ns = spacing_ns;
        specs.push(task);
    }
    let duration_ns = Some(WARM_UP_NS + measured_ns);
    Scenario { policy: policy.to_owned(), duration_ns, ..scenario(spec, specs) }
}

fn endless(name: &str, endless: Endless) -> (TaskSpec, u64) {
    // One request that never ends: only the full queue blocks the submitter.
    let mut task = task(name, endless.way, u32::MAX, endless.threshold);
    task.command = Dist::Constant(endless.command_ns.max(1));
    task.waves = endless.waves;
    task.share = endless.percent;
    task.weight = u32::from(endless.percent.unwrap_or(1).max(1));
    let spacing_ns = match endless.way {
        LaunchPath::Plain { .. } => 0,
        LaunchPath::Queue { making, .. } => making.spacing_ns,
    };
    (task, spacing_ns)
}

/// A task that makes one request of `commands` commands after the other.
fn task(name: &str, way: LaunchPath, commands: u32, in_flight: u32) -> TaskSpec {
    let in_flight = in_flight.max(1);
    let base = TaskSpec { commands: commands.max(1), ..plain_task(name, in_flight) };
    match way {
        LaunchPath::Plain { urgent } => TaskSpec { urgent_stream: urgent, ..base },
        LaunchPath::Queue { making, priority, threshold, batch } => TaskSpec {
            urgent_stream: making.urgent,
            threshold: threshold.max(1),
            batch: batch.clamp(1, threshold.max(1)),
            capacity: CAPACITY.max(threshold),
            level: Some(making.level),
            priority: i16::try_from(priority).unwrap_or_default(),
            ..base
        },
    }
}

/// A task past XSched, which waits for nothing but the end, or for room.
fn plain_task(name: &str, in_flight: u32) -> TaskSpec {
    TaskSpec {
        commands: 1,
        command: Dist::Constant(1),
        threshold: in_flight,
        batch: 1,
        capacity: in_flight,
        level: Some(1),
        ..TaskSpec::named(name)
    }
}

fn scenario(device: DeviceSpec, tasks: Vec<TaskSpec>) -> Scenario {
    // The reporting thread runs the policy, and the built-in ones are quick.
    let plain = Scenario::plain("bench", vec![device], tasks);
    Scenario { seed: SEED, policy: NO_POLICY.to_owned(), ..plain }
}
