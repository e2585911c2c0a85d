//! Calls of the C API from random bytes and from the corpus.

use xsched_core::rng::SplitMix64;
use xsched_fuzz_targets::capi::{end, sequence};
use xsched_fuzz_targets::corpus;

/// One test, because the handles of all sequences are shared and `end` destroys them.
#[test]
fn any_calls_do_no_harm() {
    for (_, bytes) in corpus("capi") {
        sequence(&bytes);
    }
    for seed in 0..500 {
        let mut random = SplitMix64::new(seed);
        let bytes: Vec<u8> = (0..128).map(|_| random.below(256) as u8).collect();
        sequence(&bytes);
    }
    end();
}
