//! The calls to the driver that other code of this process makes, above all ROCm's runtime.
//!
//! The runtime updates its queues by itself, to reclaim scratch memory or to change a priority.
//! Such an update sets the percentage to 100, and so silently ends a suspension by
//! [`crate::mechanism::UpdateQueue`]. A [`Watcher`] sees the update, and can hold it back.

use std::fmt::Debug;

use crate::queue::QueueFacts;

/// A watcher's record of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Properties after all updates.
    pub facts: QueueFacts,
    /// The percentage that its owner set last, 0 to 100, even if it is held back.
    pub percentage: u32,
    /// Updates that its owner made.
    pub updates: u64,
    /// Of those, the updates that were held back because they would have ended a suspension.
    pub held_back: u64,
}

/// Sees the calls that queues' owners make.
pub trait Watcher: Debug + Send + Sync {
    /// The record of a queue; `None` if there is no such queue.
    fn record(&self, id: u32) -> Option<Record>;

    /// Holds back the owner's updates of a queue from now on: they are noted and do not make it
    /// active. Returns when no call of the owner's is under way.
    fn hold(&self, id: u32) -> Option<Record>;

    /// Ends a hold. The record has the owner's last update.
    fn release(&self, id: u32) -> Option<Record>;
}
