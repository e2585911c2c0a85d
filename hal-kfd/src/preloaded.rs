//! The library `libxsched_kfd_watch.so`, if the program was started with it preloaded.

use std::ffi::c_int;
use std::fmt;

use libloading::os::unix::Library;

use crate::queue::QueueFacts;
use crate::watching::{Record, Watcher};

/// A queue as the library tells of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedQueue {
    /// Its id.
    pub id: u32,
    /// Its GPU.
    pub gpu_id: u32,
    /// Address of its ring.
    pub ring_base: u64,
    /// Bytes of the ring.
    pub ring_size: u32,
    /// What its owner wants by now.
    pub priority: u32,
    /// The number of a [`crate::uapi::QueueType`].
    pub kind: u32,
    /// What its owner wants by now, 0 to 100.
    pub percentage: u32,
    /// Bytes of its save area.
    pub save_bytes: u64,
    /// Which of all queues it was, in the order in which they were made, from 1.
    pub created: u64,
    /// Updates by its owner.
    pub updates: u64,
    /// Updates that were held back.
    pub held_back: u64,
}

impl WatchedQueue {
    /// The same in this crate's terms.
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

/// Answers a number that a later call of [`CreatedFn`] takes.
pub type MarkFn = extern "C" fn() -> u64;
/// Writes the queues that this thread has made since, and that are still there, as many as there is
/// room for, and answers how many there are.
pub type CreatedFn = unsafe extern "C" fn(u64, *mut WatchedQueue, usize) -> usize;
/// Writes what is known of a queue, and answers 1; or 0.
pub type RecordFn = unsafe extern "C" fn(u32, *mut WatchedQueue) -> c_int;
/// Holds back updates that make a queue active, or no more; then as [`RecordFn`].
pub type HoldFn = unsafe extern "C" fn(u32, c_int, *mut WatchedQueue) -> c_int;
/// What is called before something that a suspended queue might keep waiting for ever:
/// [`ENDS_QUEUE`] with its id, or [`ENDS_RUNTIME`].
pub type EndFn = extern "C" fn(u32, u32);
/// Sets what is called; null for nothing.
pub type OnEndFn = extern "C" fn(Option<EndFn>);
/// 1 if the program made a process of its own for a file (`CREATE_PROCESS`), so that ids alone say
/// nothing; 0 otherwise.
pub type SpacesFn = extern "C" fn() -> c_int;

/// A queue is about to be destroyed, suspended or not.
pub const ENDS_QUEUE: u32 = 1;
/// The program's runtime is about to be disabled.
pub const ENDS_RUNTIME: u32 = 2;

/// The library.
pub struct Preloaded {
    mark: MarkFn,
    created: CreatedFn,
    record: RecordFn,
    hold: HoldFn,
    on_end: OnEndFn,
    spaces: SpacesFn,
}

impl fmt::Debug for Preloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Preloaded")
    }
}

impl Preloaded {
    /// Looks for it among what the program has loaded.
    #[must_use]
    pub fn find() -> Option<Self> {
        let program = Library::this();
        /// A function by its name.
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: only the library has symbols of these names, and this version of them has
                // these types.
                let found = unsafe { program.get($name) };
                *found.ok()?
            }};
        }
        // A library that was preloaded is never unloaded.
        Some(Self {
            mark: function!(b"xsched_kfd_watch_mark_v1\0"),
            created: function!(b"xsched_kfd_watch_created_v1\0"),
            record: function!(b"xsched_kfd_watch_record_v1\0"),
            hold: function!(b"xsched_kfd_watch_hold_v1\0"),
            on_end: function!(b"xsched_kfd_watch_on_end_v1\0"),
            spaces: function!(b"xsched_kfd_watch_spaces_v1\0"),
        })
    }

    /// A point in time, for [`Preloaded::created_since`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        (self.mark)()
    }

    /// Queues that this thread has made since and that are still there.
    #[must_use]
    pub fn created_since(&self, mark: u64) -> Vec<Record> {
        let mut queues = [WatchedQueue::default(); 16];
        // SAFETY: there is room for so many.
        let count = unsafe { (self.created)(mark, queues.as_mut_ptr(), queues.len()) };
        queues.iter().take(count).map(WatchedQueue::record).collect()
    }

    /// Sets what is called before a queue is destroyed or the runtime disabled.
    pub fn on_end(&self, call: Option<EndFn>) {
        (self.on_end)(call);
    }

    /// Whether ids alone say which queue is meant.
    #[must_use]
    pub fn has_one_space(&self) -> bool {
        (self.spaces)() == 0
    }

    fn asked(ask: impl FnOnce(*mut WatchedQueue) -> c_int) -> Option<Record> {
        let mut queue = WatchedQueue::default();
        (ask(&raw mut queue) == 1).then(|| queue.record())
    }
}

impl Watcher for Preloaded {
    fn record(&self, id: u32) -> Option<Record> {
        // SAFETY: there is room for a queue.
        Self::asked(|queue| unsafe { (self.record)(id, queue) })
    }

    fn hold(&self, id: u32) -> Option<Record> {
        // SAFETY: there is room for a queue.
        Self::asked(|queue| unsafe { (self.hold)(id, 1, queue) })
    }

    fn release(&self, id: u32) -> Option<Record> {
        // SAFETY: there is room for a queue.
        Self::asked(|queue| unsafe { (self.hold)(id, 0, queue) })
    }
}
