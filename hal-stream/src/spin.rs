//! Kernels of a known length, for calibrated load, and kernels that read the device's clock.

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use crate::api::{FlagMemory, StreamApi};

/// Most cycles of the kernels that the rate is measured with, on a device that is not slow.
const CYCLES_MAX: u64 = 1_000_000;
/// The longer kernels have this many times the cycles of the shorter ones.
const FEWER: u64 = 50;
/// A kernel of this length can be told from one that does nothing.
const LEAST_TIME: Duration = Duration::from_micros(500);
/// The longer kernels take at least this many times as long as one without a cycle.
const LEAST_RATIO: u32 = 3;
/// Kernels in a row: fewer if that would take longer than `ROW_TIME`.
const ROW: std::ops::RangeInclusive<u128> = 1..=30;
/// Most time of a row of kernels.
const ROW_TIME: Duration = Duration::from_millis(200);
/// The poll delay of a row.
const POLL_DELAY: Duration = Duration::from_micros(100);

/// A driver whose devices have kernels of a known length and kernels that read the clock.
pub trait SpinApi: StreamApi {
    /// A kernel with its grid and arguments.
    type Kernel: Clone + Debug + Send + Sync + 'static;

    /// A kernel as a command.
    fn native(kernel: Self::Kernel) -> Self::Native;

    /// A kernel that does nothing.
    ///
    /// # Errors
    /// If the device has no such kernels.
    fn empty_kernel(&self) -> Result<Self::Kernel, Self::Error>;

    /// Blocks that each spin for `cycles` cycles of their unit's clock. Where `stamps` is not 0,
    /// the first thread writes the device's clock there, in nanoseconds, at its start and its end.
    ///
    /// # Errors
    /// If the device has no such kernels.
    ///
    /// # Safety
    /// `stamps` is 0 or the device's address of 16 bytes that are alive until it has run.
    unsafe fn spin_kernel(
        &self,
        blocks: u32,
        threads: u32,
        cycles: u64,
        stamps: u64,
    ) -> Result<Self::Kernel, Self::Error>;

    /// Blocks that each spin for `cycles` cycles of their unit's clock, without stamps.
    ///
    /// # Errors
    /// If the device has no such kernels.
    fn unseen_kernel(
        &self,
        blocks: u32,
        threads: u32,
        cycles: u64,
    ) -> Result<Self::Kernel, Self::Error> {
        // SAFETY: without stamps.
        unsafe { self.spin_kernel(blocks, threads, cycles, 0) }
    }

    /// One thread that writes the device's clock, in nanoseconds, `rounds` times, each time it is
    /// asked to: when the first word reaches n, from 1, 56 + 8 n bytes on. It gives up after 1 s.
    ///
    /// # Errors
    /// If the device has no such kernels.
    ///
    /// # Safety
    /// `words` is the device's address of host memory of 64 bytes and 8 for each round, which is
    /// alive until it has run.
    unsafe fn clock_kernel(&self, words: u64, rounds: u64) -> Result<Self::Kernel, Self::Error>;

    /// The error for a clock that was not read within `ms` milliseconds.
    fn clock_silent(ms: u64) -> Self::Error;

    /// Host memory that the device writes 64-bit words to, as [`StreamApi::flag_memory`]; of any
    /// length, even where flags come one at a time. It is never given back.
    ///
    /// # Errors
    /// If the driver refuses.
    fn stamp_memory(&self, bytes: usize) -> Result<FlagMemory, Self::Error> {
        self.flag_memory(bytes)
    }
}

/// How the length of spin kernels depends on their cycles, on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpinRate {
    /// Cycles per nanosecond.
    pub cycles_per_ns: f64,
    /// Device time of a kernel without a cycle, in nanoseconds, in a row of such kernels.
    pub fixed_ns: f64,
}

impl SpinRate {
    /// Measures how long spin kernels take, with kernels of this many blocks and threads, which
    /// takes about 50 ms of the device, or some eighty times as long as it takes for one such
    /// kernel without a cycle, and needs it to be idle.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn measure<A: SpinApi>(api: &A, blocks: u32, threads: u32) -> Result<Self, A::Error> {
        let _entered = api.enter()?;
        let stream = api.create_stream(None)?;
        let measured =
            Self::of(|cycles, count| row_time(api, stream, Row { blocks, threads, cycles, count }));
        // SAFETY: made above, and all that was launched has ended. Nothing depends on the answer.
        let _ = unsafe { api.destroy_stream(stream) };
        measured
    }

    /// Measures a device by a function that says how long `count` kernels of `cycles` cycles take
    /// in a row.
    fn of<E>(mut row: impl FnMut(u64, u32) -> Result<Duration, E>) -> Result<Self, E> {
        row(0, 1)?;
        let nothing = row(0, 1)?;
        let is_slow = nothing >= LEAST_TIME;
        let most = if is_slow { u64::MAX } else { CYCLES_MAX };
        let wanted = LEAST_TIME.max(nothing * LEAST_RATIO);
        let (many, took) = enough_work((CYCLES_MAX / 1_000, most), wanted, |n| row(n, 1))?;
        let few = many / FEWER;
        let count = ROW_TIME.as_nanos() / took.as_nanos().max(1);
        let count = count.clamp(*ROW.start(), *ROW.end()) as u32;
        let mut mean_ns = |cycles| Ok(row(cycles, count)?.as_nanos() as f64 / f64::from(count));
        // The first brings the clock up.
        mean_ns(many)?;
        let (short, long) = (mean_ns(few)?, mean_ns(many)?);
        let cycles_per_ns = (many - few) as f64 / (long - short).max(1.0);
        Ok(Self { cycles_per_ns, fixed_ns: (short - few as f64 / cycles_per_ns).max(0.0) })
    }

    /// Cycles for a kernel that takes `ns` nanoseconds in a row of such kernels.
    #[must_use]
    pub fn cycles(&self, ns: u64) -> u64 {
        ((ns as f64 - self.fixed_ns).max(0.0) * self.cycles_per_ns) as u64
    }
}

/// Finds an amount of work that takes at least as long as `wanted`, or the most, and says how long
/// it takes: the shorter of the last two times that differ little. It starts with the least,
/// whatever the speed of the device, and grows from what that took, so that all of it takes some
/// times as long as `wanted`, or as the least amount if that takes longer.
///
/// # Errors
/// As `run`, which does the amount of work and says how long that took.
pub fn enough_work<E>(
    (least, most): (u64, u64),
    wanted: Duration,
    mut run: impl FnMut(u64) -> Result<Duration, E>,
) -> Result<(u64, Duration), E> {
    let mut amount = least.max(1);
    let mut took = run(amount)?;
    while took < wanted && amount < most {
        let times = wanted.as_nanos() / took.as_nanos().max(1) + 1;
        let times = times.clamp(GROWTH.0, GROWTH.1) as u64;
        amount = amount.saturating_mul(times).min(most);
        took = run(amount)?;
    }
    for _ in 0..REPEATS_MAX {
        let again = run(amount)?;
        let (shorter, longer) = (took.min(again), took.max(again));
        took = shorter;
        if longer - shorter <= shorter / ALIKE {
            break;
        }
    }
    Ok((amount, took))
}

/// By how much an amount of work grows at once.
const GROWTH: (u128, u128) = (2, 16);
/// The last amount is measured again until two times are alike, and at most this often.
const REPEATS_MAX: u32 = 4;
/// Times that differ by one part in this many are alike.
const ALIKE: u32 = 20;

/// Kernels that run one after the other.
#[derive(Clone, Copy, Debug)]
struct Row {
    blocks: u32,
    threads: u32,
    cycles: u64,
    count: u32,
}

/// Device time of kernels in a row.
fn row_time<A: SpinApi>(api: &A, stream: A::Stream, row: Row) -> Result<Duration, A::Error> {
    let Row { blocks, threads, cycles, count } = row;
    let kernel = A::native(api.unseen_kernel(blocks, threads, cycles)?);
    let (from, to) = (api.create_event()?, api.create_event()?);
    // SAFETY: all were made above or by the caller.
    unsafe {
        api.launch_native(&kernel, stream)?;
        api.record(from, stream)?;
        for _ in 0..count {
            api.launch_native(&kernel, stream)?;
        }
        api.record(to, stream)?;
        while !api.query(to)? {
            thread::sleep(POLL_DELAY);
        }
        let elapsed = api.elapsed_ns(from, to)?;
        api.destroy_event(from);
        api.destroy_event(to);
        Ok(Duration::from_nanos(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn cycles_are_for_what_is_left_beside_the_fixed_time() {
        let rate = SpinRate { cycles_per_ns: 2.0, fixed_ns: 1_000.0 };
        assert_eq!((rate.cycles(500), rate.cycles(11_000)), (0, 20_000));
    }

    /// The rate that is measured of a device with this fixed time of a kernel and these cycles in a
    /// nanosecond, and how long that takes it.
    fn modelled(fixed_ns: f64, cycles_per_ns: f64) -> (SpinRate, Duration) {
        let passed = Cell::new(Duration::ZERO);
        let rate = SpinRate::of(|cycles, count| {
            let one = Duration::from_nanos((fixed_ns + cycles as f64 / cycles_per_ns) as u64);
            // One kernel goes before those of which the time is taken.
            passed.set(passed.get() + one * (count + 1));
            Ok::<_, Infallible>(one * count)
        });
        (rate.unwrap(), passed.get())
    }

    #[test]
    fn the_rate_is_found_on_fast_and_on_slow_devices_in_bounded_time() {
        // A GPU; the same 10^5 times slower in all; and one of which only the instructions are,
        // and the clock is not, as where instructions are interpreted.
        for (fixed_ns, cycles_per_ns, most_s) in [
            (3_000.0, 2.1, 0.1),
            (3_000.0 * 1e5, 2.1 / 1e5, 20.0),
            (3_000.0 * 1e5, 2.1, 25.0),
            (1_000.0, 2.1 / 1e5, 10.0),
        ] {
            let (rate, took) = modelled(fixed_ns, cycles_per_ns);
            let name = format!("{fixed_ns} ns, {cycles_per_ns}: {rate:?}, {took:?}");
            assert!((rate.cycles_per_ns / cycles_per_ns - 1.0).abs() < 0.01, "{name}");
            assert!((rate.fixed_ns - fixed_ns).abs() < fixed_ns * 0.05 + 500.0, "{name}");
            assert!(took.as_secs_f64() < most_s, "{name}");
        }
    }

    #[test]
    fn work_grows_from_the_least_until_it_can_be_timed() {
        let wanted = Duration::from_millis(1);
        for (launch_ns, each_ns) in [(20_000, 500), (20_000, 1), (0, 100_000_000), (5_000_000, 1)] {
            let (mut ran, mut passed) = (Vec::new(), Duration::ZERO);
            let (amount, took) = enough_work((1, 1 << 30), wanted, |amount| {
                let took = Duration::from_nanos(launch_ns + amount * each_ns);
                ran.push(amount);
                passed += took;
                Ok::<_, Infallible>(took)
            })
            .unwrap();
            assert_eq!((ran[0], took), (1, Duration::from_nanos(launch_ns + amount * each_ns)));
            assert!(took >= wanted, "{launch_ns} {each_ns}: {took:?}");
            let most = (wanted * 60).max(took * 4);
            assert!(passed <= most, "{launch_ns} {each_ns}: {ran:?} in {passed:?}");
        }
        let never = enough_work((1, 64), wanted, |_| Ok::<_, Infallible>(Duration::ZERO));
        assert_eq!(never.unwrap(), (64, Duration::ZERO));
    }

    #[test]
    fn a_time_that_changed_is_taken_again_and_the_shortest_counts() {
        let mut times = [40, 11, 12, 9, 9].map(Duration::from_millis).into_iter();
        let found = enough_work((1, 1), Duration::from_millis(1), |_| times.next().ok_or(()));
        assert_eq!(found, Ok((1, Duration::from_millis(9))));
        assert_eq!(enough_work((1, 1), Duration::ZERO, |_| Err("it refuses")), Err("it refuses"));
    }
}
