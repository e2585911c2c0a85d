//! Any bytes as messages of processes to the daemon, with files of all kinds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::daemon::socket(data));
