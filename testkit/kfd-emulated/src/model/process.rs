//! Processes, as amdkfd knows them: one for each address space, however many files it opened.

use std::collections::BTreeMap;

use super::Model;
use crate::wire::{EC_QUEUE_NEW, QUEUE_INVALID};

/// Queues that a process can have; ids are below.
pub const QUEUES_MAX: u32 = 1_024;

/// State after `RUNTIME_ENABLE`. The numbers are the interface's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RuntimeState {
    #[default]
    Disabled = 0,
    Enabled = 1,
    /// A debugger has attached, and another process uses what it needs of a GPU.
    EnabledBusy = 2,
    /// A debugger has attached, and the driver could not prepare a GPU for it.
    EnabledError = 3,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Runtime {
    pub(super) state: RuntimeState,
    pub(super) r_debug: u64,
    pub(super) ttmp: bool,
    /// Permissions that a debugger has given and that no waiting call has used yet.
    pub(super) permits: u32,
}

impl Runtime {
    /// Marks the end of the process. Permits outlast it.
    pub(super) fn clear(&mut self) {
        *self = Self { permits: self.permits, ..Self::default() };
    }
}

/// A debugger is attached.
#[derive(Clone, Debug)]
pub(super) struct Debugged {
    /// Process that enabled it: itself, or another.
    pub(super) by: u32,
    pub(super) exceptions: u64,
}

/// An event, as `CREATE_EVENT` makes them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    /// The interface's number.
    pub(super) kind: u32,
    pub(super) auto_reset: bool,
    pub(super) is_set: bool,
    /// How often it was set, from 1; signals only.
    pub(super) age: u64,
    /// Data of the event, as the interface has it.
    pub(super) data: [u8; 32],
}

#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) runtime: Runtime,
    pub(super) debugged: Option<Debugged>,
    pub(super) events: BTreeMap<u32, Event>,
    pub(super) memory: super::memory::Memory,
    /// `CRIU_OP` has paused it.
    pub(super) is_paused: bool,
    /// GPUs, by their place, on which one of its queues was reset.
    pub(super) reset_on: Vec<usize>,
}

impl Process {
    /// The smallest id that is free.
    pub(super) fn free_id(&self) -> Option<u32> {
        (0..QUEUES_MAX).find(|id| !self.queues.contains_key(id))
    }
}

/// Why a queue that its owner made active does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stopped {
    /// By a debugger's `SUSPEND_QUEUES`.
    pub(super) suspended: bool,
    /// By the driver, with the whole process.
    pub(super) evicted: bool,
    /// By the patched driver's call.
    pub(super) preempted: bool,
    /// For good: it was reset.
    pub(super) reset: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The GPU's place in the configuration.
    pub(super) gpu: usize,
    pub(super) kind: u32,
    /// The ring of the present properties.
    pub(super) ring: (u64, u32),
    /// The buffer that the ring was made in: the only one that is mapped for it.
    pub(super) buffer: (u64, u32),
    pub(super) read_pointer: u64,
    pub(super) write_pointer: u64,
    pub(super) save_area: (u64, u32),
    pub(super) percentage: u32,
    pub(super) priority: u32,
    pub(super) cu_mask: Vec<u32>,
    pub(super) exceptions: u64,
    pub(super) stopped: Stopped,
}

impl Queue {
    /// True by the kernel's `QUEUE_IS_ACTIVE` and the patched driver's hold.
    pub(super) fn is_active(&self) -> bool {
        let wanted = self.ring.0 != 0 && self.ring.1 != 0 && self.percentage > 0;
        wanted && self.stopped == Stopped::default()
    }

    pub(super) const fn is_new(&self) -> bool {
        self.exceptions & EC_QUEUE_NEW != 0
    }

    /// Compute queues of either packet format.
    pub(super) const fn runs_waves(&self) -> bool {
        self.kind == 0 || self.kind == 2
    }
}

/// View of a queue for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// GPU's `gpu_id`.
    pub gpu_id: u32,
    /// True if it is on the run list.
    pub is_active: bool,
    /// True if a debugger suspended it.
    pub is_suspended: bool,
    /// True if it was reset and never runs again.
    pub is_reset: bool,
    /// `queue_percentage`, 0 to 100.
    pub percentage: u32,
    /// `queue_priority`, 0 to 15.
    pub priority: u32,
    /// The address of its ring, as of the last update.
    pub ring_base: u64,
    /// The bytes of its ring, as of the last update.
    pub ring_bytes: u32,
}

impl Model {
    /// A queue of a process.
    #[must_use]
    pub fn queue(&self, pid: u32, id: u32) -> Option<QueueView> {
        let queue = self.processes.get(&pid)?.queues.get(&id)?;
        Some(QueueView {
            gpu_id: self.config.gpus[queue.gpu].gpu_id,
            is_active: queue.is_active(),
            is_suspended: queue.stopped.suspended,
            is_reset: queue.stopped.reset,
            percentage: queue.percentage,
            priority: queue.priority,
            ring_base: queue.ring.0,
            ring_bytes: queue.ring.1,
        })
    }

    /// The ids of a process's queues, in order.
    #[must_use]
    pub fn queue_ids(&self, pid: u32) -> Vec<u32> {
        let process = self.processes.get(&pid);
        process.map(|process| process.queues.keys().copied().collect()).unwrap_or_default()
    }

    /// Returns the process that debugs this one, if it has a debugger.
    #[must_use]
    pub fn debugger(&self, pid: u32) -> Option<u32> {
        self.processes.get(&pid)?.debugged.as_ref().map(|debugged| debugged.by)
    }
}

/// An id without the bit that marks it as unknown.
pub(super) const fn plain(id: u32) -> u32 {
    id & !QUEUE_INVALID
}
