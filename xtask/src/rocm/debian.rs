//! The runtime in Debian 13's packages: HIP 5.7, ROCr 6.1.
//!
//! They are downloaded with a configuration of apt that is apart from the system's, and unpacked
//! below the target folder; nothing is installed. They need a C library that Debian 12 does not
//! have, so programs are started by that system's dynamic loader.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::runtime::{Loader, Runtime};
use crate::apt;
use crate::command::succeeds;

const PACKAGE: &str = "libamdhip64-5";
const SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                      http://deb.debian.org/debian trixie main\n";

/// The runtime, or `None` if the packages cannot be had.
///
/// # Errors
/// If they can be had and lack something.
pub(super) fn get(home: &Path, links: &Path) -> Result<Option<Runtime>> {
    let unpacked = home.join("debian");
    if !unpacked.exists() {
        let Some(packages) = download(&home.join("apt"))? else { return Ok(None) };
        apt::unpack(&packages, &unpacked)?;
    }
    let mut runtime = Runtime::below(&unpacked, "Debian 13's packages", links)?;
    let program = runtime.beside.join("ld-linux-x86-64.so.2");
    runtime.loader = Some(Loader { program, libraries: runtime.beside.clone() });
    Ok(Some(runtime))
}

/// Where the packages are, once they are there.
fn download(apart: &Path) -> Result<Option<PathBuf>> {
    if !apt::is_here() {
        return Ok(None);
    }
    let archives = apart.join("cache/archives");
    for folder in [apart.join("state/lists/partial"), archives.join("partial")] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let configuration = apart.join("apt.conf");
    fs::write(&configuration, configured(apart))?;
    fs::write(apart.join("sources.list"), SOURCE)?;
    fs::write(apart.join("status"), "")?;
    println!("rocm: downloading {PACKAGE} of Debian 13");
    let apt = |arguments: &[&str]| {
        succeeds(Command::new("apt-get").args(arguments).env("APT_CONFIG", &configuration))
    };
    let install = ["install", "--download-only", "--yes", "--no-install-recommends", PACKAGE];
    Ok((apt(&["update"]) && apt(&install)).then_some(archives))
}

/// Configuration of apt: everything below a folder, nothing of the system's.
fn configured(apart: &Path) -> String {
    let apart = apart.display();
    format!(
        "Dir::Etc::sourcelist \"{apart}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
         Dir::State \"{apart}/state\";\nDir::State::status \"{apart}/status\";\n\
         Dir::Cache \"{apart}/cache\";\nAPT::Architecture \"amd64\";\n\
         APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\nDebug::NoLocking \"1\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
    )
}
