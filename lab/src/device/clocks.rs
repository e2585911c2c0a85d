//! The device's clock in terms of the host's.

use std::time::{Duration, Instant};

use xsched_hal_stream::{ClockProbe, ClockRead, SpinApi};

use crate::device::LabError;

/// Readings of an estimate: few at first, since each may take long, then more.
const FEW_READS: usize = 4;
/// See above.
const READS: usize = 24;
/// Error in nanoseconds above which an estimate is made again, up to `TRIES` times: the system may
/// have had the thread wait.
const GOOD_NS: u64 = 5_000;
/// See above.
const TRIES: usize = 4;
/// On a device that takes longer to read its clock it is as good as it gets.
const TRIES_TIME: Duration = Duration::from_millis(20);

/// Where the device's clock stands beside the host's. The two drift apart by some tens of
/// microseconds in a second, so it is good for some milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceClock {
    /// The device's clock less the host's, in nanoseconds.
    offset_ns: i128,
    /// The most by which `offset_ns` can be wrong, in nanoseconds.
    pub(crate) uncertain_ns: u64,
    /// Steps in which the device's clock goes, in nanoseconds, as far as can be told.
    pub(crate) step_ns: u64,
}

/// Times of a [`ClockRead`], in numbers.
#[derive(Clone, Copy, Debug)]
struct Read {
    before_ns: i128,
    after_ns: i128,
    device_ns: i128,
}

impl DeviceClock {
    /// Reads both clocks, which takes about 80 µs and room on the device for one thread. The
    /// host's nanoseconds count from `origin`.
    pub(crate) fn estimate<A: SpinApi>(
        probe: &mut ClockProbe<A>,
        origin: Instant,
    ) -> Result<Self, LabError> {
        let began = Instant::now();
        let mut best = Self::once(probe, origin, FEW_READS)?;
        for _ in 0..TRIES {
            if began.elapsed() > TRIES_TIME {
                break;
            }
            let again = Self::once(probe, origin, READS)?;
            if again.uncertain_ns < best.uncertain_ns {
                best = again;
            }
            if best.uncertain_ns <= GOOD_NS {
                break;
            }
        }
        Ok(best)
    }

    fn once<A: SpinApi>(
        probe: &mut ClockProbe<A>,
        origin: Instant,
        count: usize,
    ) -> Result<Self, LabError> {
        let reads = probe.read(count).map_err(LabError::new)?;
        let since = |at: Instant| at.saturating_duration_since(origin).as_nanos() as i128;
        let read = |read: &ClockRead| Read {
            before_ns: since(read.before),
            after_ns: since(read.after),
            device_ns: i128::from(read.device_ns),
        };
        let reads: Vec<Read> = reads.iter().map(read).collect();
        Self::of(&reads).ok_or_else(|| LabError::new("the device's clock was not read"))
    }

    /// Each reading says between which two values the difference is; all of them together say it
    /// more closely.
    fn of(reads: &[Read]) -> Option<Self> {
        let first = reads.first()?.device_ns;
        let apart = reads.iter().map(|read| (read.device_ns - first).unsigned_abs());
        let step = apart.fold(0, divisor).max(1);
        let step = i128::try_from(step).ok()?;
        let least = reads.iter().map(|read| read.device_ns - read.after_ns).max()?;
        // It shows what it showed at its last step.
        let most = reads.iter().map(|read| read.device_ns + step - read.before_ns).min()?;
        Some(Self {
            offset_ns: i128::midpoint(least, most),
            uncertain_ns: u64::try_from((most - least).abs() / 2 + 1).ok()?,
            step_ns: u64::try_from(step).ok()?,
        })
    }

    /// When the device's clock showed this, in nanoseconds of the host from the origin.
    pub(crate) fn host_ns(&self, device_ns: u64) -> i64 {
        i64::try_from(i128::from(device_ns) - self.offset_ns).unwrap_or(i64::MAX)
    }
}

/// The greatest common divisor.
fn divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of a clock that is `ahead` and goes in steps, with odd delays on both ways.
    fn reads(ahead: i128, step: i128) -> Vec<Read> {
        let read = |n: i128| {
            let before_ns = 10_000 + n * 2_713;
            let seen_at = before_ns + 600 + n * 7 % 41 * 10;
            let after_ns = seen_at + 700 + n * 11 % 37 * 10;
            Read { before_ns, after_ns, device_ns: (seen_at + ahead) / step * step }
        };
        (0..24).map(read).collect()
    }

    #[test]
    fn the_difference_is_found_to_within_what_is_said() {
        for step in [1, 32, 1_000] {
            for ahead in [0, 1_763_750_000_000_000_123] {
                let clock = DeviceClock::of(&reads(ahead, step)).unwrap();
                let off = (clock.offset_ns - ahead).unsigned_abs();
                assert!(off <= u128::from(clock.uncertain_ns), "{clock:?} {ahead}");
                assert!(clock.uncertain_ns <= 700 + step.unsigned_abs() as u64, "{clock:?}");
                assert_eq!(u128::from(clock.step_ns), step.unsigned_abs(), "{clock:?}");
            }
        }
    }

    #[test]
    fn a_moment_of_the_device_is_one_of_the_host() {
        let clock = DeviceClock { offset_ns: 1_000, uncertain_ns: 1, step_ns: 1 };
        assert_eq!((clock.host_ns(1_500), clock.host_ns(400)), (500, -600));
        assert_eq!(DeviceClock::of(&[]), None);
    }
}
