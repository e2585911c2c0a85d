//! Any bytes as code, packets and context images: waves run, end or are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::gfx942::wave(data));
