//! `cargo xtask package`: the crates that are published, as they would be uploaded.
//!
//! Cargo packages them together, each after what it depends on, and builds each from its package,
//! with the packages of the others in place of a registry.

use anyhow::Result;

use crate::command::{cargo, run as run_command};

/// The packages that are published.
pub const PUBLISHED: [&str; 9] = [
    "xsched",
    "xsched-core",
    "xsched-hal-cuda",
    "xsched-hal-hip",
    "xsched-hal-host",
    "xsched-hal-kfd",
    "xsched-hal-stream",
    "xsched-policies",
    "xsched-sim",
];

/// Does it.
///
/// # Errors
/// If one cannot be packaged, or does not build from its package.
pub fn run() -> Result<()> {
    // What is packaged is the work tree, with changes that are not committed.
    let mut command = cargo("package --locked --allow-dirty");
    run_command(command.args(PUBLISHED.iter().flat_map(|name| ["--package", name])))
}
