//! The kernels of `hal-hip/kernels/spin.hip` and of programs, as functions of the host: a cycle is
//! a nanosecond.

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

/// Fills this many words of 32 bits with a value.
extern "C" fn fill(block: *const u8) -> u32 {
    // SAFETY: it is known with an address and two numbers, and blocks are aligned to 8.
    let ([to, _], [_, _, value, count]) =
        unsafe { (arguments(block), block.cast::<[u32; 4]>().read()) };
    for word in 0..count as usize {
        // The launch's caller promised this many words.
        word32(to as usize + 4 * word).store(value, Ordering::Relaxed);
    }
    SUCCESS
}

/// `vector_add(const float *a, const float *b, float *c, int n)`: adds this many numbers.
extern "C" fn vector_add(block: *const u8) -> u32 {
    // SAFETY: it is known with three addresses and a number, and blocks consist of words.
    let [a, b, c, count] = unsafe { block.cast::<[usize; 4]>().read() };
    // The launch's caller promised this many numbers at each.
    let at = |start: usize, n: usize| word32(start + 4 * n);
    let number = |start, n| f32::from_bits(at(start, n).load(Ordering::Relaxed));
    for n in 0..usize::try_from(count as i32).unwrap_or(0) {
        at(c, n).store((number(a, n) + number(b, n)).to_bits(), Ordering::Relaxed);
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
        "_Z10vector_addPKfS0_Pfi" => (vector_add, &[8, 8, 8, 4]),
        _ => return None,
    };
    Some(Known { kernel, sizes: Arc::from(sizes) })
}
