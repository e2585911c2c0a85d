//! `cargo xtask test`: the tests that need nothing but Rust and a C compiler.

use anyhow::Result;

use crate::command::{cargo, run_and_keep};

/// What is built, so that other steps of CI build nothing anew.
pub(crate) const BUILD: &str = "--workspace --exclude xsched-python --all-features --locked";
/// What `cargo xtask ci` has beyond it.
const LEFT_OUT: &str = "left out, see `cargo xtask ci`: lints, loom models and their mutants, a minute \
                        of stress, fuzzing, the proof that the core needs no std, programs in C and \
                        C++, Python, AMD's kernel driver in a virtual machine";

/// Runs the tests of all crates, with those in their documentation, and answers the test runner's
/// closing lines.
///
/// # Errors
/// If a test fails.
pub fn run() -> Result<Vec<String>> {
    let closing = run_and_keep(&mut cargo(&format!("test {BUILD}")), "test result:")?;
    println!("test: {LEFT_OUT}");
    Ok(closing)
}
