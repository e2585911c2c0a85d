//! Debian's packages, for chores that need more than Rust and a C compiler.
//!
//! Where there is apt, a chore installs what it needs, and fails if that fails. Elsewhere the check
//! is left out, and [`left_out`] says so at once and at the end of CI.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

use crate::command::{run, succeeds};

/// Time for another apt, such as that of a timer, in seconds. An install of twelve packages beside
/// a build took 142.
const LOCK: &str = "DPkg::Lock::Timeout=300";

static LEFT_OUT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// True if there is apt.
pub(crate) fn is_here() -> bool {
    succeeds(Command::new("apt-get").arg("--version"))
}

/// Installs packages, unless there is no apt. Whether there is.
///
/// # Errors
/// If one of them cannot be installed.
pub(crate) fn install(packages: &[&str]) -> Result<bool> {
    if !is_here() {
        return Ok(false);
    }
    let names = packages.join(" ");
    println!("apt: installing {names}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-o", LOCK]).args(arguments);
        succeeds(command.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    let works = apt(&install) || apt(&["update"]) && apt(&install);
    ensure!(works, "apt-get cannot install {names}; run `apt-get install {names}` as root");
    Ok(true)
}

/// Downloads a package and unpacks it into a folder, unless that is there. Nothing is installed, so
/// no service starts.
///
/// # Errors
/// If it cannot be downloaded.
pub(crate) fn unpacked(package: &str, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    let archives = to.with_extension("archives");
    fs::create_dir_all(&archives).with_context(|| format!("cannot make {}", archives.display()))?;
    println!("apt: downloading {package}");
    let download = || {
        let mut command = Command::new("apt-get");
        // apt's own user may not write below the target folder.
        command.args(["-o", "APT::Sandbox::User=root", "download", package]);
        succeeds(command.current_dir(&archives))
    };
    let update = || succeeds(Command::new("apt-get").args(["-o", LOCK, "update"]));
    ensure!(download() || update() && download(), "`apt-get download {package}` fails");
    unpack(&archives, to)?;
    Ok(fs::remove_dir_all(&archives)?)
}

/// Makes sure that a program can be run, and installs its packages if need be. Whether it can.
///
/// # Errors
/// If it cannot be installed though there is apt.
pub(crate) fn program(name: &str, packages: &[&str]) -> Result<bool> {
    let runs = || succeeds(Command::new(name).arg("--version"));
    if runs() {
        return Ok(true);
    }
    if !install(packages)? {
        return Ok(false);
    }
    ensure!(runs(), "`{name} --version` fails though {} is installed", packages.join(" "));
    Ok(true)
}

/// Unpacks all packages of a folder. Nothing is left behind if one cannot be unpacked.
pub(crate) fn unpack(packages: &Path, to: &Path) -> Result<()> {
    let unfinished = to.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    for entry in fs::read_dir(packages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg").arg("-x").arg(&path).arg(&unfinished))?;
        }
    }
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::rename(&unfinished, to).with_context(|| format!("nothing to unpack for {}", to.display()))
}

/// Notes that a check was left out for want of something.
pub(crate) fn left_out(check: &str, want: &str) {
    let line = format!("NOT CHECKED: {check}, for want of {want}");
    println!("!!! {line} !!!");
    if let Ok(mut lines) = LEFT_OUT.lock() {
        lines.push(line);
    }
}

/// Parts that were left out.
pub(crate) fn all_left_out() -> Vec<String> {
    LEFT_OUT.lock().map(|lines| lines.clone()).unwrap_or_default()
}
