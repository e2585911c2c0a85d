//! The kernels of `hal-hip/kernels/spin.hip`, as functions of the host: a cycle is a nanosecond.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_emulated_device::code::SUCCESS;
use xsched_emulated_device::spin::{clock, spin};
use xsched_emulated_device::word32;

use crate::runtime::{Kernel, Known};

/// The two arguments, of 8 bytes each.
///
/// # Safety
/// The block has both.
unsafe fn arguments(block: *const u8) -> [u64; 2] {
    // SAFETY: the caller promises so, and blocks are aligned to 8.
    unsafe { block.cast::<[u64; 2]>().read() }
}

extern "C" fn xs_nothing(_: *const u8) -> u32 {
    SUCCESS
}

extern "C" fn xs_spin(block: *const u8) -> u32 {
    // SAFETY: it is known with two arguments.
    let [cycles, stamps] = unsafe { arguments(block) };
    // SAFETY: the launch's caller promised two words there, if it is not 0.
    unsafe { spin(cycles, stamps, crate::kfd::stopped_ns) };
    SUCCESS
}

extern "C" fn xs_clock(block: *const u8) -> u32 {
    // SAFETY: it is known with two arguments.
    let [words, rounds] = unsafe { arguments(block) };
    // SAFETY: the launch's caller promised 8 words and one for each round.
    unsafe { clock(words, rounds) };
    SUCCESS
}

/// Fills so many words of 32 bits with a value.
extern "C" fn fill(block: *const u8) -> u32 {
    // SAFETY: it is known with an address and two numbers, and blocks are aligned to 8.
    let ([to, _], [_, _, value, count]) =
        unsafe { (arguments(block), block.cast::<[u32; 4]>().read()) };
    for word in 0..count as usize {
        // The launch's caller promised so many words.
        word32(to as usize + 4 * word).store(value, Ordering::Relaxed);
    }
    SUCCESS
}

/// The kernel of this name.
pub(crate) fn known(name: &str) -> Option<Known> {
    let (kernel, sizes): (Kernel, &[usize]) = match name {
        "xs_nothing" => (xs_nothing, &[]),
        "xs_spin" => (xs_spin, &[8, 8]),
        "fill" => (fill, &[8, 4, 4]),
        "xs_clock" => (xs_clock, &[8, 8]),
        _ => return None,
    };
    Some(Known { kernel, sizes: Arc::from(sizes) })
}
