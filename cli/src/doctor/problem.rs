//! Problems that keep work from being scheduled, and what to do.

use std::fmt;

use serde::Serialize;

/// Something that keeps work from being scheduled, or makes it wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    /// Description of the problem.
    pub(super) what: String,
    /// Action to take.
    pub(super) action: String,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, action: impl Into<String>) -> Self {
        Self { what: what.into(), action: action.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.action)
    }
}
