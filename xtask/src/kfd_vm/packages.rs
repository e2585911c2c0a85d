//! The kernel and the machine's emulator, as Debian's packages.
//!
//! Packages are downloaded and unpacked below the target folder; nothing is installed. What is
//! there already is not downloaded again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apt::unpack;
use crate::command::succeeds;

/// Packages that depend on the newest kernel of a series: Debian 12's, Debian 13's.
const KERNEL_SERIES: [&str; 2] = ["linux-image-6.12-amd64", "linux-image-amd64"];
/// Prefix of the kernel's package. Other series answer other things.
const KERNEL: &str = "linux-image-6.12.";
/// The machine's emulator, as a package and as a program.
const MACHINE: (&str, &str) = ("qemu-system-x86", "qemu-system-x86_64");

/// Parts of the virtual machine.
#[derive(Debug)]
pub(super) struct Parts {
    /// Where the kernel's package was unpacked.
    pub(super) kernel: PathBuf,
    /// Where the emulator's packages were unpacked, unless the system has it.
    tools: Option<PathBuf>,
}

/// Finds or downloads everything. `Err` inside says which package cannot be had.
pub(super) fn get(folder: &Path) -> Result<std::result::Result<Parts, &'static str>> {
    let kernel = folder.join("kernel");
    if kernel_version(&kernel).is_err() && !get_kernel(folder, &kernel)? {
        return Ok(Err("linux-image-6.12"));
    }
    let tools = folder.join("tools");
    let has_machine = succeeds(Command::new(MACHINE.1).arg("--version"));
    if !has_machine && !tools.join("usr/bin").join(MACHINE.1).exists() && !get_machine(&tools)? {
        return Ok(Err(MACHINE.0));
    }
    Ok(Ok(Parts { kernel, tools: (!has_machine).then_some(tools) }))
}

/// The version of an unpacked kernel.
pub(super) fn kernel_version(kernel: &Path) -> Result<String> {
    let modules = kernel.join("lib/modules");
    let found = fs::read_dir(&modules).with_context(|| format!("no {}", modules.display()))?;
    let names = found.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let version = names.filter(|name| name.starts_with("6.12.")).max();
    let version = version.context("there is no kernel 6.12")?;
    ensure!(kernel.join(format!("boot/vmlinuz-{version}")).exists(), "the kernel's image is gone");
    Ok(version)
}

impl Parts {
    /// The command that starts the machine, without arguments for a system.
    pub(super) fn machine(&self) -> Command {
        let Some(tools) = &self.tools else { return Command::new(MACHINE.1) };
        let libraries = tools.join("usr/lib/x86_64-linux-gnu");
        let mut path = OsString::from(&libraries);
        path.push(":");
        path.push(tools.join("lib/x86_64-linux-gnu"));
        let mut command = Command::new(tools.join("usr/bin").join(MACHINE.1));
        command.env("LD_LIBRARY_PATH", path);
        for share in ["qemu", "seabios"] {
            command.arg("-L").arg(tools.join("usr/share").join(share));
        }
        command
    }
}

/// Runs apt and gives what it prints, if it succeeds.
fn apt_cache(arguments: &[&str]) -> Option<String> {
    let output = Command::new("apt-cache").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The newest kernel's package, if apt knows one.
fn kernel_package() -> Option<String> {
    KERNEL_SERIES.into_iter().find_map(|series| {
        let known = apt_cache(&["depends", series])?;
        newest_kernel(&known)
    })
}

/// The kernel in what `apt-cache depends` prints.
fn newest_kernel(depends: &str) -> Option<String> {
    let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with(KERNEL)).map(str::to_owned)
}

/// True if there is a kernel now.
fn get_kernel(folder: &Path, kernel: &Path) -> Result<bool> {
    let update = || succeeds(Command::new("apt-get").arg("update"));
    let Some(package) = kernel_package().or_else(|| update().then(kernel_package).flatten()) else {
        return Ok(false);
    };
    let downloads = folder.join("packages-kernel");
    fs::create_dir_all(&downloads)?;
    println!("kfd-vm: downloading {package}");
    let download = || {
        let mut command = Command::new("apt-get");
        succeeds(command.args(["download", &package]).current_dir(&downloads))
    };
    if !(download() || update() && download()) {
        return Ok(false);
    }
    unpack(&downloads, kernel)?;
    Ok(true)
}

/// True if the machine's emulator is there now. Its libraries are downloaded with it, so far as the
/// system does not have them.
fn get_machine(tools: &Path) -> Result<bool> {
    let downloads = tools.with_file_name("packages");
    fs::create_dir_all(downloads.join("partial"))?;
    let archives = format!("Dir::Cache::Archives={}", downloads.display());
    println!("kfd-vm: downloading {}", MACHINE.0);
    let download = || {
        let mut command = Command::new("apt-get");
        let how = ["install", "--download-only", "--yes", "--no-install-recommends"];
        command.args(how).args(["-o", "Debug::NoLocking=1", "-o", &archives, MACHINE.0]);
        succeeds(&mut command)
    };
    let update = || succeeds(Command::new("apt-get").arg("update"));
    if !(download() || update() && download()) {
        return Ok(false);
    }
    unpack(&downloads, tools)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_series_is_taken() {
        let depends = "linux-image-amd64\n  Depends: linux-image-6.12.48+deb13-amd64\n";
        assert_eq!(newest_kernel(depends).as_deref(), Some("linux-image-6.12.48+deb13-amd64"));
        let other = "linux-image-amd64\n  Depends: linux-image-6.1.0-40-amd64\n";
        assert_eq!(newest_kernel(other), None);
        assert!(kernel_version(Path::new("/nowhere")).is_err());
    }
}
