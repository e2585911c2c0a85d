//! Benches in processes of their own, so that one that hangs or is killed by a lost device takes
//! nothing else along.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(20);

/// How a process ended.
#[derive(Debug)]
pub(in crate::commands) enum Ended {
    /// The process did what it was asked to; with a finding or without.
    Well,
    /// The process did not do what it was asked to: why, in words.
    Badly(String),
}

/// Runs a command, with its output and errors in two files, and ends it after `limit`.
pub(in crate::commands) fn run(
    mut command: Command,
    output: &Path,
    errors: &Path,
    limit: Duration,
) -> Ended {
    match run_to_end(&mut command, output, errors, limit) {
        Err(error) => Ended::Badly(format!("it could not be run: {error}")),
        Ok(None) => Ended::Badly(format!("it was ended after {} s", limit.as_secs_f64())),
        Ok(Some(status)) if matches!(status.code(), Some(0 | 1)) => Ended::Well,
        Ok(Some(status)) => Ended::Badly(complaint(status, errors)),
    }
}

/// How it ended, or `None` if it had to be ended.
fn run_to_end(
    command: &mut Command,
    output: &Path,
    errors: &Path,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let (output, errors) = (File::create(output)?, File::create(errors)?);
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// Returns the complaint of a program that did not end well.
fn complaint(status: ExitStatus, errors: &Path) -> String {
    let said = fs::read_to_string(errors).unwrap_or_default();
    match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => last.trim_start_matches("error: ").to_owned(),
        None => format!("it ended with {status} and said nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, &folder.path().join("out"), &folder.path().join("err"), limit)
    }

    #[test]
    fn a_finding_is_no_failure_and_the_last_line_of_an_error_is_kept() {
        let long = Duration::from_secs(60);
        assert!(matches!(shell("exit 0", long), Ended::Well));
        assert!(matches!(shell("exit 1", long), Ended::Well));
        let Ended::Badly(why) = shell("echo first >&2; echo error: no device >&2; exit 2", long)
        else {
            panic!("code 2 is an error")
        };
        assert_eq!(why, "no device");
        let Ended::Badly(why) = shell("kill -9 $$", long) else { panic!("it was killed") };
        assert!(why.contains("signal"), "{why}");
    }

    #[test]
    fn what_hangs_is_ended() {
        let Ended::Badly(why) = shell("exec sleep 1000", Duration::from_millis(50)) else {
            panic!("it did not end")
        };
        assert_eq!(why, "it was ended after 0.05 s");
    }
}
