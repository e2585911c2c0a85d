//! Any bytes as a sequence of events for a scheduler and its queues, under all invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xsched_fuzz_targets::machines::scheduler_machine(data));
