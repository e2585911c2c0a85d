//! The mechanism `update-queue`: `UPDATE_QUEUE` with a percentage of 0, then 100.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::suspended::SuspendedQueues;
use super::{Answers, Kind, Mechanism};
use crate::driver::Driver;
use crate::error::KfdError;
use crate::queue::KfdQueue;
use crate::uapi::{self, UPDATE_QUEUE};
use crate::version::Versioned;
use crate::watching::{Record, Watcher};

/// A resume is repeated at most this often because the queue's owner updated the queue meanwhile.
const RACES_MAX: u32 = 4;

/// Makes queues inactive, as ROCm's runtime does itself to reclaim scratch memory.
///
/// It needs only the permission to open the driver, and works on every version, for queues of this
/// process. Each queue costs a preemption of its own, because the call takes one id. The ring's
/// address, its exact size and the priority are repeated, because an update replaces them.
///
/// The queue's owner may make the queue active again by an update. With a [`Watcher`] that update
/// is held back until the queue is resumed. Without one [`Mechanism::is_still_suspended`] finds
/// out.
#[derive(Debug)]
pub struct UpdateQueue<D: Driver> {
    driver: Arc<Versioned<D>>,
    watcher: Option<Arc<dyn Watcher>>,
    held: Mutex<SuspendedQueues>,
}

impl<D: Driver> UpdateQueue<D> {
    /// The mechanism on a driver, with what sees the owners' updates, if anything does.
    #[must_use]
    pub fn new(driver: Arc<Versioned<D>>, watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self { driver, watcher, held: Mutex::default() }
    }

    /// The set is locked during calls too: the driver carries out one at a time anyway.
    fn suspended(&self) -> MutexGuard<'_, SuspendedQueues> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, queue: &KfdQueue, percentage: u32) -> Result<(), KfdError> {
        let facts = queue.facts();
        let answered = self.driver.update_queue(uapi::UpdateQueue {
            ring_base: facts.ring_base,
            queue_id: facts.id,
            ring_size: facts.ring_size,
            percentage,
            priority: queue.priority(),
        })?;
        let refused = |errno| KfdError::of_queue(UPDATE_QUEUE.name, facts.id, errno);
        answered.map(|_| ()).map_err(refused)
    }

    /// The watcher's record, if it is about this queue and not about a later one with its id.
    fn checked(&self, queue: &KfdQueue, record: Option<Record>) -> Result<Record, KfdError> {
        let facts = queue.facts();
        let unknown = KfdError::UnknownQueue { call: UPDATE_QUEUE.name, queue: facts.id };
        let record = record.ok_or(unknown.clone())?;
        let same = facts.created.is_none_or(|created| record.facts.created == Some(created));
        if !same || record.facts.ring_base != facts.ring_base {
            return Err(unknown);
        }
        queue.note_owners(record.facts.priority)?;
        Ok(record)
    }

    fn suspend_one(
        &self,
        held: &mut SuspendedQueues,
        queue: &Arc<KfdQueue>,
    ) -> Result<(), KfdError> {
        if held.has(queue) {
            return Ok(());
        }
        let Some(watcher) = &self.watcher else {
            self.update(queue, 0)?;
            held.add(queue);
            return Ok(());
        };
        let record = self.checked(queue, watcher.hold(queue.id()));
        // A queue that its owner has made inactive only has to stay so.
        let stopped = record.and_then(|record| match record.percentage {
            0 => Ok(()),
            _ => self.update(queue, 0),
        });
        match stopped {
            Ok(()) => held.add(queue),
            Err(_) => _ = watcher.release(queue.id()),
        }
        stopped
    }

    fn resume_one(
        &self,
        held: &mut SuspendedQueues,
        queue: &Arc<KfdQueue>,
    ) -> Result<(), KfdError> {
        if !held.has(queue) {
            return Ok(());
        }
        let answer = match &self.watcher {
            None => self.update(queue, 100),
            Some(watcher) => self.resume_watched(&**watcher, queue),
        };
        // A queue that was destroyed is not suspended either.
        if matches!(answer, Ok(()) | Err(KfdError::UnknownQueue { .. })) {
            held.remove(queue);
        }
        answer
    }

    /// Sets the percentage that the queue's owner asked for last. If the owner updates the queue at
    /// the same time, the owner's update must be the last.
    fn resume_watched(&self, watcher: &dyn Watcher, queue: &KfdQueue) -> Result<(), KfdError> {
        let mut record = self.checked(queue, watcher.release(queue.id()))?;
        for _ in 0..RACES_MAX {
            if record.percentage > 0 {
                let updated = self.update(queue, record.percentage);
                if updated.is_err() {
                    _ = watcher.hold(queue.id());
                    return updated;
                }
            }
            let now = self.checked(queue, watcher.record(queue.id()))?;
            if now.updates == record.updates {
                return Ok(());
            }
            record = now;
        }
        Ok(())
    }

    fn asks_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        let call = uapi::GET_QUEUE_WAVE_STATE.name;
        match self.driver.wave_state(queue.id())? {
            Ok(_) | Err(Errno::FAULT) => Ok(true),
            Err(Errno::INVAL) => Ok(false),
            Err(errno) => Err(KfdError::of_queue(call, queue.id(), errno)),
        }
    }
}

impl<D: Driver> Mechanism for UpdateQueue<D> {
    fn kind(&self) -> Kind {
        Kind::UpdateQueue
    }

    fn suspend(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut held = self.suspended();
        queues.iter().map(|queue| self.suspend_one(&mut held, queue)).collect()
    }

    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut held = self.suspended();
        queues.iter().map(|queue| self.resume_one(&mut held, queue)).collect()
    }

    fn forget(&self, queue: &KfdQueue) {
        let mut held = self.suspended();
        if held.has(queue) {
            if let Some(watcher) = &self.watcher {
                _ = watcher.release(queue.id());
            }
            held.remove(queue);
        }
    }

    /// Asks for the waves' state at a null address. For an active queue the driver answers `EINVAL`
    /// before it looks at the address, for an inactive one `EFAULT` after it (`get_wave_state` in
    /// `kfd_device_queue_manager.c`, Linux 6.12; read and not run).
    ///
    /// A queue may be inactive for other reasons as well, such as an eviction. Where save and
    /// restore is off, the answer is always that the queue is active.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        Ok(self.suspended().has(queue) && self.asks_still_suspended(queue)?)
    }

    fn reassert(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        let held = self.suspended();
        if !held.has(queue) || self.asks_still_suspended(queue)? {
            return Ok(false);
        }
        self.update(queue, 0).map(|()| true)
    }

    fn held(&self) -> Vec<Arc<KfdQueue>> {
        self.suspended().all()
    }

    /// One for each queue: the call takes one id.
    fn preemptions(&self, queues: usize) -> usize {
        queues
    }
}

impl<D: Driver> Drop for UpdateQueue<D> {
    /// Resumes all suspended queues. An error is ignored: nothing is left that could handle it.
    fn drop(&mut self) {
        _ = self.resume_all();
    }
}

#[cfg(test)]
mod tests;
