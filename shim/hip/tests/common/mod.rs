//! Programs in C, and the interposer in front of them.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Variables of this machine that must not matter.
const VARIABLES: [&str; 7] = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "XSCHED_HIP_RUNTIME",
    "XSCHED_HIP_LIB",
    "XSCHED_SHIM_COUNTS",
    "XSCHED_AUTO_XQUEUE",
    "XSCHED_AUTO_XQUEUE_UNIT",
];

/// The variable that names HIP's own runtime for the tests of scheduling, on a GPU or an emulated
/// one, where the environment says what else it needs: `cargo xtask rocm` sets it.
const REAL: &str = "XSCHED_REAL_HIP";

/// Options of the linker for programs that are to run on that.
const LINK: &str = "XSCHED_REAL_LINK";

/// The runtime that is scheduled on: HIP's own if [`REAL`] names it, or the emulated one.
pub(crate) fn runtime() -> PathBuf {
    env::var_os(REAL).map_or_else(|| beside("libxsched_hip_emulated.so"), PathBuf::from)
}

/// Warning of Debian's ROCr, which is built with its assertions, at each wait of HIP's.
const ROCR_WARNS: &str = "Warning: (!g_use_interrupt_wait || isIPC())";

/// Returns whether the runtime is HIP's own.
pub(crate) fn is_real() -> bool {
    env::var_os(REAL).is_some()
}

/// The runtime's names.
pub(crate) const SONAMES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

fn cc() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn run(command: &mut Command) {
    let status = command.status().expect("a C compiler; install one, or set CC");
    assert!(status.success(), "{command:?}");
}

fn program_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles a program of `tests/programs`.
pub(crate) fn compile(source: &str, to: &Path, arguments: &[&str]) {
    let mut command = cc();
    let source = program_file(source);
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(to).arg(source);
    let for_runtime = env::var(LINK).unwrap_or_default();
    run(command.args(arguments).args(for_runtime.split_whitespace()));
}

/// The interposer, which cargo puts where it puts the tests.
pub(crate) fn interposer() -> PathBuf {
    beside("libshimhip.so")
}

/// A library that cargo puts there too.
pub(crate) fn beside(library: &str) -> PathBuf {
    env::current_exe().expect("a test").with_file_name(library)
}

/// Links the libraries that have the runtime's names, as `cargo xtask install` does.
pub(crate) fn names(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("versions.map");
    for soname in SONAMES {
        let mut command = cc();
        command.args(["-shared", "-nostdlib", "-Wl,--no-as-needed", "-o"]);
        command.arg(folder.join(soname)).arg(format!("-Wl,-soname,{soname}"));
        command.arg(format!("-Wl,--version-script={}", script.display()));
        run(command.arg(interposer()));
    }
}

/// A program with the interposer under all names, and without what this machine's environment says.
pub(crate) fn with_interposer(program: impl AsRef<Path>, names: &Path) -> Command {
    let libraries = SONAMES.iter().map(|soname| names.join(soname));
    with_preloaded(program, [interposer()].into_iter().chain(libraries))
}

/// A program with these libraries preloaded.
pub(crate) fn with_preloaded(
    program: impl AsRef<Path>,
    libraries: impl IntoIterator<Item = PathBuf>,
) -> Command {
    let mut command = Command::new(program.as_ref());
    let mut libraries: Vec<_> = libraries.into_iter().collect();
    let is_real = is_real();
    for variable in VARIABLES {
        if !is_real || variable != "LD_LIBRARY_PATH" {
            command.env_remove(variable);
        }
    }
    if is_real {
        // What emulates the GPU and its driver, and what watches their calls.
        command.env("KERNELS", program_file("fill.gfx942.hsaco"));
        let preloaded = env::var_os("LD_PRELOAD").unwrap_or_default();
        libraries.extend(env::split_paths(&preloaded).filter(|path| path.is_absolute()));
    }
    command.env("LD_PRELOAD", env::join_paths(libraries).expect("paths without colons"));
    command
}

/// Runs it, and checks that it finds nothing wrong.
pub(crate) fn says(command: &mut Command) -> Output {
    let output = command.output().expect("a program");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("FAILED"), "{command:?}: {output:?}");
    output
}

/// Runs it, and checks its last line and that it complains of nothing.
pub(crate) fn check(command: &mut Command, last: &str) {
    let output = says(command);
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaints = complaints.lines().filter(|line| !line.starts_with(ROCR_WARNS));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0], "{command:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().last(), Some(last), "{command:?}");
}
