//! Any bytes as a sequence of events for one queue on an imaginary device, under all invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::machines::queue_machine(data));
