//! Program and libraries that `xsched run` would start: the one place that knows of its crate.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use xsched_launch::{Interposers, LaunchArgs, LaunchError, Scheduling, folders_beside};

use super::problem::Problem;

/// The interposers that a program gets.
#[derive(Clone, Debug)]
pub(super) struct Place(Interposers);

impl Place {
    /// Where `xsched run` finds them, or why it would refuse.
    pub(super) fn find() -> Result<Self, Problem> {
        let own = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
        let folders = folders_beside(own.parent().unwrap_or(Path::new("/")));
        let found = Interposers::find(&folders).map_err(|error| {
            let text = error.to_string();
            let (what, action) = text.split_once("; ").unwrap_or((&text, "build them anew"));
            Problem::new(what, action)
        });
        found.map(Self)
    }

    /// Files of the interposers, in the order in which they are preloaded.
    pub(super) fn files(&self) -> &[PathBuf] {
        self.0.files()
    }

    /// A program as `xsched run` starts it without options.
    pub(super) fn command(&self, program: &[OsString]) -> Result<Command, LaunchError> {
        let (class, priority, share, gang, streams) = (None, None, None, None, false);
        let scheduling = Scheduling { class, priority, share, gang, level: 2, streams };
        let args = LaunchArgs { scheduling, program: program.to_vec() };
        Ok(args.launch(&self.0, |name| env::var_os(name))?.command())
    }
}
