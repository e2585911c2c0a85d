//! `cargo xtask package`: the crates that are published, as they would be uploaded.
//!
//! Cargo packages them together, each after what it depends on, and builds each from its package,
//! with the packages of the others in place of a registry.

use anyhow::Result;

use crate::command::{cargo, run as run_command};

/// The packages that are published, with their folders.
pub const PUBLISHED: [(&str, &str); 9] = [
    ("core", "xsched-core"),
    ("hal-cuda", "xsched-hal-cuda"),
    ("hal-hip", "xsched-hal-hip"),
    ("hal-host", "xsched-hal-host"),
    ("hal-kfd", "xsched-hal-kfd"),
    ("hal-stream", "xsched-hal-stream"),
    ("policies", "xsched-policies"),
    ("runtime", "xsched"),
    ("sim", "xsched-sim"),
];

/// Does it.
///
/// # Errors
/// If one cannot be packaged, or does not build from its package.
pub fn run() -> Result<()> {
    // What is packaged is the work tree, with changes that are not committed.
    let mut command = cargo("package --locked --allow-dirty");
    run_command(command.args(PUBLISHED.iter().flat_map(|(_, name)| ["--package", name])))
}
