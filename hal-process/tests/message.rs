//! Messages to a standard error that takes none, written by a process of their own.
#![expect(unsafe_code, reason = "the test's program ignores SIGPIPE from its start")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use xsched_hal_process::message;

/// Set in the process that writes.
const INSIDE: &str = "XSCHED_TEST_MESSAGE";
/// Set if it ignores SIGPIPE.
const IGNORES: &str = "XSCHED_TEST_IGNORES";
/// More bytes than a pipe takes.
const MANY: usize = 1 << 20;

/// Lists this process's signals as the system has them. Those that are queued are counted by user.
fn signals() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").expect("a file");
    let is_one = |line: &&str| {
        (line.starts_with("Sig") || line.starts_with("ShdPnd")) && !line.starts_with("SigQ")
    };
    status.lines().filter(is_one).collect::<Vec<_>>().join("\n")
}

#[test]
fn writes() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    if std::env::var_os(IGNORES).is_none() {
        // SAFETY: no handler is set.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    let before = signals();
    message::line(format_args!("a line"));
    message::Stderr.write_all(&vec![b'.'; MANY]).expect("it never fails");
    assert_eq!(signals(), before);
    println!("wrote");
}

/// Returns what the process prints whose standard error is this.
fn printed(script: &str, target: Stdio) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(std::env::current_exe().expect("a test"));
    command.args(["--exact", "writes", "--nocapture"]).env(INSIDE, "1").stderr(target);
    let output = command.output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn whatever_standard_error_is_the_process_goes_on() {
    let full = || File::options().write(true).open("/dev/full").expect("a device");
    for script in ["exec \"$@\"", "exec \"$@\" 2>&-", "XSCHED_TEST_IGNORES=1 exec \"$@\""] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        for target in [Stdio::null(), full().into(), writer.into()] {
            assert!(printed(script, target).contains("wrote"), "{script}");
        }
    }
}

#[test]
fn what_fits_arrives_and_nothing_is_waited_for() {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    // It is read after the process has ended.
    assert!(printed("exec \"$@\"", writer.into()).contains("wrote"));
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    assert!(text.starts_with("a line\n....") && text.len() < MANY, "{} bytes", text.len());
}

#[test]
fn a_file_that_may_not_grow_is_no_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = File::create(folder.path().join("log")).expect("a file");
    // SIGXFSZ would come with the first byte behind 512.
    assert!(printed("ulimit -f 1; exec \"$@\"", file.into()).contains("wrote"));
}
