//! The queue table: what a scheduler knows about its queues, and how policies see it.
//!
//! A [`QueueTable`] gives a policy a [`QueueInfo`] for each queue and a [`StateCell`] for what the
//! policy itself remembers. The slots are storage that the caller lends to a scheduler.

pub(crate) mod bits;
pub(crate) mod slot;
pub mod state;
mod verdict;
mod view;

pub use slot::{DeviceSlot, Edge, QueueInfo, QueueSlot};
pub use state::{DEVICE_WORDS, Field, PolicyState, QUEUE_WORDS, StateCell};
pub use verdict::{Urgency, Verdict};
pub use view::QueueTable;
