//! Kernels for AMD GPUs that check their results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_hal_hip::HipApi;
use xsched_hal_stream::{ClockProbe, StreamApi, StreamCommand, enough_work};

use super::interruptible::Side;
use super::load::{CheckedCounts, Kind, Load, Share, Worker};
use crate::device::clocks::DeviceClock;
use crate::device::{LabError, Victim};
use crate::kernels::RawStream;
use crate::kernels::{SideCalls, WorkKernels, WorkMemory};
use crate::stats::ns_of;

/// Workgroups that fill a compute unit, which has room for 2,048 work-items.
const PER_UNIT: u32 = 8;
/// Workgroups for a compute unit if they use half of its local memory each, or all have to be there
/// at once, with room to spare.
const FEW_PER_UNIT: u32 = 2;
/// A launch shows how long a round takes if it takes this time, or has `ROUNDS_MAX` rounds.
const MEASURABLE: Duration = Duration::from_millis(2);
/// See above.
const ROUNDS_MAX: u64 = 1 << 20;
/// Rounds of a command, at least, so that it can be stopped between two.
const ROUNDS_MIN: u64 = 4;
/// Longest time until what kernels write is seen.
const SEEN: Duration = Duration::from_micros(200);
/// Undisturbed launches whose results have to be the same.
const REFERENCES: u32 = 3;

/// Commands for one queue, and what they write.
#[derive(Debug)]
pub(crate) struct HipWorker {
    command: StreamCommand<HipApi>,
    memory: WorkMemory,
    /// Sums before the first command, and what each command adds.
    base: (u64, u64),
    each: u64,
    probe: ClockProbe<HipApi>,
    origin: Instant,
    /// As read when the commands were last quiet.
    clock: Option<DeviceClock>,
    armed_ns: u64,
    pace: WorkPace,
}

/// Returns the workgroups for a share of a device with this number of compute units.
fn blocks(kind: Kind, share: Share, units: u32) -> u32 {
    let per_unit = match kind {
        Kind::Lds | Kind::Meeting | Kind::Cooperative => FEW_PER_UNIT,
        _ => PER_UNIT,
    };
    match share {
        Share::One => 1,
        Share::Half => (units / 2).max(1) * per_unit,
        Share::Full => units.max(1) * per_unit,
    }
}

impl HipWorker {
    /// Makes commands, measures how long they take, and runs some of them undisturbed. The device
    /// has to be idle.
    pub(crate) fn new(
        api: &Arc<HipApi>,
        kernels: &WorkKernels,
        load: Load,
    ) -> Result<Self, LabError> {
        let Load { kind, share, ns } = load;
        let memory = WorkMemory::new(api, blocks(kind, share, api.about().units));
        let memory = memory.map_err(LabError::new)?;
        let command = |rounds: u64| {
            let kernel = match kind {
                Kind::Meeting => kernels.kernel(Kind::Cooperative.name(), rounds, &memory),
                Kind::Cooperative => kernels.cooperative(kind.name(), rounds, &memory),
                _ => kernels.kernel(kind.name(), rounds, &memory),
            };
            let kernel = kernel.ok_or_else(|| LabError::new(format!("no kernel of {kind}")))?;
            Ok::<_, LabError>(StreamCommand::native(kernel))
        };
        let mut stream = RawStream::new(Arc::clone(api), None).map_err(LabError::new)?;
        let mut run = |command: &StreamCommand<HipApi>| {
            let start = Instant::now();
            stream.launch(command).and_then(|()| stream.wait()).map_err(LabError::new)?;
            Ok::<_, LabError>(start.elapsed())
        };
        let pace = WorkPace::measure(ns, |rounds| run(&command(rounds)?))?;
        let command = command(pace.rounds)?;
        let each = reference(&memory, || run(&command).map(|_| ()))?;
        let probe = ClockProbe::new(Arc::clone(api)).map_err(LabError::new)?;
        let (base, origin) = (memory.sums(), Instant::now());
        Ok(Self { command, memory, base, each, probe, origin, clock: None, armed_ns: 0, pace })
    }

    fn host_ns(clock: &DeviceClock, device_ns: u64) -> u64 {
        u64::try_from(clock.host_ns(device_ns)).unwrap_or(0)
    }
}

/// Rounds of a command, and what one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkPace {
    rounds: u64,
    round: Duration,
}

impl WorkPace {
    /// For commands of `ns` nanoseconds on a device where `run` says how long rounds take. It
    /// begins with one round: where instructions are interpreted that may take a tenth of a second.
    fn measure(
        ns: u64,
        mut run: impl FnMut(u64) -> Result<Duration, LabError>,
    ) -> Result<Self, LabError> {
        // The first brings the code and the clock up.
        run(1)?;
        let (rounds, took) = enough_work((1, ROUNDS_MAX), MEASURABLE, run)?;
        let took_ns = took.as_nanos().max(1);
        let wanted = u128::from(ns) * u128::from(rounds) / took_ns;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).max(ROUNDS_MIN);
        let round_ns = u64::try_from(took_ns / u128::from(rounds)).unwrap_or(u64::MAX);
        Ok(Self { rounds: wanted, round: Duration::from_nanos(round_ns) })
    }

    /// Returns the time that a command takes, in nanoseconds.
    fn command_ns(self) -> u64 {
        ns_of(self.round).saturating_mul(self.rounds)
    }
}

/// Returns what each undisturbed run adds to the sum.
fn reference(
    memory: &WorkMemory,
    mut run: impl FnMut() -> Result<(), LabError>,
) -> Result<u64, LabError> {
    let mut each = None;
    for _ in 0..REFERENCES {
        let (before, done) = memory.sums();
        run()?;
        let (after, all) = memory.sums();
        let added = after.wrapping_sub(before);
        if all.wrapping_sub(done) != u64::from(memory.blocks()) {
            return Err(LabError::new("a kernel ended and not all of its workgroups had"));
        }
        if *each.get_or_insert(added) != added {
            return Err(LabError::new("undisturbed kernels have different results"));
        }
    }
    Ok(each.unwrap_or_default())
}

impl Victim for HipWorker {
    type Command = StreamCommand<HipApi>;

    fn next(&mut self) -> StreamCommand<HipApi> {
        self.command.clone()
    }

    fn is_longer(&self) -> bool {
        true
    }

    fn marks(&self) -> u64 {
        self.memory.last_ns()
    }

    /// The kernels write about once in a microsecond that they run, so silence is enough.
    fn is_inside(&self) -> bool {
        false
    }

    /// The kernels write once in a round, which is seen microseconds later.
    fn settled(&self) -> Duration {
        SEEN.max(self.pace.round * 2)
    }

    fn now_ns(&self) -> u64 {
        ns_of(self.origin.elapsed())
    }

    fn last_ns(&mut self) -> Result<(u64, u64), LabError> {
        let last = self.memory.last_ns();
        let clock = DeviceClock::estimate(&mut self.probe, self.origin)?;
        self.clock = Some(clock);
        Ok((Self::host_ns(&clock, last), clock.uncertain_ns))
    }

    fn arm(&mut self) {
        self.armed_ns = self.memory.last_ns();
    }

    fn first_ns(&mut self) -> Option<u64> {
        let first = self.memory.first_after(self.armed_ns)?;
        self.clock.map(|clock| Self::host_ns(&clock, first))
    }
}

impl Worker for HipWorker {
    /// The sum does not tell which commands were wrong, so it is one if any was.
    fn sums(&mut self) -> Result<CheckedCounts, LabError> {
        let (sum, blocks) = self.memory.sums();
        let finished = blocks.wrapping_sub(self.base.1) / u64::from(self.memory.blocks());
        let expected = self.base.0.wrapping_add(self.each.wrapping_mul(finished));
        Ok(CheckedCounts { finished, wrong: u64::from(sum != expected) })
    }

    fn command_ns(&self) -> u64 {
        self.pace.command_ns()
    }
}

impl Side for SideCalls {
    fn allocate(&mut self) -> Result<(), LabError> {
        Self::allocate(self).map_err(LabError::new)
    }

    fn copy(&mut self) -> Result<(), LabError> {
        Self::copy(self).map_err(LabError::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pace of a device on which a launch and a round take these times, for commands of
    /// 2 ms, and how long it took to find out.
    fn modelled(launch_ns: u64, round_ns: u64) -> (WorkPace, Duration) {
        let mut passed = Duration::ZERO;
        let pace = WorkPace::measure(2_000_000, |rounds| {
            let took = Duration::from_nanos(launch_ns + rounds * round_ns);
            passed += took;
            Ok(took)
        });
        (pace.unwrap(), passed)
    }

    #[test]
    fn a_gpu_and_a_device_that_is_100000_times_slower_are_measured_in_bounded_time() {
        let (gpu, took) = modelled(20_000, 1_000);
        assert!((1_900..=2_000).contains(&gpu.rounds), "{gpu:?}");
        assert!((1_900_000..=2_100_000).contains(&gpu.command_ns()), "{gpu:?}");
        assert!(took < Duration::from_millis(50), "{took:?}");

        let (slow, took) = modelled(2_000_000_000, 100_000_000);
        assert_eq!(slow.rounds, ROUNDS_MIN, "no command is shorter than that");
        assert!(took < Duration::from_secs(7), "three launches of one round: {took:?}");
        let (slow, took) = modelled(1_000_000, 100_000_000);
        assert!((4_000_000..500_000_000).contains(&slow.command_ns()), "{slow:?}");
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn shares_of_an_mi308x() {
        assert_eq!(blocks(Kind::Alu, Share::One, 80), 1);
        assert_eq!(blocks(Kind::Alu, Share::Half, 80), 320);
        assert_eq!(blocks(Kind::Mfma, Share::Full, 80), 640);
        assert_eq!(blocks(Kind::Cooperative, Share::Full, 80), 160);
        assert_eq!(blocks(Kind::Lds, Share::Half, 1), 2);
    }
}
