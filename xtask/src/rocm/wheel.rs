//! The pinned wheel of `PyPI`, which has AMD's libraries in it.
//!
//! It is a pre-release of others, so its hash is pinned, and any other runtime comes before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::runtime::Runtime;
use crate::command::{run, succeeds};
use crate::python;

/// The package and its version.
const PACKAGE: &str = "gafime-rocm==1.0.0b0";
/// The hash of its file.
const SHA256: &str = "79ce2b9ac328a567944ace766d3de0110ed583f1cf453491a69a49c1ea2dc1db";
/// The folder with the libraries in it.
const LIBRARIES: &str = "gafime_rocm.libs";

/// The runtime, or `None` if the wheel cannot be had.
///
/// # Errors
/// If it can be had and is not what is pinned.
pub(super) fn get(home: &Path, links: &Path) -> Result<Option<Runtime>> {
    let unpacked = home.join("wheel");
    if !unpacked.exists() {
        let Some(file) = download(&home.join("downloads"))? else { return Ok(None) };
        unpack(&file, &unpacked)?;
    }
    let runtime = Runtime::below(&unpacked.join(LIBRARIES), PACKAGE, links)?;
    Ok(Some(runtime))
}

/// The file, once its hash is the pinned one.
fn download(to: &Path) -> Result<Option<PathBuf>> {
    let Ok(python) = python::interpreter() else { return Ok(None) };
    println!("rocm: downloading {PACKAGE}");
    let mut command = Command::new(python);
    command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    command.args(["--pre", "--only-binary", ":all:", PACKAGE, "--dest"]).arg(to);
    if !succeeds(&mut command) {
        return Ok(None);
    }
    let files = fs::read_dir(to)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = files.filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let file = wheels.next().with_context(|| format!("no wheel in {}", to.display()))?;
    let said = Command::new("sha256sum").arg(&file).output().context("cannot run sha256sum")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let sum = said.split_whitespace().next().unwrap_or_default();
    ensure!(sum == SHA256, "{} has the sha256 {sum}, and not {SHA256}", file.display());
    Ok(Some(file))
}

/// Unpacks it, whole or not at all.
fn unpack(file: &Path, to: &Path) -> Result<()> {
    let unfinished = to.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let mut command = Command::new(python::interpreter()?);
    run(command.args(["-m", "zipfile", "-e"]).arg(file).arg(&unfinished))?;
    fs::rename(&unfinished, to).with_context(|| format!("nothing to unpack for {}", to.display()))
}
