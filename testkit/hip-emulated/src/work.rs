//! The kernels of `lab/kernels/work.hip`, as one function of the host: the same arguments and
//! the same books, and another sum, which does not depend on the kind of kernel.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_emulated_device::code::SUCCESS;
use xsched_emulated_device::spin::{now_ns, word};

use crate::runtime::{Kernel, Known};

/// Prefix of the names.
const PREFIX: &str = "xs_work_";
/// The kinds.
const KINDS: [&str; 7] = ["alu", "lds", "mfma", "memory", "atomics", "barrier", "cooperative"];
/// A pause that is noted when it is over, in nanoseconds.
const PAUSE_NS: u64 = 20_000;
/// Steps of a round, so that a round takes in the order of a microsecond.
const STEPS: u64 = 200;

/// One step of a sequence in which each number needs the one before.
const fn mix(state: u64) -> u64 {
    let mut x = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}

/// The number of workgroups is in the upper half of the third argument, since a function of the
/// host knows of no grid.
extern "C" fn work(block: *const u8) -> u32 {
    // SAFETY: it is known with five arguments, and blocks are aligned to 8.
    let [rounds, beats, beaters, sums, _] = unsafe { block.cast::<[u64; 5]>().read() };
    let (blocks, beaters) = (beaters >> 32, beaters & u64::from(u32::MAX));
    let (mut state, mut before) = (1, 0);
    for _ in 0..rounds {
        state = black_box((0..STEPS).fold(state, |state, _| mix(state)));
        let now = now_ns();
        for beater in 0..beaters as usize {
            if now - before > PAUSE_NS {
                // SAFETY: the launch's caller promised two words for each.
                unsafe { word(beats, 2 * beater + 1) }.store(now, Ordering::SeqCst);
            }
            // SAFETY: as above.
            unsafe { word(beats, 2 * beater) }.store(now, Ordering::SeqCst);
        }
        before = now;
    }
    for block in 0..blocks as usize {
        // SAFETY: the launch's caller promised two words for each.
        let (sum, count) = unsafe { (word(sums, 2 * block), word(sums, 2 * block + 1)) };
        sum.fetch_add(mix(state ^ block as u64), Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
    }
    SUCCESS
}

/// The kernel of this name.
pub(crate) fn known(name: &str) -> Option<Known> {
    let kind = name.strip_prefix(PREFIX)?;
    let kernel: Kernel = work;
    let sizes: &[usize] = &[8; 5];
    KINDS.contains(&kind).then(|| Known { kernel, sizes: Arc::from(sizes) })
}
