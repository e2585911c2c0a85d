//! Kernels of a known length, as functions of the host: a cycle of the device's clock is a
//! nanosecond.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ring::is_lost;
use crate::slices;

/// A clock that is not asked gives up after this time, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Rest of a kernel, in nanoseconds, that is not slept through.
const AWAKE_NS: u64 = 200_000;
/// A kernel looks this often whether its device was lost, in nanoseconds.
const LOOK_NS: u64 = 5_000_000;
/// The first answer is the ninth word.
const FIRST: usize = 8;

/// The device's clock, in nanoseconds, never 0.
#[must_use]
pub fn now_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// A word of the host's at an address that a kernel was given.
///
/// # Safety
/// It is alive, and touched by atomic operations only.
pub unsafe fn word(address: u64, at: usize) -> &'static AtomicU64 {
    let words: *const AtomicU64 = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller promises so.
    unsafe { &*words.add(at) }
}

/// Takes `cycles` cycles, unless the device is lost, and those for which it was stopped; writes the
/// clock to two words, at its start and at its end, unless their address is 0.
///
/// # Safety
/// There are two words.
pub unsafe fn spin(cycles: u64, stamps: u64, stopped_ns: impl Fn() -> u64) {
    let start = now_ns();
    let stamp = |at| {
        if stamps != 0 {
            // SAFETY: the caller promises so.
            unsafe { word(stamps, at) }.store(now_ns(), Ordering::SeqCst);
        }
    };
    stamp(0);
    let mut elsewhere_ns = 0;
    loop {
        // A kernel that is stopped in the middle makes no progress, nor does one whose process does
        // not have the device.
        let asked = now_ns();
        let slice_ns = u64::try_from(slices::enter().as_nanos()).unwrap_or(u64::MAX);
        elsewhere_ns += now_ns() - asked;
        let left = (cycles + stopped_ns() + elsewhere_ns).saturating_sub(now_ns() - start);
        match left {
            0 => break,
            _ if is_lost() => break,
            AWAKE_NS.. => {
                let most_ns = LOOK_NS.min(slice_ns);
                thread::sleep(Duration::from_nanos((left - AWAKE_NS).min(most_ns)));
            }
            _ => thread::yield_now(),
        }
    }
    stamp(1);
}

/// Writes the clock this many times, each time it is asked to by the first word.
///
/// # Safety
/// There are 8 words and one for each round.
pub unsafe fn clock(words: u64, rounds: u64) {
    let start = now_ns();
    for n in 1..=rounds {
        // SAFETY: the caller promises so.
        let (question, answer) = unsafe { (word(words, 0), word(words, FIRST - 1 + n as usize)) };
        while question.load(Ordering::SeqCst) < n {
            if now_ns() - start > PATIENCE_NS || is_lost() {
                return;
            }
            thread::yield_now();
        }
        answer.store(now_ns(), Ordering::SeqCst);
    }
}
