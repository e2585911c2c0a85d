//! The device's clock: read beside the host's, and recorded by kernels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::api::FlagMemory;
use crate::spin::SpinApi;

/// Milliseconds for the device to read its clock; it gives up after about 1 s.
const ANSWER_TIMEOUT_MS: u64 = 2_000;
/// Memory of a probe, in bytes.
const PAGE: usize = 4_096;
/// The first answer is the ninth word, so that questions and answers do not share a cache line.
const FIRST: usize = 8;
/// Most rounds: the rest of the memory.
const ROUNDS_MAX: usize = PAGE / 8 - FIRST;
/// Words of a stamp: when a kernel started, and when it ended.
const STAMP: usize = 2;

/// A 64-bit word of flag memory, if there is one with this number.
fn word(memory: &FlagMemory, n: usize) -> Option<&AtomicU64> {
    if n >= memory.bytes / size_of::<u64>() {
        return None;
    }
    // SAFETY: it is within the memory, which is aligned to 64 bytes, is touched by atomic
    // operations only, and is never given back by the callers.
    Some(unsafe { memory.host.cast::<AtomicU64>().add(n).as_ref() })
}

/// The device's clock, read between two readings of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRead {
    /// Before the device was asked.
    pub before: Instant,
    /// After its answer was there.
    pub after: Instant,
    /// Answer of the device, in nanoseconds. The clock goes in steps: 32 ns to 1 µs on most
    /// devices.
    pub device_ns: u64,
}

/// Reads the device's clock and the host's at almost the same time.
///
/// A kernel of one thread, on a stream of its own, waits for questions in host memory, so a reading
/// takes no more than a question and an answer across the bus. Its page stays allocated to the end
/// of the process, since giving it back would wait for the device.
#[derive(Debug)]
pub struct ClockProbe<A: SpinApi> {
    api: Arc<A>,
    stream: A::Stream,
    memory: FlagMemory,
    /// A kernel gave no answer and may still write.
    lost: bool,
}

impl<A: SpinApi> ClockProbe<A> {
    /// A probe.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(api: Arc<A>) -> Result<Self, A::Error> {
        let entered = api.enter()?;
        let memory = api.stamp_memory(PAGE)?;
        let (_, urgent) = api.about().priorities;
        let stream = api.create_stream(Some(urgent))?;
        drop(entered);
        Ok(Self { api, stream, memory, lost: false })
    }

    /// Reads both clocks `times` times, at least once and at most 500 times. The device needs room
    /// for a kernel of one thread; with room it takes about 10 µs and 2 µs for each reading.
    ///
    /// # Errors
    /// [`SpinApi::clock_silent`] if there is no answer within two seconds, and ever after; or if
    /// the driver refuses.
    pub fn read(&mut self, times: usize) -> Result<Vec<ClockRead>, A::Error> {
        // The first reading is that of the launch as well.
        let rounds = times.saturating_add(1).clamp(2, ROUNDS_MAX);
        let silent = || A::clock_silent(ANSWER_TIMEOUT_MS);
        if self.lost {
            return Err(silent());
        }
        let word = |n| word(&self.memory, n).ok_or_else(silent);
        let question = word(0)?;
        question.store(0, Ordering::SeqCst);
        for n in 0..rounds {
            word(FIRST + n)?.store(0, Ordering::SeqCst);
        }
        // SAFETY: the memory is never given back, and has this many words.
        let kernel = unsafe { self.api.clock_kernel(self.memory.device, rounds as u64)? };
        let entered = self.api.enter()?;
        // SAFETY: the stream is ours and alive.
        unsafe { self.api.launch_native(&A::native(kernel), self.stream)? };
        drop(entered);
        let until = Instant::now() + Duration::from_millis(ANSWER_TIMEOUT_MS);
        let mut reads = Vec::with_capacity(rounds);
        for n in 0..rounds {
            let Some(read) = ask(question, n as u64 + 1, word(FIRST + n)?, until) else {
                // So that it ends, should it start after all.
                question.store(u64::MAX, Ordering::SeqCst);
                self.lost = true;
                return Err(silent());
            };
            reads.push(read);
        }
        reads.remove(0);
        Ok(reads)
    }
}

/// Asks for the clock, and waits for the answer.
fn ask(question: &AtomicU64, n: u64, answer: &AtomicU64, until: Instant) -> Option<ClockRead> {
    let before = Instant::now();
    question.store(n, Ordering::SeqCst);
    loop {
        let device_ns = answer.load(Ordering::SeqCst);
        let after = Instant::now();
        if device_ns != 0 {
            return Some(ClockRead { before, after, device_ns });
        }
        if after >= until {
            return None;
        }
        std::hint::spin_loop();
    }
}

impl<A: SpinApi> Drop for ClockProbe<A> {
    fn drop(&mut self) {
        let Ok(entered) = self.api.enter() else { return };
        // SAFETY: made by this, which is gone. Nothing can be done about an error.
        let _ = unsafe { self.api.destroy_stream(self.stream) };
        drop(entered);
    }
}

/// Places in host memory where kernels write down when they start and end, by the device's clock.
///
/// The memory stays allocated to the end of the process: nothing tells when a kernel that was
/// made for it runs for the last time.
#[derive(Debug)]
pub struct Stamps<A> {
    /// Keeps the context, and with it the memory.
    api: Arc<A>,
    memory: FlagMemory,
    count: usize,
}

impl<A: SpinApi> Stamps<A> {
    /// Allocates `count` places, at least one.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(api: Arc<A>, count: usize) -> Result<Self, A::Error> {
        let count = count.max(1);
        let entered = api.enter()?;
        let memory = api.stamp_memory(count.saturating_mul(STAMP * size_of::<u64>()))?;
        drop(entered);
        Ok(Self { api, memory, count })
    }

    /// How many places there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// A kernel of `blocks` blocks that each spin for `cycles` cycles, whose first thread writes to
    /// the place with this number, or to the last one.
    ///
    /// # Errors
    /// If the device has no kernels that spin.
    pub fn kernel(
        &self,
        place: usize,
        (blocks, threads): (u32, u32),
        cycles: u64,
    ) -> Result<A::Kernel, A::Error> {
        let offset = place.min(self.count - 1) * STAMP * size_of::<u64>();
        let at = self.memory.device + offset as u64;
        // SAFETY: the 16 bytes there are in the memory, which is never given back.
        unsafe { self.api.spin_kernel(blocks, threads, cycles, at) }
    }

    /// When the last kernel that wrote there started, in nanoseconds of the device's clock. 0 if
    /// none has, or there is no such place.
    #[must_use]
    pub fn start_ns(&self, place: usize) -> u64 {
        self.read(place, 0)
    }

    /// When the last kernel that wrote there ended; see [`Stamps::start_ns`]. While one runs, that
    /// is the end of the one before.
    #[must_use]
    pub fn end_ns(&self, place: usize) -> u64 {
        self.read(place, 1)
    }

    /// The latest time that is written down anywhere, in nanoseconds of the device's clock.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        let times = (0..self.count).map(|place| self.start_ns(place).max(self.end_ns(place)));
        times.max().unwrap_or(0)
    }

    /// Tells whether a kernel has written down that it started, and not yet that it ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        (0..self.count).any(|place| self.start_ns(place) > self.end_ns(place))
    }

    fn read(&self, place: usize, half: usize) -> u64 {
        let at = place.saturating_mul(STAMP).saturating_add(half);
        word(&self.memory, at).map_or(0, |word| word.load(Ordering::SeqCst))
    }
}
