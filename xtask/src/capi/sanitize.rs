//! Random calls of the C API under `AddressSanitizer`.

use anyhow::Result;

use crate::command::{cargo, run as run_command};
use crate::fuzz::need_nightly;
use crate::target_dir;

/// Sequences of calls that end in a second on a busy machine, at least.
const PER_SECOND: u32 = 100;

/// Builds the test with random calls under the sanitizer, and runs it with this many sequences.
///
/// # Errors
/// If there is no nightly toolchain, the sanitizer reports something, or the test fails.
pub(super) fn run(sequences: u32) -> Result<()> {
    need_nightly()?;
    let limit_s = 100 + sequences / PER_SECOND;
    // With a target of its own, so that build scripts are as usual.
    let mut test = cargo("+nightly test -p xsched-capi --locked --test it");
    test.args(["--target", "x86_64-unknown-linux-gnu", "--target-dir"]);
    test.arg(target_dir().join("asan")).args(["random", "--", "--nocapture"]);
    test.env("RUSTFLAGS", "-Zsanitizer=address");
    test.env("XSCHED_TEST_SEQUENCES", sequences.to_string());
    run_command(test.env("XSCHED_TEST_LIMIT_S", limit_s.to_string()))?;
    println!("capi: {sequences} sequences of calls under AddressSanitizer, without a report");
    Ok(())
}
