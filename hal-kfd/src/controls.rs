//! What shares a GPU out without stopping anything: compute units and priorities.

use std::sync::Arc;

use crate::driver::Driver;
use crate::error::KfdError;
use crate::mechanism::Mechanism;
use crate::queue::KfdQueue;
use crate::topology::Gpu;
use crate::uapi::{PRIORITY_MAX, SET_CU_MASK, UPDATE_QUEUE, UpdateQueue};
use crate::version::Versioned;

/// Units that a mask can have (`max_num_cus` in `kfd_ioctl_set_cu_mask`, Linux 6.12).
const MASK_UNITS_MAX: u32 = 1_024;

/// What can be set for queues of a GPU besides stopping them. A policy that shares a device in
/// space reads this; both act without waiting for waves that run, and neither is a preemption:
/// those waves go on where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Compute units that masks choose from, all partitions' dies together.
    pub units: u32,
    /// The highest priority of a queue; the lowest is 0. 0 to 6 are low for the hardware's pipes,
    /// 7 to 10 medium, 11 to 15 high.
    pub priority_max: u32,
}

impl Sharing {
    /// What a GPU offers.
    #[must_use]
    pub fn of(gpu: &Gpu) -> Self {
        Self { units: gpu.units(), priority_max: PRIORITY_MAX }
    }
}

/// Sets compute units and priorities. Each call costs every queue of the GPU a preemption, as
/// suspending one does.
#[derive(Debug)]
pub struct Controls<D> {
    driver: Arc<Versioned<D>>,
    mechanism: Option<Arc<dyn Mechanism>>,
}

impl<D: Driver> Controls<D> {
    /// On a driver whose queues nobody suspends.
    #[must_use]
    pub const fn new(driver: Arc<Versioned<D>>) -> Self {
        Self { driver, mechanism: None }
    }

    /// Beside what suspends them. Whoever holds and sets the same queue from two threads at once
    /// has to agree on an order.
    #[must_use]
    pub fn beside(mut self, mechanism: Arc<dyn Mechanism>) -> Self {
        self.mechanism = Some(mechanism);
        self
    }

    /// Lets a queue use these compute units only, one bit each, 32 in a word. Waves that start, or
    /// are restored, from now on obey.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] for a mask that is empty, has no bit set, or is longer than the
    /// driver takes; or what the driver answered.
    pub fn set_units(&self, queue: &KfdQueue, mask: &[u32]) -> Result<(), KfdError> {
        let most = u64::from(MASK_UNITS_MAX / 32);
        let value = mask.len() as u64;
        if mask.iter().all(|word| *word == 0) {
            return Err(KfdError::NoUnits);
        }
        if value > most {
            return Err(KfdError::OutOfRange { what: "the mask's length in words", value, most });
        }
        let answered = self.driver.set_cu_mask(queue.id(), mask)?;
        let refused = |errno| KfdError::of_queue(SET_CU_MASK.name, queue.id(), errno);
        answered.map(|_| ()).map_err(refused)
    }

    /// Gives a queue another priority, 0 to [`PRIORITY_MAX`]. One that is suspended by the
    /// mechanism gets it when it is resumed: an update now would end that.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`], or what the driver answered.
    pub fn set_priority(&self, queue: &KfdQueue, priority: u32) -> Result<(), KfdError> {
        let before = queue.priority();
        queue.note_priority(priority)?;
        let is_held = |mechanism: &Arc<dyn Mechanism>| {
            mechanism.held().iter().any(|held| held.id() == queue.id())
        };
        if self.mechanism.as_ref().is_some_and(is_held) {
            return Ok(());
        }
        let facts = queue.facts();
        let answered = self.driver.update_queue(UpdateQueue {
            ring_base: facts.ring_base,
            queue_id: facts.id,
            ring_size: facts.ring_size,
            percentage: 100,
            priority,
        })?;
        answered.map(|_| ()).map_err(|errno| {
            // It was valid, or it would not have been there.
            _ = queue.note_priority(before);
            KfdError::of_queue(UPDATE_QUEUE.name, facts.id, errno)
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::mechanism::UpdateQueue;
    use crate::scripted::{Fake, queue};

    fn controls(fake: &Fake) -> Controls<Fake> {
        Controls::new(fake.versioned())
    }

    #[test]
    fn units_are_set() {
        let fake = Fake::with_queues(1);
        let controls = controls(&fake);
        assert_eq!(controls.set_units(&queue(0), &[0xff, 0]), Ok(()));
        assert_eq!(fake.state().mask, [0xff, 0]);
        assert_eq!(controls.set_units(&queue(0), &[]), Err(KfdError::NoUnits));
        assert_eq!(controls.set_units(&queue(0), &[0, 0]), Err(KfdError::NoUnits));
        let long = controls.set_units(&queue(0), &[1; 33]);
        assert!(matches!(long, Err(KfdError::OutOfRange { value: 33, most: 32, .. })));
        let unknown = controls.set_units(&queue(7), &[1]);
        assert!(matches!(unknown, Err(KfdError::UnknownQueue { queue: 7, .. })));
    }

    #[test]
    fn priorities_are_set_and_kept() {
        let fake = Fake::with_queues(1);
        let (controls, one) = (controls(&fake), queue(0));
        assert_eq!(controls.set_priority(&one, 11), Ok(()));
        assert_eq!((fake.state().queues[&0].priority, one.priority()), (11, 11));
        assert!(controls.set_priority(&one, 16).is_err());
        fake.fail(UPDATE_QUEUE.request, Errno::IO);
        assert!(controls.set_priority(&one, 3).is_err());
        assert_eq!(one.priority(), 11, "it has the one that was set");
    }
    #[test]
    fn a_suspended_queue_stays_so() {
        let fake = Fake::with_queues(1);
        let update: Arc<dyn Mechanism> = Arc::new(UpdateQueue::new(fake.versioned(), None));
        let (controls, one) = (controls(&fake).beside(Arc::clone(&update)), queue(0));
        assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
        assert_eq!(controls.set_priority(&one, 11), Ok(()));
        assert!(!fake.is_active(0));
        assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
        assert!(fake.is_active(0));
        assert_eq!(fake.state().queues[&0].priority, 11);
    }
}
