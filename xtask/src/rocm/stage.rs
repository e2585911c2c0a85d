//! Stage of the checks, which run with a time limit and a log each.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use super::build::Built;
use super::runtime::Runtime;

/// Checks that run at once. Each has threads for its emulated device besides.
const AT_ONCE: usize = 2;
/// All checks on a runtime end within this.
const ALL_WITHIN: Duration = Duration::from_secs(360);
/// Lines of a failed check's log that are printed.
const LAST_LINES: usize = 25;

/// A runtime and what was built, on a GPU that is emulated unless something else was asked for.
pub(super) struct Stage<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) built: &'a Built,
    /// Words in front of each program.
    pub(super) emulator: &'a [OsString],
    /// True if that is the project's own emulator.
    pub(super) is_emulated: bool,
    /// Where logs go.
    pub(super) logs: PathBuf,
    pub(super) start: Instant,
}

/// How a hold at Lv3 is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    DebugTrap,
    /// With the library preloaded that watches the driver's calls.
    UpdateQueue,
}

impl Mechanism {
    pub(super) const ALL: [Self; 2] = [Self::DebugTrap, Self::UpdateQueue];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DebugTrap => "debug-trap",
            Self::UpdateQueue => "update-queue",
        }
    }
}

/// A check: a program, and what tells from its output how many checks it passed.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) level: &'static str,
    pub(super) mechanism: Option<Mechanism>,
    pub(super) command: Command,
    pub(super) limit: Duration,
    pub(super) judge: Judge,
}

/// How many checks a program passed, by what it printed to standard output.
pub(super) type Judge = fn(&str) -> Result<usize>;

/// Outcome of a check.
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) level: &'static str,
    pub(super) mechanism: Option<Mechanism>,
    pub(super) passed: Result<usize>,
    pub(super) took: Duration,
}

impl Stage<'_> {
    /// A program on the runtime, without what this machine's environment says about it.
    pub(super) fn command(&self, program: &Path, mechanism: Option<Mechanism>) -> Command {
        let loader = self.runtime.loader.as_ref();
        let by_loader = |command: &mut Command| {
            let Some(loader) = loader else { return };
            command.arg(&loader.program).arg("--library-path").arg(joined(&self.folders()));
        };
        self.command_by(by_loader, program, mechanism)
    }

    /// A program that does not use the runtime itself, but builds and starts others that do.
    pub(super) fn starter(&self, program: &Path) -> Command {
        let mut command = self.command_by(|_| {}, program, None);
        if let Some(loader) = &self.runtime.loader {
            command.env("XSCHED_REAL_LINK", linked(&loader.program, &self.folders()));
        }
        command
    }

    /// Where libraries are.
    fn folders(&self) -> Vec<PathBuf> {
        let Runtime { links, beside, loader, .. } = self.runtime;
        let folders = [links, beside, &self.built.libraries].into_iter();
        folders.chain(loader.as_ref().map(|loader| &loader.libraries)).cloned().collect()
    }

    fn command_by(
        &self,
        loader: impl FnOnce(&mut Command),
        program: &Path,
        mechanism: Option<Mechanism>,
    ) -> Command {
        let mut words = self.emulator.iter();
        let mut command = Command::new(words.next().map_or("env".as_ref(), OsString::as_os_str));
        command.args(words);
        loader(&mut command);
        if self.runtime.loader.is_none() {
            command.env("LD_LIBRARY_PATH", joined(&self.folders()));
        }
        let hip = &self.runtime.hip;
        command.arg(program).env("XSCHED_HIP_LIB", hip).env("XSCHED_REAL_HIP", hip);
        for variable in ["LD_PRELOAD", "XSCHED_POLICY", "XSCHED_SCHEDULER", "XSCHED_KFD_PATCHED"] {
            command.env_remove(variable);
        }
        command.env("HSA_NO_SCRATCH_RECLAIM", "1").env("DEBUG_HIP_DYNAMIC_QUEUES", "0");
        if let Some(mechanism) = mechanism {
            command.env("XSCHED_KFD_MECHANISM", mechanism.name());
        }
        if mechanism == Some(Mechanism::UpdateQueue) {
            command.env("LD_PRELOAD", &self.built.watch);
        }
        command
    }

    /// Runs checks, some at once, and says how each went as soon as it is known.
    pub(super) fn run(&self, checks: Vec<Check>) -> Vec<Outcome> {
        let left = Mutex::new(VecDeque::from(checks));
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || {
            let mut outcomes = Vec::new();
            while let Some(check) = next() {
                outcomes.push(self.one(check));
            }
            outcomes
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        })
    }

    fn log(&self, name: &str, mechanism: Option<Mechanism>) -> PathBuf {
        let file = format!("{name} {}", mechanism.map_or("", Mechanism::name));
        self.logs.join(file.trim().replace([' ', '.'], "-"))
    }

    /// Output of a check.
    pub(super) fn output(&self, name: &str, mechanism: Mechanism) -> Option<String> {
        fs::read_to_string(self.log(name, Some(mechanism)).with_extension("out")).ok()
    }

    fn one(&self, check: Check) -> Outcome {
        let Check { name, level, mechanism, mut command, limit, judge } = check;
        let log = self.log(name, mechanism);
        let start = Instant::now();
        let limit = limit.min(ALL_WITHIN.saturating_sub(self.start.elapsed()));
        let ended = within(&mut command, limit, &log);
        let passed = ended.and_then(|(status, said)| {
            ensure!(status.success(), "it ended with {status}");
            judge(&said)
        });
        let took = start.elapsed();
        let by = mechanism.map_or(String::new(), |mechanism| format!(" by {}", mechanism.name()));
        match &passed {
            Ok(count) => println!("rocm: {name}{by}: {count} passed, {:.1} s", took.as_secs_f64()),
            Err(why) => println!("rocm: {name}{by} FAILED: {why:#}\n{}", last_lines(&log)),
        }
        Outcome { name, level, mechanism, passed, took }
    }
}

/// Options of the linker for programs that checks build: they start by this loader, and they and
/// all that they load find libraries in these folders.
fn linked(loader: &Path, folders: &[PathBuf]) -> OsString {
    let mut options = OsString::from("-Wl,--disable-new-dtags,-rpath,");
    options.push(joined(folders));
    options.push(" -Wl,--dynamic-linker=");
    options.push(loader);
    options
}

fn joined(folders: &[PathBuf]) -> OsString {
    let texts = folders.iter().map(|folder| folder.as_os_str());
    texts.collect::<Vec<_>>().join(":".as_ref())
}

/// Runs a program into a log for at most this long, and ends all of its process group then.
fn within(command: &mut Command, limit: Duration, log: &Path) -> Result<(ExitStatus, String)> {
    let (out, err) = (log.with_extension("out"), log.with_extension("err"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    // What a test says of its failure would be above the last lines.
    command.env("RUST_BACKTRACE", "0");
    let child = command.process_group(0).spawn();
    let mut child = child.with_context(|| format!("cannot start {command:?}"))?;
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok((status, String::from_utf8_lossy(&fs::read(&out)?).into_owned()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    end(&mut child)?;
    bail!("it hangs: it had not ended after {} s", limit.as_secs())
}

fn end(child: &mut Child) -> Result<()> {
    let group =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no such process")?;
    kill_process_group(group, Signal::KILL)?;
    child.wait()?;
    Ok(())
}

/// The end of what a check printed.
fn last_lines(log: &Path) -> String {
    let read = |ending| fs::read(log.with_extension(ending)).unwrap_or_default();
    let text = [read("out"), read("err")].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_ends_with_all_that_it_started() {
        let log = std::env::temp_dir().join(format!("xsched-hangs-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!; wait"]);
        let why = within(&mut command, Duration::from_millis(300), &log).expect_err("it hangs");
        assert!(why.to_string().contains("it hangs"), "{why}");
        let sleeper = last_lines(&log);
        // It is gone, or no process has asked how it ended. Its signal may be on the way.
        let stat = format!("/proc/{}/stat", sleeper.trim());
        let runs = || fs::read_to_string(&stat).is_ok_and(|state| !state.contains(" Z "));
        let start = Instant::now();
        while runs() {
            assert!(start.elapsed() < Duration::from_secs(20), "{sleeper} goes on");
            thread::sleep(Duration::from_millis(5));
        }
        let mut ends = Command::new("sh");
        ends.args(["-c", "echo well; exit 3"]);
        let (status, said) = within(&mut ends, Duration::from_secs(60), &log).expect("it ends");
        assert_eq!((status.code(), said.as_str()), (Some(3), "well\n"));
        for ending in ["out", "err"] {
            fs::remove_file(log.with_extension(ending)).expect("a log");
        }
    }
}
