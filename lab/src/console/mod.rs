//! What the commands share: where results go, tables and progress.

pub mod output;
pub mod progress;
pub mod table;

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
