//! Starts a program that knows nothing of XQueues with the interposers in front of its driver:
//! what the environment has to say, where the interposers are, and becoming the program.
//!
//! `xsched run` and `python -m xsched run` are [`LaunchArgs`], with which clap parses both.

mod args;
pub mod cdi;
mod interposers;
mod program;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use thiserror::Error;
use xsched_hal_process::start;

pub use args::{Class, Decider, LaunchArgs, Messages, Scheduling};
pub use interposers::{INTERPOSERS, Interposers, LIBRARY, folders_beside};
pub use program::{MUSL, NotRunnable, ProgramFile, is_of_musl, loader_of};

/// Version of the variables by which a program is told how it is scheduled
/// ([`Scheduling::variables`]). It changes when one goes or means something else; new ones may come
/// at any time.
pub const CONTRACT: u32 = 1;

/// Why a program is not started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// No program is named.
    #[error("no program is named; write it behind --")]
    NoProgram,
    /// The program cannot be run.
    #[error("cannot run {program}: {source}")]
    Program {
        /// As it was named.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// None of the folders has an interposer with the library that it needs.
    #[error(
        "there is no {} with {LIBRARY} in {places}; build them with `cargo build --release \
         -p xsched-capi -p xsched-shim-cuda`, run `cargo xtask install`, or install the wheel",
        INTERPOSERS.join(" or ")
    )]
    NoInterposer {
        /// The folders, with commas between.
        places: String,
    },
    /// The loader would take the path of an interposer for several.
    #[error("{place} cannot be preloaded: move it to a path without spaces and colons")]
    Unpreloadable {
        /// Path of the interposer.
        place: PathBuf,
    },
}

/// A program, and what its environment has to say for it to be scheduled.
#[derive(Debug)]
pub struct Launch {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
}

impl Launch {
    /// The environment variables that are set, beside those of this process.
    #[must_use]
    pub fn variables(&self) -> &[(&'static str, OsString)] {
        &self.variables
    }

    /// Leaves the variables out if the program's loader would not start it with the interposers:
    /// it gets this process's environment. A line that says so comes with it then.
    #[must_use]
    pub fn unscheduled_if_refused(self) -> (Self, Option<String>) {
        match program::refusing_loader(&self.program) {
            Some(why) => {
                let line = format!("xsched: {why}; it runs unscheduled");
                (Self { variables: Vec::new(), ..self }, Some(line))
            }
            None => (self, None),
        }
    }

    /// The program as a command, to be started beside this process.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Becomes the program. Returns only if that fails.
    #[must_use]
    pub fn exec(&self) -> LaunchError {
        self.failed(self.command().exec())
    }

    /// Becomes the program as [`Launch::exec`] does, with the disposition of SIGPIPE and the open
    /// descriptors that this process was started with. For a program in Rust, whose library has
    /// changed them.
    #[must_use]
    pub fn exec_as_started(&self) -> LaunchError {
        self.failed(start::exec(&mut self.command()))
    }

    fn failed(&self, source: io::Error) -> LaunchError {
        LaunchError::Program { program: self.program.to_string_lossy().into_owned(), source }
    }
}

impl LaunchArgs {
    /// The program with these interposers. `environment` answers what this process's environment
    /// says; what that says already of who decides, and preloads, stays.
    ///
    /// # Errors
    /// If no program is named, or the interposers cannot be preloaded.
    pub fn launch(
        &self,
        interposers: &Interposers,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Launch, LaunchError> {
        let (program, arguments) = self.program.split_first().ok_or(LaunchError::NoProgram)?;
        let mut variables = vec![interposers.preload(environment(interposers::PRELOAD))?];
        let is_set = |name| environment(name).is_some();
        let decider = match is_set("XSCHED_SCHEDULER") || is_set("XSCHED_POLICY") {
            true => None,
            false if has_node() => Some(Decider::Node),
            false => Some(Decider::Process),
        };
        let settings = self.scheduling.variables(decider);
        variables.extend(settings.into_iter().map(|(name, value)| (name, value.into())));
        let of_hip = self.scheduling.of_hip().filter(|(name, _)| !is_set(name));
        variables.extend(of_hip.map(|(name, value)| (name, value.into())));
        Ok(Launch { program: program.clone(), arguments: arguments.to_vec(), variables })
    }
}

/// Returns whether a scheduler of the node listens.
fn has_node() -> bool {
    xsched_node::SocketPath::from_env().connect(Duration::from_secs(1)).is_ok()
}
