//! `cargo xtask capi`: programs in C and C++ use the C API as it is installed.
//!
//! 1. The headers are up to date, and compile alone and in pairs, in C from C99 on and in C++ from
//!    C++11 on.
//! 2. Each library exports what its version script names, and nothing else.
//! 3. A program that calls every function, as C and as C++, found by pkg-config.
//! 4. The bench: its rows that need no GPU take no more than they did.
//! 5. Programs that know nothing of XQueues, with an interposer.
//! 6. The examples, built by CMake, on the host device and on the emulated HIP runtime, and a
//!    program that uses all targets of the CMake package. A test of `CTest` runs a program by the
//!    installed command `xsched run`, with the installed interposer.
//! 7. The package for Python, beside the libraries; it runs a program as well.
//!
//! With `--sanitize`, random calls under `AddressSanitizer` instead.
//!
//! Programs find the libraries by `LD_LIBRARY_PATH` alone. gcc and g++ must be there; clang,
//! pkg-config and CMake are installed from Debian's packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use object::{Object, ObjectSymbol};

use super::compile;
use super::headers;
use super::install::{self, LIBRARIES, symbols};
use super::{interpose, sanitize, speed};
use crate::apt;
use crate::command::{release, run as run_command};
use crate::{python, root, target_dir};

/// Compilers, with their packages and what makes one compile a file as what.
const COMPILERS: [(&str, &str, &[&str]); 4] = [
    ("gcc", "gcc", &["-x", "c", "-std=c11"]),
    ("clang-19", "clang-19", &["-x", "c", "-std=c11"]),
    ("g++", "g++", &["-x", "c++", "-std=c++17"]),
    ("clang++-19", "clang-19", &["-x", "c++", "-std=c++17"]),
];
pub(super) const WARNINGS: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];
/// The program that calls everything.
const PROGRAM: &str = "capi/tests/programs/all.c";
const EXAMPLES: [&str; 3] = ["priorities", "manual", "callbacks"];
/// The program that uses the package for Python.
const MODULE: &str = "capi/tests/programs/module.py";

/// Parts to check.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Options {
    /// Only call the C API at random under AddressSanitizer, with this many sequences of calls;
    /// 200,000 unless you say how many. Needs a nightly toolchain.
    #[arg(long, value_name = "SEQUENCES", num_args = 0..=1, default_missing_value = "200000")]
    pub sanitize: Option<u32>,
}

/// Does it.
///
/// # Errors
/// If a check fails.
pub fn run(options: &Options) -> Result<()> {
    if let Some(sequences) = options.sanitize {
        return sanitize::run(sequences);
    }
    headers::run(&headers::Options { check: true })?;
    let prefix = target_dir().join("capi");
    install::run(&install::Options { prefix: prefix.clone() })?;
    exports(&prefix)?;
    install::check_stack(&prefix.join("bin/xsched"))?;
    let made = target_dir().join("capi-programs");
    fs::create_dir_all(&made)?;
    compile::run(&prefix.join("include"), &made)?;
    for (compiler, package, language) in COMPILERS {
        if !apt::program(compiler, &[package])? {
            apt::left_out("the C API with another compiler", compiler);
            continue;
        }
        program(&prefix, compiler, language, &made.join(format!("all-{compiler}")))?;
    }
    run_command(&mut release("build --release --locked -p xsched-hip-emulated"))?;
    speed::run(&prefix, &made)?;
    interpose::run(&prefix, &made)?;
    examples(&prefix)?;
    module(&prefix)
}

/// Uses the package for Python, which finds the libraries by itself.
fn module(prefix: &Path) -> Result<()> {
    let mut command = Command::new(python::interpreter()?);
    command.arg(root().join(MODULE)).arg(prefix.join("lib/libpreempt.so"));
    command.env("PYTHONPATH", prefix.join("lib/python")).env_remove("LD_LIBRARY_PATH");
    run_command(command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("XSCHED_LIB_DIR"))?;
    let mut command = Command::new(python::interpreter()?);
    command.args(["-m", "xsched", "run", "true"]).env("PYTHONPATH", prefix.join("lib/python"));
    run_command(command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("XSCHED_LIB_DIR"))
}

/// Compares what the libraries export with their version scripts.
fn exports(prefix: &Path) -> Result<()> {
    for name in LIBRARIES {
        let path = prefix.join(format!("lib/lib{name}.so"));
        let exported = exported(&fs::read(&path)?)?;
        let listed: BTreeSet<_> = symbols(name)?.into_iter().collect();
        ensure!(exported == listed, "{} exports {exported:?}, and not {listed:?}", path.display());
        println!("capi: lib{name}.so exports {} symbols, as listed", exported.len());
    }
    Ok(())
}

/// The functions and data that a shared library defines for others.
fn exported(library: &[u8]) -> Result<BTreeSet<String>> {
    let file = object::File::parse(library)?;
    let mut names = BTreeSet::new();
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
        names.insert(symbol.name()?.to_owned());
    }
    Ok(names)
}

/// Compiles the program that calls everything, and runs it.
fn program(prefix: &Path, compiler: &str, language: &[&str], to: &Path) -> Result<()> {
    let mut command = Command::new(compiler);
    command.args(language).args(WARNINGS).arg("-o").arg(to).arg(root().join(PROGRAM));
    command.args(flags(prefix)?);
    run_command(&mut command)?;
    run_command(Command::new(to).env("LD_LIBRARY_PATH", prefix.join("lib")))
}

/// Flags of a compiler for the host device, by pkg-config.
fn flags(prefix: &Path) -> Result<Vec<String>> {
    if !apt::program("pkg-config", &["pkg-config"])? {
        apt::left_out("the files for pkg-config", "pkg-config");
        let (include, lib) = (prefix.join("include"), prefix.join("lib"));
        let flags = [format!("-I{}", include.display()), format!("-L{}", lib.display())];
        return Ok(flags
            .into_iter()
            .chain(["-lhalhost", "-lpreempt"].map(str::to_owned))
            .collect());
    }
    for backend in ["hip", "cuda"] {
        let flags = pkg_config(prefix, backend)?;
        let has = |flag: &str| flags.iter().any(|there| there == flag);
        ensure!(has(&format!("-lhal{backend}")) && has("-lpreempt"), "xsched-{backend}: {flags:?}");
    }
    pkg_config(prefix, "host")
}

/// Flags of a backend by pkg-config.
fn pkg_config(prefix: &Path, backend: &str) -> Result<Vec<String>> {
    let mut command = Command::new("pkg-config");
    command.args(["--cflags", "--libs", &format!("xsched-{backend}")]);
    let said = command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).output()?;
    ensure!(said.status.success(), "pkg-config: {}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8(said.stdout).context("pkg-config says something else")?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Builds the examples and the program that uses all targets by CMake, and runs them.
fn examples(prefix: &Path) -> Result<()> {
    if !apt::program("cmake", &["cmake", "make"])? {
        apt::left_out("the examples in C++ and the CMake package", "cmake");
        return Ok(());
    }
    let hip = target_dir().join("release/libxsched_hip_emulated.so");
    let build = cmake(prefix, "capi/examples")?;
    run_command(Command::new(build.join("first")).env("LD_LIBRARY_PATH", prefix.join("lib")))?;
    for example in EXAMPLES {
        for device in ["host", "hip"] {
            let mut command = Command::new(build.join(example));
            command.arg(device).env("XSCHED_HIP_LIB", &hip).env("XLOG_LEVEL", "ERRO");
            run_command(command.env("LD_LIBRARY_PATH", prefix.join("lib")))?;
        }
    }
    let build = cmake(prefix, "capi/tests/cmake")?;
    let mut program = Command::new(build.join("program"));
    run_command(program.env("LD_LIBRARY_PATH", prefix.join("lib")))?;
    let mut tests = Command::new("ctest");
    tests.current_dir(&build).args(["--output-on-failure", "--no-tests=error"]);
    for variable in ["LD_PRELOAD", "XSCHED_SCHEDULER", "XSCHED_POLICY"] {
        tests.env_remove(variable);
    }
    run_command(&mut tests)
}

/// Builds a project by CMake, with what is installed; answers where.
fn cmake(prefix: &Path, project: &str) -> Result<PathBuf> {
    let build = target_dir().join(project.replace('/', "-"));
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join(project)).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    // So that LD_LIBRARY_PATH alone says where the libraries are.
    run_command(configure.arg("-DCMAKE_SKIP_RPATH=ON"))?;
    run_command(Command::new("cmake").arg("--build").arg(&build))?;
    Ok(build)
}
