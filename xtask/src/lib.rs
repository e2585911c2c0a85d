//! Repository chores, behind `cargo xtask`.
//!
//! | chore | what it does |
//! |---|---|
//! | [`tidy`] | checks the house rules that the compiler and clippy cannot check |
//! | [`mod@test`] | the tests that need nothing but Rust and a C compiler |
//! | [`proof`] | shows that the core and the policies need neither std nor an allocator |
//! | [`fuzz`] | runs the fuzz targets from the corpora that are checked in |
//! | [`loom`] | runs the loom models of what threads share |
//! | [`mutants`] | puts deliberate defects into a copy, which models or tests must notice |
//! | [`package`] | packages the crates that are published, and builds them from their packages |
//! | [`hip`] | checks what can be checked about HIP without an AMD GPU |
//! | [`capi`] | the C API: its headers, its installation, and programs that use it |
//! | [`deb`] | builds the package for Debian and tries it out |
//! | [`kfd_vm`] | compares AMD's kernel driver, in a virtual machine, with the emulator |
//! | [`rocm`] | runs the project's checks on AMD's own HIP and ROCr over an emulated GPU |
//! | [`lab`] | runs the experiments of the test plan on the processor, with stand-ins |
//! | [`python`] | installs the package for Python and tests it |
//! | [`integrations`] | runs what is for clusters with the real engines |
//! | [`book`] | writes the generated parts of the book, builds it, checks its links |
//! | [`ci`] | everything that CI does, in order |
//! | [`ahead`] | builds for later steps of CI, while its tests wait |
#![forbid(unsafe_code)]

use std::path::PathBuf;

pub mod ahead;
mod apt;
pub mod book;
pub mod capi;
pub mod ci;
mod command;
pub mod deb;
mod demo;
pub mod fuzz;
pub mod hip;
pub mod integrations;
pub mod kfd_vm;
pub mod lab;
pub mod loom;
pub mod mutants;
pub mod package;
pub mod proof;
pub mod python;
pub mod rocm;
pub mod stress;
pub mod test;
pub mod tidy;
pub mod tour;

/// The command of the README that does the main job.
pub const MAIN_JOB: &str = "cargo demo";
/// The command of the README that runs the tests.
pub const TEST_JOB: &str = "cargo xtask test";

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    // Cargo sets the variable for what it runs; it is right even if clones share a target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().unwrap_or(&here).to_path_buf()
}

/// Where builds go.
#[must_use]
pub fn target_dir() -> PathBuf {
    // An absolute path in the variable replaces the root.
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
