//! The README's main job, as CI judges it: by its exit code. Where other programs kept the
//! processors busy, the demo judges by what it compares at one time alone.

use anyhow::Result;

use crate::MAIN_JOB;
use crate::command::{self, cargo};

/// Runs it.
///
/// # Errors
/// If the demo cannot run, or the priority took no effect.
pub(crate) fn run() -> Result<()> {
    command::run(&mut cargo(MAIN_JOB.strip_prefix("cargo ").unwrap_or(MAIN_JOB)))
}
