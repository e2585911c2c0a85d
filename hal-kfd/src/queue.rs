//! A queue as the driver knows it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::KfdError;
use crate::uapi::{PRIORITY_MAX, QueueSnapshotEntry, QueueType};

/// What `CREATE_QUEUE` said about a queue of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// The id, below [`crate::uapi::QUEUES_MAX`]. It is used again when the queue is gone.
    pub id: u32,
    /// The GPU, or partition of one.
    pub gpu_id: u32,
    /// Address of the ring.
    pub ring_base: u64,
    /// Its bytes, exactly: updates have to repeat it.
    pub ring_size: u32,
    /// 0 to [`PRIORITY_MAX`].
    pub priority: u32,
    /// What kind it is, by the number of [`QueueType`].
    pub kind: u32,
    /// Bytes of its save area; 0 if that is not known.
    pub save_bytes: u64,
    /// When it was made, in the order of a watch on the calls; tells a queue from a later one with
    /// the same id. `None` without a watch.
    pub created: Option<u64>,
}

impl QueueFacts {
    /// What a snapshot says. It does not say the priority, which is taken to be 7, HIP's normal.
    #[must_use]
    pub const fn of_snapshot(entry: &QueueSnapshotEntry) -> Self {
        Self {
            id: entry.queue_id,
            gpu_id: entry.gpu_id,
            ring_base: entry.ring_base,
            ring_size: entry.ring_size,
            priority: NORMAL,
            kind: entry.queue_type,
            save_bytes: entry.save_size as u64,
            created: None,
        }
    }

    /// Whether waves run from it. Copies are not preempted.
    #[must_use]
    pub fn runs_waves(&self) -> bool {
        QueueType::of(self.kind).is_some_and(QueueType::runs_waves)
    }
}

/// The priority that ROCm's runtime gives queues unless it is told otherwise
/// (`HSA_AMD_QUEUE_PRIORITY_NORMAL`).
pub const NORMAL: u32 = 7;

/// A queue that can be suspended.
#[derive(Debug)]
pub struct KfdQueue {
    facts: QueueFacts,
    /// What updates repeat, since they replace it.
    priority: AtomicU32,
    /// What its owner is known to have set last.
    owners: AtomicU32,
}

impl KfdQueue {
    /// A queue of this process, or, for [`crate::mechanism::DebugTrap`], of the debugged one.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] if a fact cannot be.
    pub fn new(facts: QueueFacts) -> Result<Self, KfdError> {
        KfdError::check_id(facts.id)?;
        check_priority(facts.priority)?;
        let priority = || AtomicU32::new(facts.priority);
        Ok(Self { facts, priority: priority(), owners: priority() })
    }

    /// What is known of it.
    #[must_use]
    pub const fn facts(&self) -> &QueueFacts {
        &self.facts
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.facts.id
    }

    /// Its priority now, as far as this process set it.
    #[must_use]
    pub fn priority(&self) -> u32 {
        self.priority.load(Ordering::Relaxed)
    }

    /// Notes that it has another priority.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] beyond [`PRIORITY_MAX`].
    pub fn note_priority(&self, priority: u32) -> Result<(), KfdError> {
        check_priority(priority)?;
        self.priority.store(priority, Ordering::Relaxed);
        Ok(())
    }

    /// Takes over what its owner has set, if that is new: otherwise what was set here stays.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] beyond [`PRIORITY_MAX`].
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
