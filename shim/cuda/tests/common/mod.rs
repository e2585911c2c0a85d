//! Programs in C, and the interposer in front of them.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod emulated;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Variables of this machine that must not matter.
const VARIABLES: [&str; 12] = [
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "XSCHED_CUDA_DRIVER",
    "XSCHED_SHIM_COUNTS",
    "XSCHED_AUTO_XQUEUE",
    "XSCHED_AUTO_XQUEUE_UNIT",
    "XSCHED_AUTO_XQUEUE_LEVEL",
    "XSCHED_AUTO_XQUEUE_GRAPHS",
    "XSCHED_GATE_SPACING_US",
    "XSCHED_POLICY",
    "XSCHED_CUDA_LIB",
];

/// Compiles a program of `tests/programs`.
pub(crate) fn compile(source: &str, to: &Path, arguments: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(to).arg(source).args(arguments);
    let status = command.status().expect("a C compiler; install one, or set CC");
    assert!(status.success(), "{command:?}");
}

/// The interposer, which cargo puts where it puts the tests.
pub(crate) fn interposer() -> PathBuf {
    beside("libshimcuda.so")
}

/// A library that cargo puts there too.
pub(crate) fn beside(library: &str) -> PathBuf {
    env::current_exe().expect("a test").with_file_name(library)
}

/// A program with the interposer, and without what this machine's environment says.
pub(crate) fn with_interposer(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.env("LD_PRELOAD", interposer());
    command
}

/// Runs it, and checks that it finds nothing wrong.
pub(crate) fn says(command: &mut Command) -> Output {
    let output = command.output().expect("a program");
    finds_nothing_wrong(command, &output);
    output
}

fn finds_nothing_wrong(command: &Command, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("FAILED"), "{command:?}: {output:?}");
}

/// Message where the machine is so busy that a call takes long, and all is let go meanwhile.
const BUSY: &str = "calls into the driver did not return while queues were held";
/// Runs of which one has to be without that.
const TIMES_MAX: usize = 8;

/// Runs it until no call waited for gates, and checks that it finds nothing wrong then.
pub(crate) fn calm(command: &mut Command) -> Output {
    let is_calm = |output: &Output| !String::from_utf8_lossy(&output.stderr).contains(BUSY);
    let mut runs = (0..TIMES_MAX).map(|_| command.output().expect("a program"));
    let output = runs.find(is_calm);
    let output = output.unwrap_or_else(|| panic!("{command:?}: too busy {TIMES_MAX} times"));
    finds_nothing_wrong(command, &output);
    output
}

/// Runs it, and checks its last line and that it complains of nothing.
pub(crate) fn check(command: &mut Command, last: &str) {
    let output = calm(command);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().last(), Some(last), "{command:?}");
}
