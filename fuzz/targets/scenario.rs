//! Any bytes as a scenario file: what is accepted keeps to the limits, and what is refused is
//! refused in one line that names the place.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::fuzz_scenario(data));
