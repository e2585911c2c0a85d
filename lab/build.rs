//! Tells the program of which commit it is built: records carry it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the commit, for builds of a tree without its history.
const COMMIT: &str = "BUILD_COMMIT";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={COMMIT}");
    // A file that is not there would have this run each time.
    let head = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    if let Some(head) = head.map(PathBuf::from).filter(|head| head.is_file()) {
        println!("cargo:rerun-if-changed={}", head.display());
    }
    let commit = env::var(COMMIT).ok().filter(|commit| !commit.is_empty());
    let commit =
        commit.or_else(|| git(&["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]));
    println!("cargo:rustc-env={COMMIT}={}", commit.as_deref().unwrap_or("unknown"));
}

/// Returns what git says of the tree that this package is in; `None` without a history.
fn git(arguments: &[&str]) -> Option<String> {
    let here = env::var_os("CARGO_MANIFEST_DIR")?;
    let said = Command::new("git").arg("-C").arg(Path::new(&here)).args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
