//! Code, packets and context images for the interpreter of gfx942, as the fuzzer's, on any
//! toolchain.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use xsched_fuzz_targets::corpus;
use xsched_fuzz_targets::gfx942::wave;

const SEEDS: u64 = 3000;

/// First words of instructions of all encodings, but for the fields that say which one it is.
const ENCODINGS: [u32; 16] = [
    0x8000_0000,
    0xb000_0000,
    0xbe80_0000,
    0xbf00_0000,
    0xbf80_0000,
    0xc000_0000,
    0x0000_0000,
    0x7e00_0000,
    0x7c00_0000,
    0xd000_0000,
    0xd380_0000,
    0xd800_0000,
    0xdc00_0000,
    0xdc00_4000,
    0xdc00_8000,
    0xe000_0000,
];

/// Bytes that are mostly instructions whose registers are there.
fn code(random: &mut Pcg64Mcg) -> Vec<u8> {
    let mut bytes = vec![random.random_range(0..4)];
    if bytes[0] & 2 != 0 {
        bytes.extend((0..128).map(|_| random.random::<u8>() & 15));
    }
    for _ in 0..random.random_range(0..100) {
        let encoding = ENCODINGS[random.random_range(0..ENCODINGS.len())];
        let word = encoding | random.random::<u32>() & 0x03ff_1f1f;
        bytes.extend(word.to_le_bytes());
        if encoding >= 0xc000_0000 {
            bytes.extend((random.random::<u32>() & 0x1f1f_1f1f).to_le_bytes());
        }
    }
    bytes
}

#[test]
fn any_code_runs_or_is_refused() {
    for seed in 0..SEEDS {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let bytes = code(&mut random);
        let told = std::panic::catch_unwind(|| wave(&bytes));
        assert!(told.is_ok(), "seed {seed}");
    }
}

#[test]
fn inputs_that_found_something_are_kept() {
    for (path, bytes) in corpus("gfx942") {
        let told = std::panic::catch_unwind(|| wave(&bytes));
        assert!(told.is_ok(), "{}", path.display());
    }
    wave(&[]);
    for byte in 0..=u8::MAX {
        for how in 0..4 {
            let mut bytes = vec![byte; 600];
            bytes[0] = how;
            wave(&bytes);
        }
    }
}
