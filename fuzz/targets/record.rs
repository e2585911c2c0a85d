//! Any bytes as a record of a run: it is refused, or replayed and simulated.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::fuzz_record(data));
