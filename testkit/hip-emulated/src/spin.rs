//! The kernels of `hal-hip/kernels/spin.hip`, as functions of the host: a cycle is a nanosecond.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::code::SUCCESS;
use crate::ring::Kernel;
use crate::runtime::Known;

/// The clock gives up after so long, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;
/// What is left of a kernel is slept through down to so much, in nanoseconds.
const AWAKE_NS: u64 = 200_000;
/// The first answer is the ninth word.
const FIRST: usize = 8;

/// The device's clock, in nanoseconds, never 0.
pub(crate) fn now_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// The two arguments, of 8 bytes each.
///
/// # Safety
/// The block has both.
unsafe fn arguments(block: *const u8) -> [u64; 2] {
    // SAFETY: the caller promises so, and blocks are aligned to 8.
    unsafe { block.cast::<[u64; 2]>().read() }
}

/// A word of the host's at an address that a kernel was given.
///
/// # Safety
/// It is alive, and touched by atomic operations only.
pub(crate) unsafe fn word(address: u64, at: usize) -> &'static AtomicU64 {
    let words: *const AtomicU64 = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller promises so.
    unsafe { &*words.add(at) }
}

extern "C" fn xs_nothing(_: *const u8) -> u32 {
    SUCCESS
}

extern "C" fn xs_spin(block: *const u8) -> u32 {
    let start = now_ns();
    // SAFETY: it is known with two arguments.
    let [cycles, stamps] = unsafe { arguments(block) };
    let stamp = |at| {
        if stamps != 0 {
            // SAFETY: the launch's caller promised two words there.
            unsafe { word(stamps, at) }.store(now_ns(), Ordering::SeqCst);
        }
    };
    stamp(0);
    loop {
        // A kernel that is stopped in the middle makes no progress.
        let left = (cycles + crate::kfd::stopped_ns()).saturating_sub(now_ns() - start);
        match left {
            0 => break,
            AWAKE_NS.. => thread::sleep(Duration::from_nanos(left - AWAKE_NS)),
            _ => thread::yield_now(),
        }
    }
    stamp(1);
    SUCCESS
}

extern "C" fn xs_clock(block: *const u8) -> u32 {
    let start = now_ns();
    // SAFETY: it is known with two arguments.
    let [words, rounds] = unsafe { arguments(block) };
    for n in 1..=rounds {
        // SAFETY: the launch's caller promised 8 words and one for each round.
        let (question, answer) = unsafe { (word(words, 0), word(words, FIRST - 1 + n as usize)) };
        while question.load(Ordering::SeqCst) < n {
            if now_ns() - start > PATIENCE_NS {
                return SUCCESS;
            }
            thread::yield_now();
        }
        answer.store(now_ns(), Ordering::SeqCst);
    }
    SUCCESS
}

/// The kernel of this name.
pub(crate) fn known(name: &str) -> Option<Known> {
    let (kernel, sizes): (Kernel, &[usize]) = match name {
        "xs_nothing" => (xs_nothing, &[]),
        "xs_spin" => (xs_spin, &[8, 8]),
        "xs_clock" => (xs_clock, &[8, 8]),
        _ => return None,
    };
    Some(Known { kernel, sizes: Arc::from(sizes) })
}
