//! The program, run under the interposer, and what was counted of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::TempDir;
use xsched_launch::LaunchError;

use super::place::Place;
use super::problem::Problem;
use super::program::Program;
use super::watch::{Seen, Watch};

/// How often the program is looked at, and its processes.
const POLL: Duration = Duration::from_millis(5);
const WATCH: Duration = Duration::from_millis(100);

/// A function's launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Launches {
    /// All of them.
    pub(super) launches: u64,
    /// Launches that went through XQueues.
    pub(super) scheduled: u64,
    /// Launches among these that were made at once, since nothing told the streams apart.
    pub(super) alone: u64,
    /// Launches that went past XQueues.
    pub(super) past: u64,
}

/// A process that called a vendor's library through an interposer, and ended so that it left its
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Process {
    /// Process number.
    pub(super) pid: u32,
    /// The library that it got.
    pub(super) driver: Option<String>,
    /// The sums over all functions.
    #[serde(flatten)]
    pub(super) sums: Launches,
}

/// A process with a vendor's library that left no counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Uncounted {
    /// Process number.
    pub(super) pid: u32,
    /// Program of the process.
    pub(super) program: String,
    /// The vendor's library.
    pub(super) driver: String,
    /// An interposer was loaded.
    pub(super) interposed: bool,
}

/// Streams that got XQueues of a level for a reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Streams {
    /// The level, 1 to 3; 0 if they got none.
    pub(super) level: u8,
    /// Why it is not higher.
    pub(super) why: String,
    /// How many.
    pub(super) streams: u64,
}

/// Result of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Started {
    /// Exit code, or 128 and the number of the signal that ended the program.
    pub(super) exit_code: u8,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    /// Processes that called a vendor's library.
    pub(super) processes: Vec<Process>,
    /// The functions that launched, all processes together.
    pub(super) functions: BTreeMap<String, Launches>,
    /// Streams by their levels and the reasons, all processes together.
    pub(super) streams: Vec<Streams>,
    /// Streams that are like one of these, and had no reason to get an XQueue.
    pub(super) later: u64,
    /// Why launches went past, and how many did for that.
    pub(super) past: BTreeMap<String, u64>,
    /// Times between events that may contain a hold.
    pub(super) held_times: u64,
    /// Functions that the list lacks and that the driver handed out, and how often.
    pub(super) handed_out_past: BTreeMap<String, u64>,
    /// Processes of which nothing was counted.
    pub(super) uncounted: Vec<Uncounted>,
    /// Problems of the run.
    pub(super) problems: Vec<Problem>,
}

/// Counts that an interposer writes of a process.
#[derive(Debug, Deserialize)]
struct Counts {
    pid: u32,
    driver: Option<String>,
    #[serde(default)]
    launches: BTreeMap<String, u64>,
    #[serde(default)]
    scheduled: BTreeMap<String, u64>,
    #[serde(default)]
    alone: BTreeMap<String, u64>,
    #[serde(default)]
    streams: Vec<Streams>,
    #[serde(default)]
    later: u64,
    #[serde(default)]
    past: BTreeMap<String, u64>,
    #[serde(default)]
    held_times: u64,
    #[serde(default)]
    handed_out_past: BTreeMap<String, u64>,
}

/// Runs the program as `xsched run` does, and waits until it ends. With `quiet_stdout` what it
/// prints goes to standard error.
pub(super) fn run(
    place: &Place,
    program: &[OsString],
    quiet_stdout: bool,
    root: &Path,
) -> Result<Started, LaunchError> {
    let failed = |source| LaunchError::Program {
        program: program.first().map_or_else(String::new, |name| name.to_string_lossy().into()),
        source,
    };
    let folder = TempDir::new().map_err(failed)?;
    let mut command = place.command(program)?;
    command.env("XSCHED_SHIM_COUNTS", folder.path().join("counts-%p-%v.json"));
    if quiet_stdout {
        let errors = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        command.stdout(Stdio::from(errors));
    }
    let (status, seen) = attend(&mut command, place, root).map_err(failed)?;
    let mut started = Started::of(status, &counts(folder.path()), &seen);
    started.judge();
    Ok(started)
}

/// Waits for the program, and watches its processes. An interrupt from the terminal reaches the
/// program as well, and ends this process only with it; a request to terminate is handed on.
fn attend(
    command: &mut Command,
    place: &Place,
    root: &Path,
) -> io::Result<(ExitStatus, BTreeMap<u32, Seen>)> {
    let (interrupted, terminated) = (Arc::default(), Arc::<AtomicBool>::default());
    signal_hook::flag::register(SIGINT, interrupted)?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminated))?;
    let mut child = command.spawn()?;
    let mut watch = Watch::new(root, child.id(), place.files());
    let mut last = None::<Instant>;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, watch.seen()));
        }
        if terminated.swap(false, Ordering::Relaxed) {
            terminate(&child);
        }
        if last.is_none_or(|last| last.elapsed() >= WATCH) {
            watch.look();
            last = Some(Instant::now());
        }
        thread::sleep(POLL);
    }
}

fn terminate(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Reads the counts of the interposers, by process.
fn counts(folder: &Path) -> Vec<Counts> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut counts: Vec<Counts> =
        texts.filter_map(|text| serde_json::from_str(&text).ok()).collect();
    counts.sort_by_key(|counts| counts.pid);
    counts
}

fn merge(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (name, count) in from {
        *into.entry(name.clone()).or_default() += count;
    }
}

impl Launches {
    fn add(&mut self, launches: u64, scheduled: u64, alone: u64) {
        self.launches += launches;
        self.scheduled += scheduled;
        self.alone += alone;
        self.past = self.launches.saturating_sub(self.scheduled);
    }
}

impl Started {
    fn of(status: ExitStatus, counts: &[Counts], seen: &BTreeMap<u32, Seen>) -> Self {
        let signal = status.signal();
        let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
        let mut started =
            Self { exit_code: u8::try_from(code).unwrap_or(u8::MAX), signal, ..Self::default() };
        for counts in counts {
            started.count(counts);
        }
        let uncounted = seen.iter().filter(|(pid, _)| !counts.iter().any(|c| c.pid == **pid));
        let uncounted = uncounted.filter_map(|(pid, seen)| {
            Some(Uncounted {
                pid: *pid,
                program: seen.program.display().to_string(),
                driver: seen.driver.clone()?,
                interposed: seen.is_interposed,
            })
        });
        started.uncounted = uncounted.collect();
        started
    }

    fn count(&mut self, counts: &Counts) {
        let of = |from: &BTreeMap<String, u64>, name: &str| from.get(name).copied().unwrap_or(0);
        let mut sums = Launches::default();
        for (name, launches) in &counts.launches {
            let (scheduled, alone) = (of(&counts.scheduled, name), of(&counts.alone, name));
            sums.add(*launches, scheduled, alone);
            self.functions.entry(name.clone()).or_default().add(*launches, scheduled, alone);
        }
        for of in &counts.streams {
            let known =
                self.streams.iter_mut().find(|to| (to.level, &to.why) == (of.level, &of.why));
            match known {
                Some(known) => known.streams += of.streams,
                None => self.streams.push(of.clone()),
            }
        }
        self.streams.sort_unstable();
        self.later += counts.later;
        self.held_times += counts.held_times;
        merge(&mut self.past, &counts.past);
        merge(&mut self.handed_out_past, &counts.handed_out_past);
        self.processes.push(Process { pid: counts.pid, driver: counts.driver.clone(), sums });
    }

    /// Says what went past, and what to do.
    fn judge(&mut self) {
        let mut problems = Vec::new();
        for (reason, count) in &self.past {
            problems.extend(advice(reason).map(|action| {
                Problem::new(format!("launches that went past: {count}, {reason}"), action)
            }));
        }
        if self.held_times > 0 {
            problems.push(Problem::new(
                format!("times between events that may contain a hold: {}", self.held_times),
                "tune kernels with the highest priority or with the GPU to itself, and keep the \
                 choice",
            ));
        }
        for (name, count) in &self.handed_out_past {
            problems.push(Problem::new(
                format!("the driver handed out {name} {count} times, which the list lacks"),
                "update XSched; if it launches, such launches go past",
            ));
        }
        for uncounted in &self.uncounted {
            problems.extend(uncounted.problems());
        }
        self.problems = problems;
    }
}

/// Returns the advice for launches that went past for a reason, as the interposers name it;
/// `None` if nothing is amiss: what is captured runs as a part of a graph, which is scheduled.
fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "while a stream was being captured" | "within another launch" => return None,
        "XSCHED_AUTO_XQUEUE is not ON" => "have the program leave that variable alone",
        "in the child of a fork, after the driver was initialised" => {
            "fork before the driver is initialised, or have the child start a program (exec)"
        }
        "beside a capture, before their stream had an XQueue" => {
            "launch into each stream once before the first capture"
        }
        "their stream is not known" => "launch into streams of the program's own, one by one",
        _ => "see what the program's standard error says of it, beginning with `xsched:`",
    })
}

impl Uncounted {
    fn problems(&self) -> Vec<Problem> {
        let Self { pid, program, driver, interposed } = self;
        if *interposed {
            return vec![Problem::new(
                format!("process {pid} ({program}) loaded {driver} and left no counts"),
                "if it ended by a signal or `_exit`, end it by `exit`; if it opens the driver by a \
                 path or as libcuda.so, have it open libcuda.so.1",
            )];
        }
        let what = format!("process {pid} ({program}) loaded {driver} without the interposer");
        let file = Program::look(program.as_ref());
        let mut problems = vec![Problem::new(
            what,
            if file.preloadable {
                "have the process that starts it keep LD_PRELOAD and XSCHED_* in its environment"
            } else {
                "see the next line"
            },
        )];
        problems.extend(file.problems);
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(text: &str) -> Counts {
        serde_json::from_str(text).expect("counts")
    }

    #[test]
    fn counts_of_all_processes_are_added() {
        let one = counts_of(
            r#"{"pid": 7, "driver": "/d", "launches": {"cuLaunchKernel": 5, "cuMemcpyAsync": 1},
                "scheduled": {"cuLaunchKernel": 4}, "alone": {"cuLaunchKernel": 3},
                "streams": [{"level": 2, "why": "a ring", "streams": 3}], "later": 2,
                "past": {"in the child of a fork, after the driver was initialised": 2},
                "handed_out_past": {"cuNew": 1}}"#,
        );
        let other = counts_of(
            r#"{"pid": 8, "driver": null, "launches": {"cuLaunchKernel_ptsz": 2}, "scheduled": {},
                "alone": {}, "streams": [{"level": 2, "why": "a ring", "streams": 1},
                {"level": 1, "why": "the default", "streams": 1}], "held_times": 3}"#,
        );
        let mut started = Started::of(ExitStatus::from_raw(9), &[one, other], &BTreeMap::new());
        started.judge();
        assert_eq!((started.exit_code, started.signal), (137, Some(9)));
        let kernels = &started.functions["cuLaunchKernel"];
        let expected = Launches { launches: 5, scheduled: 4, alone: 3, past: 1 };
        assert_eq!(kernels, &expected);
        let streams: Vec<_> = started.streams.iter().map(|of| (of.level, of.streams)).collect();
        assert_eq!((streams, started.later), (vec![(1, 1), (2, 4)], 2));
        let sums: Vec<_> = started.processes.iter().map(|each| each.sums.past).collect();
        assert_eq!(sums, [2, 2]);
        let said: Vec<_> = started.problems.iter().map(ToString::to_string).collect();
        for part in [
            "launches that went past: 2, in the child of a fork",
            "cuNew 1 times",
            "may contain a hold: 3",
        ] {
            assert_eq!(said.iter().filter(|line| line.contains(part)).count(), 1, "{said:?}");
        }
    }

    #[test]
    fn processes_without_counts_are_named_with_the_reason() {
        let seen = |is_interposed| Seen {
            program: "/bin/sh".into(),
            driver: Some("/d/libcuda.so.1".to_owned()),
            is_interposed,
        };
        let without = Seen { driver: None, ..seen(false) };
        let seen = BTreeMap::from([(7, seen(true)), (8, seen(false)), (9, without)]);
        let mut started = Started::of(ExitStatus::from_raw(0x300), &[], &seen);
        started.judge();
        assert_eq!((started.exit_code, started.uncounted.len()), (3, 2));
        assert!(started.problems[0].action.contains("libcuda.so.1"), "{:?}", started.problems);
        assert!(started.problems[1].action.contains("LD_PRELOAD"), "{:?}", started.problems);
    }
}
