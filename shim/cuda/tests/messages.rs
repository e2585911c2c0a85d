//! Programs whose standard error is closed, full, or a pipe without a reader: what this library
//! says does not end them, and their signals and descriptors are as without it.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::emulated::scheduled;
use common::{compile, interposer, with_interposer};

/// Shell scripts that start a program with such a standard error.
const SCRIPTS: [(&str, &str); 3] = [
    ("as it is", "exec \"$@\""),
    ("closed", "exec \"$@\" 2>&-"),
    ("SIGPIPE is ignored", "trap '' PIPE; exec \"$@\""),
];

/// Standard errors, by what is wrong with them.
fn targets() -> [(&'static str, Stdio); 3] {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let full = File::options().write(true).open("/dev/full").expect("a device");
    [("open", Stdio::null()), ("full", full.into()), ("a pipe without a reader", writer.into())]
}

/// Runs a program in all these ways, and checks that it ends in the same way and prints the same.
fn check_alike(command: &Command) {
    let outcome = |output: &Output| (output.status, output.stdout.clone());
    let mut first = None;
    for (script_name, script) in SCRIPTS {
        for (name, target) in targets() {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
            for (variable, value) in command.get_envs() {
                match value {
                    Some(value) => shell.env(variable, value),
                    None => shell.env_remove(variable),
                };
            }
            let output = shell.stderr(target).output().expect("a shell");
            let usual = first.get_or_insert_with(|| outcome(&output));
            assert_eq!(&outcome(&output), usual, "{script_name}, {name}: {output:?}");
        }
    }
    let (status, stdout) = first.expect("runs");
    assert!(status.success(), "{status:?}: {}", String::from_utf8_lossy(&stdout));
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_complaint_of_a_missing_driver_is_no_end() {
    let folder = folder();
    let program = folder.path().join("opens");
    compile("program.c", &program, &["-ldl", "-pthread"]);
    let mut command = with_interposer(program);
    check_alike(command.arg("missing").env("XSCHED_CUDA_DRIVER", "/nowhere/libcuda.so.1"));
}

#[test]
fn a_complaint_of_a_missing_library_is_no_end() {
    let folder = folder();
    let alone = folder.path().join("libshimcuda.so");
    fs::copy(interposer(), &alone).expect("a copy");
    check_alike(scheduled("schedule", "streams").env("LD_PRELOAD", alone));
}

#[test]
fn a_line_of_the_log_is_no_end() {
    let mut command = scheduled("schedule", "streams");
    command.env("XLOG_LEVEL", "DEBUG").env("XSCHED_AUTO_XQUEUE_UNIT", "streams");
    check_alike(command.env("XSCHED_AUTO_XQUEUE_THRESHOLD", "eleven"));
}

#[test]
fn a_file_of_counts_that_cannot_be_written_is_no_end() {
    let nowhere = Path::new("/nowhere/counts.json");
    check_alike(scheduled("schedule", "streams").env("XSCHED_SHIM_COUNTS", nowhere));
}
