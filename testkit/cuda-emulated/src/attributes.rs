//! Attributes of devices and functions: those of an H200, as far as it matters.

use xsched_emulated_device::code::{Answer, INVALID_VALUE};

/// Multiprocessors.
pub(crate) const UNITS: i32 = 132;
/// Threads of a block, and of a multiprocessor.
pub(crate) const BLOCK_THREADS: i32 = 1_024;
pub(crate) const UNIT_THREADS: i32 = 2_048;
/// Priorities of streams: the least and the most urgent.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);
/// The highest attribute's number, and one more.
const END: i32 = 150;

/// An attribute of a device, by its number in `cuda.h`.
pub(crate) fn device(attribute: i32, ordinal: u32) -> Answer<i32> {
    Ok(match attribute {
        // Threads of a block, and its dimensions; the grid's.
        1..=3 => BLOCK_THREADS,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        // Shared and constant memory, the warp, the pitch, registers.
        8 => 49_152,
        9 => 65_536,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => 65_536,
        // The clock in kHz: a cycle is a nanosecond.
        13 => 1_000_000,
        14 => 512,
        // Copies beside kernels, host memory, kernels at once, error correction.
        15 | 19 | 31 | 32 => 1,
        16 => UNITS,
        33 => bus(ordinal),
        // The memory's clock, its width, the L2 cache, copy engines.
        36 => 3_201_000,
        37 => 6_144,
        38 => 62_914_560,
        39 => UNIT_THREADS,
        40 => 3,
        // Unified addressing.
        41 => 1,
        51 => 32,
        // Compute capability 9.0; stream priorities; the caches.
        75 => 9,
        76 => 0,
        78..=80 => 1,
        81 => 233_472,
        // Managed memory, preemption, registered memory by the host's address.
        83 | 90 | 91 => 1,
        // Stream memory operations, first and second edition.
        92..=94 | 122 | 123 => 1,
        // Cooperative launches, and how much shared memory a block may opt into.
        95 => 1,
        97 => 232_448,
        98 | 99 => 1,
        106 => 32,
        111 => 1_024,
        // Memory pools.
        115 => 1,
        126 => 4,
        _ if (1..END).contains(&attribute) => 0,
        _ => return Err(INVALID_VALUE),
    })
}

/// The device's PCI bus.
pub(crate) const fn bus(ordinal: u32) -> i32 {
    ordinal.cast_signed() + 1
}

/// The 16 bytes that are the device's alone.
pub(crate) const fn uuid(ordinal: u32) -> [u8; 16] {
    let mut bytes = *b"xsched-emulated\0";
    bytes[15] = ordinal as u8;
    bytes
}

/// An attribute of a function.
pub(crate) fn function(attribute: i32) -> Answer<i32> {
    Ok(match attribute {
        0 => BLOCK_THREADS,
        4 => 16,
        // PTX's and the binary's version.
        5 | 6 => 90,
        8 => 49_152,
        9 => -1,
        1..=15 => 0,
        _ => return Err(INVALID_VALUE),
    })
}
