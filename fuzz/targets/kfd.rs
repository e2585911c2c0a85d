//! Any bytes as a driver's answers to `hal-kfd`: they are understood or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::kfd::arbitrary_answers(data));
