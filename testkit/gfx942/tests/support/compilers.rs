//! Kernels that are compiled when tests run, by whatever compilers are there.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compilers, and the name that they have for this hardware or for what is the same but for memory.
const COMPILERS: [(&str, &str); 6] = [
    ("clang-15", "gfx940"),
    ("clang-16", "gfx940"),
    ("clang-17", "gfx942"),
    ("clang-18", "gfx942"),
    ("clang-19", "gfx942"),
    ("clang-20", "gfx942"),
];

/// As in `xtask/src/hip.rs`, with every rounding as the source has it.
const OPTIONS: &str = "-x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output \
                       -mcode-object-version=5 -fuse-cuid=none -ffp-contract=off";

fn compile(compiler: &str, target: &str, level: &str, source: &Path) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made.hsaco");
    let mut command = Command::new(compiler);
    command.args(OPTIONS.split_whitespace()).arg(format!("--offload-arch={target}")).arg(level);
    let output = command.arg("-o").arg(&made).arg(source).output().unwrap();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().find(|line| line.contains("error")).unwrap_or_default();
        println!("LEFT OUT: {compiler} {level}: {why}");
        return None;
    }
    Some(std::fs::read(made).unwrap())
}

/// Returns what each compiler makes at each level, with its name. Names a compiler that is missing.
pub(crate) fn objects(source: &str, levels: &[&str]) -> Vec<(String, Vec<u8>)> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kernels").join(source);
    let mut objects = Vec::new();
    for (compiler, target) in COMPILERS {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("LEFT OUT: {compiler} is not installed");
            continue;
        }
        // Without optimisation these restore vector registers before `exec` (LLVM's issue 61083).
        let is_broken =
            |level: &str| level == "-O0" && ["clang-15", "clang-16"].contains(&compiler);
        for level in levels {
            if is_broken(level) {
                println!("LEFT OUT: {compiler} {level}, which compiles to wrong code");
                continue;
            }
            let object = compile(compiler, target, level, &source);
            objects.extend(object.map(|object| (format!("{compiler} {level}"), object)));
        }
    }
    objects
}
