//! Answers at random to `hal-kfd`, as the fuzzer's, on any toolchain.
#![allow(unsafe_code, reason = "drivers are called with addresses")]

use std::sync::Mutex;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::io::Errno;
use xsched_fuzz_targets::corpus;
use xsched_fuzz_targets::kfd::arbitrary_answers;
use xsched_hal_kfd::{Driver, Versioned};

const SEEDS: u64 = 20_000;

#[test]
fn any_answer_is_understood_or_refused() {
    for seed in 0..SEEDS {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let bytes = random.random_range(0..600);
        let mut data = vec![0; bytes];
        random.fill(data.as_mut_slice());
        let told = std::panic::catch_unwind(|| arbitrary_answers(&data));
        assert!(told.is_ok(), "seed {seed}");
    }
}

#[test]
fn inputs_that_found_something_are_kept() {
    for (path, bytes) in corpus("kfd") {
        let told = std::panic::catch_unwind(|| arbitrary_answers(&bytes));
        assert!(told.is_ok(), "{}", path.display());
    }
    // Nothing at all, and every answer the same.
    arbitrary_answers(&[]);
    for byte in 0..=u8::MAX {
        arbitrary_answers(&[byte; 300]);
    }
}

/// Answers the version, and is interrupted once in every other call, with a count left behind.
#[derive(Debug, Default)]
struct Interrupted {
    counts: Mutex<Vec<u32>>,
}

impl Driver for Interrupted {
    // SAFETY: follows no address.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        if request & 0xff == 1 {
            argument.copy_from_slice(&[1, 0, 0, 0, 17, 0, 0, 0]);
            return Ok(0);
        }
        let mut counts = self.counts.lock().expect("no panic");
        let mut count = [0; 4];
        count.copy_from_slice(&argument[8..12]);
        counts.push(u32::from_ne_bytes(count));
        argument[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        if counts.len() % 2 == 1 {
            return Err(Errno::INTR);
        }
        argument[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        Ok(0)
    }
}

/// The driver copies its argument out after an error too. Sent again, the count would be taken for
/// room that is not there.
#[test]
fn an_interrupted_call_is_made_again_with_the_argument_as_it_was() {
    let driver = std::sync::Arc::new(Interrupted::default());
    let versioned = Versioned::ask(std::sync::Arc::clone(&driver)).expect("a version");
    assert_eq!(versioned.gpu_ids().expect("one").len(), 1);
    assert_eq!(*driver.counts.lock().expect("no panic"), [0, 0, 1, 1]);
}
