//! The queues of this process, as its calls show them.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_hal_kfd::preloaded::{EndFn, WatchedQueue};
use xsched_hal_kfd::uapi::{CreateQueue88, UpdateQueue};

/// Types of queues that run waves.
const COMPUTE: u32 = 0;
const AQL: u32 = 2;

/// A queue, the thread that made it, and whether its updates are held back.
#[derive(Clone, Copy, Debug)]
struct Entry {
    queue: WatchedQueue,
    thread: i32,
    is_held: bool,
    /// Where the number of packets is that were written into the ring; 0 if it may not be read.
    write_pointer: u64,
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Table {
    queues: BTreeMap<u32, Entry>,
    /// Queues made so far.
    created: u64,
    /// The process of these queues: a child process has none of its parent's.
    process: i32,
    /// An id may mean several queues.
    pub(crate) has_secondary_process: bool,
    /// The callback before a call that would wait for a suspended queue.
    pub(crate) on_end: Option<EndFn>,
}

impl Table {
    const fn new() -> Self {
        Self {
            queues: BTreeMap::new(),
            created: 0,
            process: 0,
            has_secondary_process: false,
            on_end: None,
        }
    }

    pub(crate) const fn created(&self) -> u64 {
        self.created
    }

    /// A queue was made.
    pub(crate) fn create(&mut self, made: &CreateQueue88, thread: i32) {
        self.created += 1;
        let queue = WatchedQueue {
            id: made.queue_id,
            gpu_id: made.gpu_id,
            ring_base: made.ring_base,
            ring_size: made.ring_size,
            priority: made.priority,
            kind: made.queue_type,
            percentage: made.percentage & 0xff,
            save_bytes: u64::from(made.save_size),
            created: self.created,
            updates: 0,
            held_back: 0,
        };
        self.queues.insert(
            queue.id,
            Entry { queue, thread, is_held: false, write_pointer: made.write_pointer },
        );
    }

    /// Removes the queue with this id and number. Another queue may have its id by now.
    pub(crate) fn destroy(&mut self, id: u32, created: u64) {
        if self.queues.get(&id).is_some_and(|entry| entry.queue.created == created) {
            self.queues.remove(&id);
        }
    }

    /// The queue with this id is about to be destroyed, or was not, and what it was made of may go
    /// before that is noted.
    pub(crate) fn ends(&mut self, id: u32) {
        if let Some(entry) = self.queues.get_mut(&id) {
            entry.write_pointer = 0;
        }
    }

    /// For each queue that runs waves: its number, its id, and the packets that were written.
    pub(crate) fn written(&self) -> impl Iterator<Item = [u64; 3]> {
        let readable = |entry: &&Entry| {
            let place = entry.write_pointer;
            matches!(entry.queue.kind, COMPUTE | AQL) && place != 0 && place.is_multiple_of(8)
        };
        self.queues.values().filter(readable).map(|Entry { queue, write_pointer, .. }| {
            let place: *mut u64 = ptr::with_exposed_provenance_mut(*write_pointer as usize);
            // SAFETY: the queue's owner has told the driver that its number is there, aligned, and
            // keeps it until the queue is destroyed, which is noted before, with this table locked.
            // The owner changes it by atomic operations.
            let written = unsafe { AtomicU64::from_ptr(place) }.load(Ordering::Acquire);
            [queue.created, u64::from(queue.id), written]
        })
    }

    pub(crate) fn get(&self, id: u32) -> Option<WatchedQueue> {
        self.queues.get(&id).map(|entry| entry.queue)
    }

    pub(crate) fn is_held(&self, id: u32) -> bool {
        self.queues.get(&id).is_some_and(|entry| entry.is_held)
    }

    pub(crate) fn hold(&mut self, id: u32, held: bool) -> Option<WatchedQueue> {
        let entry = self.queues.get_mut(&id)?;
        entry.is_held = held;
        Some(entry.queue)
    }

    /// Notes an update by the owner, which may be held back.
    pub(crate) fn update(&mut self, wanted: &UpdateQueue, held_back: bool) {
        let Some(entry) = self.queues.get_mut(&wanted.queue_id) else { return };
        let queue = &mut entry.queue;
        (queue.ring_base, queue.ring_size) = (wanted.ring_base, wanted.ring_size);
        (queue.priority, queue.percentage) = (wanted.priority, wanted.percentage & 0xff);
        queue.updates += 1;
        queue.held_back += u64::from(held_back);
    }

    pub(crate) fn created_since(&self, before: u64, thread: i32) -> Vec<WatchedQueue> {
        let new = |entry: &&Entry| entry.queue.created > before && entry.thread == thread;
        let mut found: Vec<_> = self.queues.values().filter(new).map(|entry| entry.queue).collect();
        found.sort_unstable_by_key(|queue| queue.created);
        found
    }
}

static TABLE: Mutex<Table> = Mutex::new(Table::new());

/// The table of this process.
pub(crate) fn lock() -> MutexGuard<'static, Table> {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: it takes nothing and cannot fail.
    let process = unsafe { libc::getpid() };
    if table.process != process {
        *table = Table { process, ..Table::new() };
    }
    table
}

/// Number of this thread in the system.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(id: u32) -> CreateQueue88 {
        CreateQueue88 { queue_id: id, ring_base: 0x1000, percentage: 100, ..Default::default() }
    }

    #[test]
    fn queues_are_listed_by_thread_and_order() {
        let mut table = Table::new();
        table.create(&made(0), 1);
        let before = table.created();
        table.create(&made(1), 1);
        table.create(&made(2), 2);
        let ids = |table: &Table, before, thread| -> Vec<u32> {
            table.created_since(before, thread).iter().map(|queue| queue.id).collect()
        };
        assert_eq!(ids(&table, before, 1), [1]);
        assert_eq!(ids(&table, 0, 1), [0, 1]);
        assert_eq!(ids(&table, before, 3), [0_u32; 0]);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_queue() {
        let mut table = Table::new();
        table.create(&made(0), 1);
        let first = table.get(0).expect("it is there").created;
        table.hold(0, true);
        table.create(&made(0), 1);
        // The destruction of the first one is noted late.
        table.destroy(0, first);
        let second = table.get(0).expect("it is there").created;
        assert!(second > first && !table.is_held(0));
        table.destroy(0, second);
        assert_eq!(table.get(0), None);
        assert_eq!(table.hold(0, true), None);
    }

    #[test]
    fn the_owners_update_is_kept() {
        let mut table = Table::new();
        table.create(&made(0), 1);
        let wanted = UpdateQueue { priority: 11, percentage: 0x0264, ..Default::default() };
        table.update(&wanted, true);
        let queue = table.get(0).expect("it is there");
        assert_eq!((queue.priority, queue.percentage), (11, 100));
        assert_eq!((queue.updates, queue.held_back), (1, 1));
        table.update(&UpdateQueue { queue_id: 9, ..wanted }, false);
        assert_eq!(table.get(9), None);
    }
}
