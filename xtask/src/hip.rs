//! Checks of HIP without an AMD GPU.
//!
//! 1. What `hal-hip` declares of HIP's interface is what others' bindings declare
//!    (`testkit/hip-abi-check`).
//! 2. The real library has all functions, and the error without a GPU says so, also through the
//!    interposer.
//! 3. The declarations again, against bindings that build only with HIP's headers.
//! 4. The committed code objects of kernels are what their sources compile to.
//!
//! The second and third need Debian's packages with HIP, the last clang 19 and lld; they are
//! installed unless they are there.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::apt;
use crate::command::{cargo, run as run_command};
use crate::test::library;
use crate::{root, target_dir};

/// The runtime, and the package that has it.
const RUNTIME: &str = "libamdhip64-5";
/// The package that has the headers.
const HEADERS: &str = "libamdhip64-dev";
/// The compiler of the committed code object.
const COMPILER: &str = "clang-19";
/// The linker that it calls.
const LINKER: &str = "lld-19";
/// How it was called, but for the files.
const COMPILE: &str = "-x hip --cuda-device-only --offload-arch=gfx942 -O3 -nogpuinc -nogpulib \
                       --no-gpu-bundle-output -mcode-object-version=5 -fuse-cuid=none";
/// Kernels of benches and tests, what they compile to, and with which further options.
const KERNELS: [(&str, &str, &str); 7] = [
    ("hal-hip/kernels/spin.hip", "hal-hip/kernels/spin.gfx942.hsaco", ""),
    ("lab/kernels/work.hip", "lab/kernels/work.gfx942.hsaco", ""),
    ("shim/hip/tests/programs/fill.hip", "shim/hip/tests/programs/fill.gfx942.hsaco", ""),
    ("testkit/device-tests/kernels/note.hip", "testkit/device-tests/kernels/note.gfx942.hsaco", ""),
    (
        "testkit/gfx942/kernels/arithmetic.hip",
        "testkit/gfx942/kernels/arithmetic.O1.hsaco",
        "-ffp-contract=off -O1",
    ),
    (
        "testkit/gfx942/kernels/arithmetic.hip",
        "testkit/gfx942/kernels/arithmetic.O3.hsaco",
        "-ffp-contract=off",
    ),
    (
        "testkit/gfx942/kernels/matrix.hip",
        "testkit/gfx942/kernels/matrix.O3.hsaco",
        "-ffp-contract=off",
    ),
];
/// Where headers are: AMD's, Debian's.
const ROOTS: [&str; 2] = ["/opt/rocm", "/usr"];

/// Does it. What needs a package is left out only where there is no apt.
///
/// # Errors
/// If a check fails, or a package cannot be installed.
pub fn run() -> Result<()> {
    declarations(&[], "cubecl-hip-sys", None)?;
    if has_runtime() || apt::install(&[RUNTIME])? {
        let real = ["--test", "real", "--", "--ignored", "--nocapture"];
        run_command(library().args(real))?;
        let interposed = "test --locked -p xsched-shim-hip --test preload -- --ignored --nocapture";
        run_command(&mut cargo(interposed))?;
    } else {
        apt::left_out("the real HIP library", RUNTIME);
    }
    if root_of_headers().is_none() {
        apt::install(&[HEADERS])?;
    }
    match root_of_headers().filter(|_| has_runtime()) {
        Some(root) => declarations(&["--features", "check-hip-sys"], "hip-sys", Some(root))?,
        None => apt::left_out("the declarations against hip-sys", HEADERS),
    }
    if !apt::program(COMPILER, &[COMPILER, LINKER])? || !apt::program("ld.lld-19", &[LINKER])? {
        apt::left_out("what kernels compile to", COMPILER);
        return Ok(());
    }
    KERNELS
        .into_iter()
        .try_for_each(|(source, committed, options)| compare(source, committed, options))
}

/// Compiles a file of kernels, and compares.
fn compare(source: &str, committed: &str, options: &str) -> Result<()> {
    println!("hip: {committed} is what {source} compiles to");
    let made = target_dir().join("made.hsaco");
    let mut command = Command::new(COMPILER);
    command
        .args(COMPILE.split_whitespace())
        .args(options.split_whitespace())
        .arg("-o")
        .arg(&made)
        .arg(root().join(source));
    run_command(&mut command)?;
    ensure!(
        fs::read(&made)? == fs::read(root().join(committed))?,
        "{committed} is not what {source} compiles to; copy {} there",
        made.display()
    );
    Ok(())
}

/// Compares declarations. Only the types matter, so that it compiles is nearly all.
fn declarations(features: &[&str], with: &str, root: Option<&str>) -> Result<()> {
    println!("hip: declarations against {with}");
    let mut command = cargo("test --locked --manifest-path testkit/hip-abi-check/Cargo.toml");
    command.args(features).arg("--target-dir").arg(target_dir().join("abi-check"));
    command.envs(root.map(|root| ("HIP_PATH", root)));
    run_command(&mut command)
}

/// Where HIP's headers are, if they are anywhere.
fn root_of_headers() -> Option<&'static str> {
    let has = |root: &&str| Path::new(root).join("include/hip/hip_runtime_api.h").exists();
    ROOTS.into_iter().find(has)
}

/// True if the system's loader knows the package's HIP runtime.
fn has_runtime() -> bool {
    let loader = Command::new("ldconfig").arg("-p").output();
    loader.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains("libamdhip64.so.5"))
}
