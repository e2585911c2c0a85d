//! `cargo xtask test`: the tests of the library, which need nothing but Rust and a C compiler.

use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, run_and_keep};

/// The packages that the first command tests: the library, with the suites that hold it.
const LIBRARY: [&str; 13] = [
    "xsched",
    "xsched-capi",
    "xsched-conformance",
    "xsched-core",
    "xsched-hal-cuda",
    "xsched-hal-hip",
    "xsched-hal-host",
    "xsched-hal-kfd",
    "xsched-hal-process",
    "xsched-hal-stream",
    "xsched-policies",
    "xsched-policy-conformance",
    "xsched-sim",
];
/// The package of features, which both commands have, so that they share what they build.
const FEATURES: &str = "xsched-features";
/// The package that only Python builds as it is meant to be.
const PYTHON: &str = "xsched-python";
/// Parts that only `cargo xtask ci` has.
const LEFT_OUT: &str = "left out, see `cargo xtask ci`: tests of the experiments, the command line, the emulators and \
     the chores; lints, loom models and their mutants, a stress test, fuzzing, the proof that \
     the core needs no std, programs in C and C++, Python, AMD's kernel driver in a virtual \
     machine, AMD's own runtime on an emulated GPU, Slurm, Podman, \
     Kubernetes, Ray";

/// Runs the tests of the library, with those in its documentation, and answers the test runner's
/// closing lines.
///
/// # Errors
/// If a test fails.
pub fn run() -> Result<Vec<String>> {
    let closing = run_and_keep(&mut library(), "test result:")?;
    println!("test: {LEFT_OUT}");
    Ok(closing)
}

/// Runs the tests of all other packages, and answers the test runner's closing lines.
///
/// # Errors
/// If a test fails.
pub(crate) fn run_the_rest() -> Result<Vec<String>> {
    run_and_keep(&mut rest("test"), "test result:")
}

/// A command of cargo for all other packages. With further arguments it takes what is built.
pub(crate) fn rest(command: &str) -> Command {
    let mut command = cargo(&format!("{command} --workspace --all-features --locked"));
    let left_out = LIBRARY.iter().chain([&PYTHON]);
    command.args(left_out.flat_map(|name| ["--exclude", name]));
    command
}

/// The command that tests the library. With further arguments it runs what is built already.
pub(crate) fn library() -> Command {
    let mut command = cargo("test --all-features --locked");
    command.args(LIBRARY.iter().chain([&FEATURES]).flat_map(|name| ["--package", name]));
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The packages of a command, as lines with their features.
    fn built(command: &Command) -> BTreeSet<String> {
        let mut tree = cargo("tree --edges normal,dev,build --prefix none --no-dedupe --format");
        tree.arg("{p} {f}").args(command.get_args().skip(1));
        let output = tree.output().expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    /// Otherwise both commands build xsched-core and all that needs it, each for itself.
    #[test]
    fn what_both_commands_build_has_the_same_features() {
        let rest = built(&rest("test"));
        let names: BTreeSet<_> = rest.iter().filter_map(|line| line.split(' ').next()).collect();
        let library = built(&library());
        let is_in_both = |line: &&String| line.split(' ').next().is_some_and(|n| names.contains(n));
        let apart: Vec<_> = library.difference(&rest).filter(is_in_both).collect();
        assert!(apart.is_empty(), "not in testkit/features/Cargo.toml: {apart:#?}");
    }
}
