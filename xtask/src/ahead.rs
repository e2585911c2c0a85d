//! Builds for later steps of CI, made while its tests wait.
//!
//! Tests leave about half of the processors' time unused. These builds run only then (`SCHED_IDLE`,
//! sched(7)) and on one processor, so that a test that wakes up finds another. None of them is in
//! a folder that tests are built in, so that they hold no lock of cargo's that a build for tests
//! needs. Each step runs its own commands all the same, and finds most of it there; so what fails
//! here fails there again, where it is said.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::command::{cargo, release, run as run_command};
use crate::{book, capi, ci, fuzz, loom, mutants, target_dir};

/// A build, which prints what it does.
type Build = fn() -> Result<()>;

/// Builds in the order in which they are needed.
const BUILDS: [Build; 8] = [
    || book::mdbook().map(drop),
    || run_command(&mut cargo("build --profile demo --locked --package xsched-lab")),
    || run_command(&mut release("build --release --locked")),
    || capi::install::run(&capi::install::Options { prefix: target_dir().join("ahead") }),
    || run_command(loom::tests().arg("--no-run")),
    mutants::build,
    || fuzz::build(true),
    ci::lint_all,
];

/// Makes all of them.
pub fn run() {
    for build in BUILDS {
        if let Err(error) = build() {
            println!("{error:#}");
        }
    }
}

/// The builds under way, in a process of their own. They end when this is dropped, finished or not.
pub(crate) struct Ahead(Child);

impl Ahead {
    /// Begins. What the builds print is in `target/ahead.log`.
    ///
    /// # Errors
    /// If a process cannot be started with `chrt`, which is of util-linux.
    pub(crate) fn start() -> Result<Self> {
        let path = target_dir().join("ahead.log");
        let log = File::create(&path).with_context(|| format!("{}", path.display()))?;
        let mut builds = Command::new("chrt");
        builds.env("CARGO_BUILD_JOBS", "1");
        builds.args(["--idle", "0"]).arg(std::env::current_exe()?).arg("ahead");
        builds.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(Self(builds.spawn().context("cannot start chrt")?))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // What has ended needs no signal.
        if let (Some(group), Ok(None)) = (group, self.0.try_wait()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
