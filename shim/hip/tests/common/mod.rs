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

/// Compiles a program of `tests/programs`.
pub(crate) fn compile(source: &str, to: &Path, arguments: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut command = cc();
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(to).arg(source);
    run(command.args(arguments));
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
    for variable in VARIABLES {
        command.env_remove(variable);
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
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().last(), Some(last), "{command:?}");
}
