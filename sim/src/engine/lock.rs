//! A host lock that threads of a process need for launching.

use super::Engine;
use crate::clock::Event;
use crate::sample::{self, Rng};
use crate::scenario::LockOrder;

/// The lock and who waits for it.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) order: LockOrder,
    pub(super) handoff_ns: u64,
    owner: Option<u32>,
    waiters: Vec<(u32, u64)>,
    rng: Rng,
}

impl Lock {
    pub(super) fn new(order: LockOrder, handoff_ns: u64, rng: Rng) -> Self {
        Self { order, handoff_ns, owner: None, waiters: Vec::new(), rng }
    }

    /// Takes the lock if it is free; else the thread queues up and is woken later.
    fn acquire(&mut self, task: u32, now_ns: u64) -> bool {
        if self.owner.is_none() {
            self.owner = Some(task);
            return true;
        }
        self.waiters.push((task, now_ns));
        false
    }

    /// Gives the lock to the next thread, if one waits.
    fn pass_on(&mut self) -> Option<u32> {
        self.owner = None;
        if self.waiters.is_empty() {
            return None;
        }
        let next = match self.order {
            LockOrder::Fair => 0,
            LockOrder::Unfair { .. } => sample::below(self.waiters.len(), &mut self.rng),
        };
        let (task, _) = self.waiters.remove(next);
        self.owner = Some(task);
        Some(task)
    }

    /// True if the owner has to give way between two launches.
    fn must_yield(&self, now_ns: u64) -> bool {
        match self.order {
            LockOrder::Fair => !self.waiters.is_empty(),
            LockOrder::Unfair { switch_ns } => {
                let longest = self.waiters.iter().map(|(_, since)| now_ns - since).max();
                longest.is_some_and(|ns| ns >= switch_ns)
            }
        }
    }
}

impl Engine<'_> {
    /// Takes the lock of the thread's process; true if the thread has it (or needs none) now.
    pub(super) fn lock(&mut self, task: usize) -> bool {
        let thread = &mut self.threads[task];
        let Some(lock) = thread.lock.filter(|_| !thread.has_lock) else { return true };
        let now_ns = self.world.borrow().clock.now_ns();
        thread.has_lock = self.locks[lock].acquire(task as u32, now_ns);
        thread.has_lock
    }

    pub(super) fn unlock(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        let Some(lock) = thread.lock.filter(|_| thread.has_lock) else { return };
        thread.has_lock = false;
        if let Some(next) = self.locks[lock].pass_on() {
            self.threads[next as usize].has_lock = true;
            self.threads[next as usize].just_granted = true;
            let event = Event::Thread { task: next };
            self.world.borrow_mut().clock.after(self.locks[lock].handoff_ns, event);
        }
    }

    /// Between two launches: gives way if the lock's order says so. True if the thread still has
    /// the lock.
    pub(super) fn keep_lock(&mut self, task: usize) -> bool {
        let thread = &self.threads[task];
        let Some(lock) = thread.lock.filter(|_| thread.has_lock) else { return self.lock(task) };
        // The thread that was just given the lock does something with it first.
        if std::mem::take(&mut self.threads[task].just_granted) {
            return true;
        }
        if !self.locks[lock].must_yield(self.now_ns()) {
            return true;
        }
        self.unlock(task);
        self.lock(task)
    }

    /// A thread is gone; it no longer waits for the lock.
    pub(super) fn forget_lock(&mut self, task: usize) {
        if let Some(lock) = self.threads[task].lock {
            self.locks[lock].waiters.retain(|(waiter, _)| *waiter != task as u32);
        }
        self.unlock(task);
    }
}
