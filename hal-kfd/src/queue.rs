//! A queue of the driver.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::KfdError;
use crate::uapi::{PRIORITY_MAX, QueueSnapshotEntry, QueueType};

/// The properties of a queue, as `CREATE_QUEUE` was given or answered them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// The id, below [`crate::uapi::QUEUES_MAX`]. The driver reuses it after the queue's
    /// destruction.
    pub id: u32,
    /// The id of the GPU or partition.
    pub gpu_id: u32,
    /// Address of the ring.
    pub ring_base: u64,
    /// Bytes of the ring. Updates have to repeat this exact number.
    pub ring_size: u32,
    /// The priority, 0 to [`PRIORITY_MAX`].
    pub priority: u32,
    /// The number of a [`QueueType`].
    pub kind: u32,
    /// Bytes of the save area; 0 if unknown.
    pub save_bytes: u64,
    /// The queue's number among all that the preloaded library saw, which tells it from a later
    /// queue with the same id. `None` without that library.
    pub created: Option<u64>,
}

impl QueueFacts {
    /// The properties that a snapshot shows. It does not show the priority, which is assumed to be
    /// [`PRIORITY_NORMAL`].
    #[must_use]
    pub const fn of_snapshot(entry: &QueueSnapshotEntry) -> Self {
        Self {
            id: entry.queue_id,
            gpu_id: entry.gpu_id,
            ring_base: entry.ring_base,
            ring_size: entry.ring_size,
            priority: PRIORITY_NORMAL,
            kind: entry.queue_type,
            save_bytes: entry.save_size as u64,
            created: None,
        }
    }

    /// True if waves run from it. Queues for copies run none and are not preempted.
    #[must_use]
    pub fn runs_waves(&self) -> bool {
        QueueType::of(self.kind).is_some_and(QueueType::runs_waves)
    }
}

/// The priority that ROCm's runtime gives queues by default
/// (`HSA_AMD_QUEUE_PRIORITY_NORMAL`).
pub const PRIORITY_NORMAL: u32 = 7;

/// A queue that can be suspended.
#[derive(Debug)]
pub struct KfdQueue {
    facts: QueueFacts,
    /// The priority that updates repeat, because an update replaces it.
    priority: AtomicU32,
    /// The priority that the owner is known to have set last.
    owners: AtomicU32,
}

impl KfdQueue {
    /// A queue of this process, or, for [`crate::mechanism::DebugTrap`], of the debugged one.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] if the id or the priority is.
    pub fn new(facts: QueueFacts) -> Result<Self, KfdError> {
        KfdError::check_id(facts.id)?;
        check_priority(facts.priority)?;
        let priority = || AtomicU32::new(facts.priority);
        Ok(Self { facts, priority: priority(), owners: priority() })
    }

    /// Properties.
    #[must_use]
    pub const fn facts(&self) -> &QueueFacts {
        &self.facts
    }

    /// Id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.facts.id
    }

    /// Priority, as far as this process knows it.
    #[must_use]
    pub fn priority(&self) -> u32 {
        self.priority.load(Ordering::Relaxed)
    }

    /// Notes that it has another priority, 0 to [`PRIORITY_MAX`], without a call to the driver.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] above [`PRIORITY_MAX`].
    pub fn note_priority(&self, priority: u32) -> Result<(), KfdError> {
        check_priority(priority)?;
        self.priority.store(priority, Ordering::Relaxed);
        Ok(())
    }

    /// Takes over the owner's priority if the owner has changed it. Otherwise the noted one stays.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] above [`PRIORITY_MAX`].
    pub(crate) fn note_owners(&self, priority: u32) -> Result<(), KfdError> {
        check_priority(priority)?;
        if self.owners.swap(priority, Ordering::Relaxed) != priority {
            self.priority.store(priority, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn check_priority(priority: u32) -> Result<(), KfdError> {
    let (value, most) = (u64::from(priority), u64::from(PRIORITY_MAX));
    if value > most {
        return Err(KfdError::OutOfRange { what: "the queue's priority", value, most });
    }
    Ok(())
}
