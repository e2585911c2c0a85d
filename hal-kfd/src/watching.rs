//! What is known of the calls that others in this process make to the driver.
//!
//! ROCm's runtime updates its queues by itself: to take scratch memory back, or to change a
//! priority. Such an update sets the percentage to 100, and so ends a suspension by
//! [`crate::mechanism::UpdateQueue`] without anybody knowing. A [`Watcher`] sees it, and can hold
//! it back.

use std::fmt::Debug;

use crate::queue::QueueFacts;

/// What a watcher knows of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it was created with, and what updates have made of it since.
    pub facts: QueueFacts,
    /// The percentage that its owner wants, which may be held back.
    pub percentage: u32,
    /// Updates that its owner made.
    pub updates: u64,
    /// Of those, updates that would have ended a suspension and were held back.
    pub held_back: u64,
}

/// Sees the calls that others make.
pub trait Watcher: Debug + Send + Sync {
    /// What is known of a queue.
    fn record(&self, id: u32) -> Option<Record>;

    /// From now on, what its owner does to a queue is noted and does not make it active. Returns
    /// when no call of its owner's is on its way any more.
    fn hold(&self, id: u32) -> Option<Record>;

    /// Ends that. What the owner wants by now is the answer's.
    fn release(&self, id: u32) -> Option<Record>;
}
