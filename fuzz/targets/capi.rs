//! Any bytes as calls of the C API, with handles and numbers that are right, stale or made up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::capi::sequence(data));
