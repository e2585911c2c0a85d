//! Kernels of a known length, for calibrated load, and kernels that read the device's clock.

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use crate::api::{FlagMemory, StreamApi};

/// Cycles of the kernels that the rate is measured with: few, and many.
const CYCLES: (u32, u32) = (20_000, 1_000_000);
/// Kernels in a row.
const ROW: u32 = 30;
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

    /// Blocks that each spin for so many cycles of their unit's clock. Where `stamps` is not 0, the
    /// first thread writes the device's clock there, in nanoseconds, at its start and its end.
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

    /// Blocks that each spin for so many cycles of their unit's clock, without stamps.
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

    /// One thread that writes the device's clock, in nanoseconds, so many times, each time it is
    /// asked to: when the first word reaches n, from 1, 56 + 8 n bytes on. It gives up after 1 s.
    ///
    /// # Errors
    /// If the device has no such kernels.
    ///
    /// # Safety
    /// `words` is the device's address of host memory of 64 bytes and 8 for each round, which is
    /// alive until it has run.
    unsafe fn clock_kernel(&self, words: u64, rounds: u64) -> Result<Self::Kernel, Self::Error>;

    /// The error for a clock that was not read within so many milliseconds.
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
    /// Measures how long spin kernels take, with kernels of so many blocks and threads, which takes
    /// about 50 ms of the device and needs it to be idle.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn measure<A: SpinApi>(api: &A, blocks: u32, threads: u32) -> Result<Self, A::Error> {
        let _entered = api.enter()?;
        let stream = api.create_stream(None)?;
        let row = |cycles: u32| row_ns(api, stream, (blocks, threads), cycles);
        let (few, many) = CYCLES;
        // The first brings the clock up.
        let measured = row(many).and_then(|_| Ok((row(few)?, row(many)?)));
        // SAFETY: made above, and all that was launched has ended. Nothing depends on the answer.
        let _ = unsafe { api.destroy_stream(stream) };
        let (short, long) = measured?;
        let cycles_per_ns = f64::from(many - few) / (long - short).max(1.0);
        Ok(Self { cycles_per_ns, fixed_ns: (short - f64::from(few) / cycles_per_ns).max(0.0) })
    }

    /// Cycles for a kernel that takes so long in a row of such kernels.
    #[must_use]
    pub fn cycles(&self, ns: u64) -> u64 {
        ((ns as f64 - self.fixed_ns).max(0.0) * self.cycles_per_ns) as u64
    }
}

/// Mean device time of kernels in a row, in nanoseconds.
fn row_ns<A: SpinApi>(
    api: &A,
    stream: A::Stream,
    (blocks, threads): (u32, u32),
    cycles: u32,
) -> Result<f64, A::Error> {
    let kernel = A::native(api.unseen_kernel(blocks, threads, cycles.into())?);
    let (from, to) = (api.create_event()?, api.create_event()?);
    // SAFETY: all were made above or by the caller.
    unsafe {
        api.launch_native(&kernel, stream)?;
        api.record(from, stream)?;
        for _ in 0..ROW {
            api.launch_native(&kernel, stream)?;
        }
        api.record(to, stream)?;
        while !api.query(to)? {
            thread::sleep(POLL_DELAY);
        }
        let elapsed = api.elapsed_ns(from, to)?;
        api.destroy_event(from);
        api.destroy_event(to);
        Ok(elapsed as f64 / f64::from(ROW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_for_what_is_left_beside_the_fixed_time() {
        let rate = SpinRate { cycles_per_ns: 2.0, fixed_ns: 1_000.0 };
        assert_eq!((rate.cycles(500), rate.cycles(11_000)), (0, 20_000));
    }
}
