//! How queues are suspended and resumed. Three ways, one trait.

mod debug;
mod ledger;
mod patched;
mod update;

use std::fmt::Debug;
use std::sync::Arc;

pub use debug::DebugTrap;
pub use patched::{OPT_IN_VARIABLE, PatchedDriver};
pub use update::UpdateQueue;

use crate::error::KfdError;
use crate::queue::KfdQueue;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `UPDATE_QUEUE` with a percentage of 0, then 100.
    UpdateQueue,
    /// `DBG_TRAP`: suspend and resume.
    DebugTrap,
    /// The patched driver's 0x87 and 0x88.
    PreemptQueue,
}

impl Kind {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::UpdateQueue, Self::DebugTrap, Self::PreemptQueue];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpdateQueue => "update-queue",
            Self::DebugTrap => "debug-trap",
            Self::PreemptQueue => "preempt-queue",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What became of each queue of a batch, in the batch's order.
pub type Answers = Vec<Result<(), KfdError>>;

/// Suspends and resumes queues. Answers come when it is in effect, which takes as long as the GPU
/// needs to save or load the context of *all* queues on that GPU or partition, whoever owns them.
///
/// Calls may come from any thread. Suspending what is suspended, and resuming what is not, does
/// nothing and succeeds: asking the driver again would cost another preemption.
pub trait Mechanism: Debug + Send + Sync {
    /// Which it is.
    fn kind(&self) -> Kind;

    /// Stops queues, each with its running waves saved.
    fn suspend(&self, queues: &[Arc<KfdQueue>]) -> Answers;

    /// Lets queues continue.
    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers;

    /// Lets everything continue that was suspended here.
    fn resume_all(&self) -> Answers;

    /// Forgets a queue that is gone, without a call to the driver.
    fn forget(&self, queue: &KfdQueue);

    /// Whether a queue that was suspended here still is, as far as the driver shows it. Costs no
    /// preemption.
    ///
    /// # Errors
    /// What the driver answered.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError>;

    /// Suspends a queue again that was suspended here and that somebody else has let go. True if it
    /// had to.
    ///
    /// # Errors
    /// What the driver answered.
    fn reassert(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        let _ = queue;
        Ok(false)
    }

    /// What is suspended here at the moment.
    fn held(&self) -> Vec<Arc<KfdQueue>>;

    /// Lets everything continue, and gives up what the program's end would wait for.
    ///
    /// # Errors
    /// What the driver answered.
    fn end(&self) -> Result<(), KfdError> {
        self.resume_all().into_iter().collect()
    }

    /// Preemptions of the GPU that a batch of so many queues costs.
    fn preemptions(&self, queues: usize) -> usize;
}
