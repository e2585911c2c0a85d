//! Which device rows are run on.

use std::env;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::console::note;
use crate::error::{CommandError, UNUSABLE};
use crate::parent;
use crate::rows::plan::Hal;

/// What is tried where no device was asked for.
const ORDER: [Hal; 3] = [Hal::Cuda, Hal::Hip, Hal::Host];
/// Opening a device takes longer only if its driver hangs.
const OPEN_MAX: Duration = Duration::from_secs(120);
/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(10);

/// The device that was asked for, or else the first that works.
///
/// # Errors
/// If the one that was asked for cannot be used.
pub(super) fn choose(asked: Option<Hal>) -> Result<Hal, CommandError> {
    choose_by(asked, open)
}

fn choose_by(
    asked: Option<Hal>,
    open: impl Fn(Hal) -> Result<(), String>,
) -> Result<Hal, CommandError> {
    let mut last = String::new();
    for &hal in asked.as_ref().map_or(&ORDER[..], std::slice::from_ref) {
        match open(hal) {
            Ok(()) => return Ok(hal),
            Err(why) => {
                note(|| format!("{}: {why}", hal.name()));
                last = why;
            }
        }
    }
    Err(CommandError::device(last))
}

/// Opens a device in a process of its own: one that this process had open would change what is
/// measured.
fn open(hal: Hal) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["bench", "open", "--hal", hal.name()]).args(parent::arguments());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < OPEN_MAX => thread::sleep(LOOK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("opening it took longer than {} s", OPEN_MAX.as_secs()));
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    // Without its errors the code has to do.
    let _ = child.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map(|line| line.trim_start_matches("error: ").trim_start_matches(UNUSABLE));
    Err(last.map_or_else(|| status.to_string(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(asked: Option<Hal>, works: &[Hal]) -> Result<Hal, String> {
        let open = |hal| match works.contains(&hal) {
            true => Ok(()),
            false => Err("no such library".to_owned()),
        };
        choose_by(asked, open).map_err(|error| error.to_string())
    }

    #[test]
    fn a_gpu_that_works_comes_before_the_processor() {
        assert_eq!(chosen(None, &[Hal::Host, Hal::Hip]), Ok(Hal::Hip));
        assert_eq!(chosen(None, &[Hal::Host]), Ok(Hal::Host));
        assert_eq!(chosen(Some(Hal::Host), &[Hal::Host, Hal::Cuda]), Ok(Hal::Host));
        let refused = chosen(Some(Hal::Cuda), &[Hal::Host]).unwrap_err();
        assert_eq!(refused, "the device cannot be used: no such library");
    }
}
