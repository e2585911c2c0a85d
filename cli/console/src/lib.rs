//! Parts that the project's command lines share: where results go, how much is printed, tables,
//! pages, progress, and the exit codes.

pub mod html;
pub mod machine;
pub mod output;
pub mod program;
pub mod progress;
pub mod table;

use std::sync::OnceLock;

pub use output::OutputError;

/// The result of a command that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All is well.
    Fine,
    /// A check failed.
    Finding,
}

impl Ending {
    /// [`Ending::Finding`] if there is one.
    #[must_use]
    pub fn new(finding: bool) -> Self {
        if finding { Self::Finding } else { Self::Fine }
    }
}

/// How much a command prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing unless a check fails.
    Quiet,
    /// The results.
    #[default]
    Normal,
    /// The results, and on standard error what is done.
    Verbose,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

impl Verbosity {
    /// Sets how much this process prints. The first call counts.
    pub fn set(self) {
        let _ = VERBOSITY.set(self);
    }

    /// How much this process prints.
    #[must_use]
    pub fn get() -> Self {
        VERBOSITY.get().copied().unwrap_or_default()
    }
}

/// Says on standard error what is done, if this process is verbose.
pub fn note(what: impl FnOnce() -> String) {
    if Verbosity::get() == Verbosity::Verbose {
        output::complain(&format!("xsched: {}\n", what()));
    }
}
