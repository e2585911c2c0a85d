//! How queues are suspended and resumed: three mechanisms behind one trait.

mod debug;
mod patched;
mod suspended;
mod update;

use std::fmt::Debug;
use std::sync::Arc;

pub use debug::DebugTrap;
pub use patched::{OPT_IN_VARIABLE, PatchedDriver};
pub use update::UpdateQueue;

use crate::error::KfdError;
use crate::queue::KfdQueue;

/// Kind of mechanism.
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

    /// The name, as `XSCHED_KFD_MECHANISM` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpdateQueue => "update-queue",
            Self::DebugTrap => "debug-trap",
            Self::PreemptQueue => "preempt-queue",
        }
    }

    /// The mechanism with this name.
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

/// The results of a batch, one for each queue, in the batch's order.
pub type Answers = Vec<Result<(), KfdError>>;

/// Suspends and resumes queues.
///
/// A call returns when its effect is complete. That takes as long as the GPU needs to save or load
/// the contexts of *all* queues on that GPU or partition, of all processes.
///
/// Calls may come from any thread. Suspending a suspended queue, and resuming one that runs, does
/// nothing and succeeds: another call to the driver would cost another preemption.
pub trait Mechanism: Debug + Send + Sync {
    /// Kind of this mechanism.
    fn kind(&self) -> Kind;

    /// Suspends queues. Their running waves are saved.
    fn suspend(&self, queues: &[Arc<KfdQueue>]) -> Answers;

    /// Resumes queues. Their saved waves continue.
    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers;

    /// Resumes all queues that this mechanism has suspended.
    fn resume_all(&self) -> Answers {
        self.resume(&self.held())
    }

    /// Forgets a queue that was destroyed, without a call to the driver.
    fn forget(&self, queue: &KfdQueue);

    /// True if a queue that this mechanism suspended still is, as far as the driver shows it. Costs
    /// no preemption.
    ///
    /// # Errors
    /// The driver's error.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError>;

    /// Suspends a queue again if its owner has made it active meanwhile. True if it had to.
    ///
    /// # Errors
    /// The driver's error.
    fn reassert(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        let _ = queue;
        Ok(false)
    }

    /// The queues that this mechanism has suspended.
    fn held(&self) -> Vec<Arc<KfdQueue>>;

    /// Resumes all queues, and ends what the program's exit would wait for, such as a debugger's
    /// session.
    ///
    /// # Errors
    /// The first error of the driver.
    fn end(&self) -> Result<(), KfdError> {
        self.resume_all().into_iter().collect()
    }

    /// Preemptions of the GPU that a batch of `queues` queues costs.
    fn preemptions(&self, queues: usize) -> usize;
}
