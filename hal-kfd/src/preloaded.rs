//! The library `libxsched_kfd_watch.so`, which a program may be started with (`LD_PRELOAD`).

use std::ffi::c_int;
use std::fmt;

use xsched_hal_process::loader::Library;

use crate::queue::QueueFacts;
use crate::watching::{Record, Watcher};

/// A queue in the library's C interface.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedQueue {
    /// Id.
    pub id: u32,
    /// GPU.
    pub gpu_id: u32,
    /// Address of its ring.
    pub ring_base: u64,
    /// Bytes of the ring.
    pub ring_size: u32,
    /// The priority that its owner set last.
    pub priority: u32,
    /// The number of a [`crate::uapi::QueueType`].
    pub kind: u32,
    /// The percentage that its owner set last, 0 to 100.
    pub percentage: u32,
    /// Bytes of its save area.
    pub save_bytes: u64,
    /// Number among all queues that the process made, from 1.
    pub created: u64,
    /// Updates by its owner.
    pub updates: u64,
    /// Updates that were held back.
    pub held_back: u64,
}

impl WatchedQueue {
    /// The queue as a [`Record`].
    #[must_use]
    pub const fn record(&self) -> Record {
        let facts = QueueFacts {
            id: self.id,
            gpu_id: self.gpu_id,
            ring_base: self.ring_base,
            ring_size: self.ring_size,
            priority: self.priority,
            kind: self.kind,
            save_bytes: self.save_bytes,
            created: Some(self.created),
        };
        let Self { percentage, updates, held_back, .. } = *self;
        Record { facts, percentage, updates, held_back }
    }
}

/// Returns the number of queues that the process has made, which a later [`CreatedFn`] takes.
pub type QueuesCreatedFn = extern "C" fn() -> u64;
/// Writes the queues that this thread has made since a count of [`QueuesCreatedFn`] and that still
/// exist, as many as there is room for. Returns how many there are.
pub type CreatedFn = unsafe extern "C" fn(u64, *mut WatchedQueue, usize) -> usize;
/// Writes a queue and returns 1, or returns 0 if there is no such queue.
pub type RecordFn = unsafe extern "C" fn(u32, *mut WatchedQueue) -> c_int;
/// Holds back updates that make a queue active (1), or lets them through (0); then as [`RecordFn`].
pub type HoldFn = unsafe extern "C" fn(u32, c_int, *mut WatchedQueue) -> c_int;
/// A callback before a call that would wait for ever for a suspended queue: [`ENDS_QUEUE`] with the
/// queue's id, or [`ENDS_RUNTIME`].
pub type EndFn = extern "C" fn(u32, u32);
/// Sets the callback; null for none.
pub type OnEndFn = extern "C" fn(Option<EndFn>);
/// Returns 1 if the program gave a file a process of its own (`CREATE_PROCESS`), so that an id can
/// mean several queues; 0 otherwise.
pub type SecondaryProcessFn = extern "C" fn() -> c_int;

/// Writes, for each queue that runs waves and exists, the number under which it was made, its id,
/// and how many packets were written into its ring so far; at most as many queues as the last
/// argument says. Returns how many there are.
pub type WrittenFn = unsafe extern "C" fn(*mut [u64; 3], usize) -> usize;

/// For [`EndFn`]: a queue is about to be destroyed, suspended or not.
pub const ENDS_QUEUE: u32 = 1;
/// For [`EndFn`]: the program's runtime is about to be disabled.
pub const ENDS_RUNTIME: u32 = 2;

/// The preloaded library's functions.
pub struct Preloaded {
    queues_created: QueuesCreatedFn,
    created: CreatedFn,
    record: RecordFn,
    hold: HoldFn,
    on_end: OnEndFn,
    secondary_process: SecondaryProcessFn,
}

impl fmt::Debug for Preloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Preloaded")
    }
}

impl Preloaded {
    /// Finds the library among the program's loaded libraries.
    #[must_use]
    pub fn find() -> Option<Self> {
        let program = Library::program().ok()?;
        /// A function by its name.
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: only the library has symbols of these names, and in this version they
                // have these types.
                unsafe { program.function($name) }?
            }};
        }
        // A library that was preloaded is never unloaded.
        Some(Self {
            queues_created: function!("xsched_kfd_watch_mark_v1"),
            created: function!("xsched_kfd_watch_created_v1"),
            record: function!("xsched_kfd_watch_record_v1"),
            hold: function!("xsched_kfd_watch_hold_v1"),
            on_end: function!("xsched_kfd_watch_on_end_v1"),
            secondary_process: function!("xsched_kfd_watch_spaces_v1"),
        })
    }

    /// The number of queues that the process has made, for [`Preloaded::created_since`].
    #[must_use]
    pub fn queues_created(&self) -> u64 {
        (self.queues_created)()
    }

    /// The queues that this thread has made since the count was `before` and that still exist. At
    /// most 16.
    #[must_use]
    pub fn created_since(&self, before: u64) -> Vec<Record> {
        let mut queues = [WatchedQueue::default(); 16];
        // SAFETY: the array has room for as many queues as the call is told.
        let count = unsafe { (self.created)(before, queues.as_mut_ptr(), queues.len()) };
        queues.iter().take(count).map(WatchedQueue::record).collect()
    }

    /// Sets the callback before a queue is destroyed or the runtime disabled.
    pub fn on_end(&self, call: Option<EndFn>) {
        (self.on_end)(call);
    }

    /// True if the program gave a file a process of its own, so that an id can mean several queues.
    #[must_use]
    pub fn has_secondary_process(&self) -> bool {
        (self.secondary_process)() != 0
    }

    /// The record that a call writes, if it returns 1.
    fn written(call: impl FnOnce(*mut WatchedQueue) -> c_int) -> Option<Record> {
        let mut queue = WatchedQueue::default();
        (call(&raw mut queue) == 1).then(|| queue.record())
    }
}

impl Watcher for Preloaded {
    fn record(&self, id: u32) -> Option<Record> {
        // SAFETY: the pointer is to a queue that may be written to.
        Self::written(|queue| unsafe { (self.record)(id, queue) })
    }

    fn hold(&self, id: u32) -> Option<Record> {
        // SAFETY: the pointer is to a queue that may be written to.
        Self::written(|queue| unsafe { (self.hold)(id, 1, queue) })
    }

    fn release(&self, id: u32) -> Option<Record> {
        // SAFETY: the pointer is to a queue that may be written to.
        Self::written(|queue| unsafe { (self.hold)(id, 0, queue) })
    }
}
