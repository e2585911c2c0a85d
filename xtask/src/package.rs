//! `cargo xtask package`: the crates that are published, as they would be uploaded.
//!
//! Cargo packages them together, each after what it depends on, and builds each from its package,
//! with the packages of the others in place of a registry.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};

use crate::command::{cargo, run as run_command};
use crate::target_dir;

/// The packages that are published, with their folders.
pub const PUBLISHED: [(&str, &str); 11] = [
    ("core", "xsched-core"),
    ("hal-cuda", "xsched-hal-cuda"),
    ("hal-hip", "xsched-hal-hip"),
    ("hal-host", "xsched-hal-host"),
    ("hal-kfd", "xsched-hal-kfd"),
    ("hal-process", "xsched-hal-process"),
    ("hal-stream", "xsched-hal-stream"),
    ("node", "xsched-node"),
    ("policies", "xsched-policies"),
    ("runtime", "xsched"),
    ("sim", "xsched-sim"),
];

/// Does it.
///
/// Cargo takes what it has once unpacked from a registry to be the same for ever, so nothing of an
/// earlier run is kept.
///
/// # Errors
/// If one cannot be packaged, or does not build from its package.
pub fn run() -> Result<()> {
    let folder = target_dir().join("packages");
    remove(&folder)?;
    remove_unpacked()?;
    // What is packaged is the work tree, with changes that are not committed.
    let mut command = cargo("package --locked --allow-dirty --target-dir");
    command.arg(&folder).args(PUBLISHED.iter().flat_map(|(_, name)| ["--package", name]));
    run_command(&mut command)?;
    remove(&folder)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    Ok(())
}

/// Removes what cargo has unpacked of these packages.
fn remove_unpacked() -> Result<()> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let Some(registries) = home.map(|home| home.join("registry/src")) else { return Ok(()) };
    for registry in fs::read_dir(&registries).into_iter().flatten() {
        let registry = registry?.path();
        for (_, name) in PUBLISHED {
            let unpacked = registry.join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
            if unpacked.exists() {
                fs::remove_dir_all(&unpacked).with_context(|| format!("{}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}
