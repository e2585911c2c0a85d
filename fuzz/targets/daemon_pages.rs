//! Any bytes as what processes write into the pages that the daemon reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::daemon::pages(data));
