//! Holds of all queues of a device, by a scheduler above the runtime's.

use std::sync::{Arc, Weak};

use crate::device::Device;
use crate::scheduler::SchedulerHandle;
use crate::workers::Workers;

/// Holds and releases all queues of a device together, for a scheduler above the runtime's, such as
/// that of a node. It keeps neither the device nor the runtime.
///
/// Each queue is held as deep as its device can and as it is configured for, and so are those that
/// are made meanwhile. Orders of the runtime's scheduler and the user's suspensions count besides.
/// A queue whose gates another process closes ([`Caps::in_unit`](crate::Caps::in_unit)) is held
/// only if it is at Lv3.
///
/// ```
/// use std::time::Duration;
///
/// use xsched::hal::{Noop, NoopQueue};
/// use xsched::prelude::*;
///
/// static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
/// let runtime = Runtime::new(Hpf::default())?;
/// let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// let queue = device.queue(XQueueConfig::default(), ())?;
/// let holder = device.holder();
/// assert!(holder.hold(true));
/// let ticket = queue.submit(7)?;
/// let moment = Duration::from_millis(5);
/// assert_eq!(queue.wait_timeout(ticket, moment), Err(WaitError::Timeout));
/// holder.hold(false);
/// queue.wait(ticket)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Holder {
    scheduler: Weak<SchedulerHandle>,
    workers: Weak<Workers>,
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder").finish_non_exhaustive()
    }
}

impl<B> Device<B> {
    /// Holds all queues of this device together; [`Holder`] has an example.
    #[must_use]
    pub fn holder(&self) -> Holder {
        let scheduler = Arc::downgrade(self.runtime().scheduler());
        Holder { scheduler, workers: Arc::downgrade(self.workers()) }
    }
}

impl Holder {
    /// Holds all queues of the device, or ends that. Nothing happens if that is so already. May
    /// wait for the calls by which a driver holds and releases. False if nothing is left of the
    /// device and its queues.
    #[must_use = "false says that the device has gone"]
    pub fn hold(&self, hold: bool) -> bool {
        let (Some(scheduler), Some(workers)) = (self.scheduler.upgrade(), self.workers.upgrade())
        else {
            return false;
        };
        if workers.set_held(hold) {
            // A queue that is entered after this looks itself.
            scheduler.queues().iter().for_each(|(_, queue)| queue.follow_device());
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use xsched_core::hal::{Noop, NoopQueue};
    use xsched_core::message::HoldState;
    use xsched_policies::hpf::Hpf;

    use crate::{Runtime, XQueueConfig};

    #[test]
    fn all_queues_of_the_device_are_held_and_no_others_also_those_that_are_made_meanwhile() {
        let hardware: &'static [NoopQueue] = Box::leak(Box::new([const { NoopQueue::new() }; 4]));
        let runtime = Runtime::new(Hpf::default()).unwrap();
        let device = runtime.device(Noop::<u32>::new(&hardware[..2])).unwrap();
        let beside = runtime.device(Noop::<u32>::new(&hardware[2..])).unwrap();
        let make = |device: &crate::Device<_>| device.queue(XQueueConfig::default(), ()).unwrap();
        let (before, other, holder) = (make(&device), make(&beside), device.holder());
        assert!(holder.hold(true) && holder.hold(true));
        let after = make(&device);
        let is_held = |queue: &crate::XQueue<u32>| {
            queue.submit(0).unwrap();
            matches!(queue.stats().hold, HoldState::Held(_))
        };
        assert_eq!([&before, &after, &other].map(is_held), [true, true, false]);
        // Neither of these ends it.
        before.resume();
        runtime.set_policy(Hpf::default()).unwrap();
        assert_eq!(before.stats().retired, 0);
        assert!(holder.hold(false));
        for queue in [&before, &after] {
            queue.wait(queue.submit(1).unwrap()).unwrap();
        }
    }

    #[test]
    fn it_keeps_no_device() {
        let hardware: &'static [NoopQueue] = Box::leak(Box::new([const { NoopQueue::new() }; 1]));
        let runtime = Runtime::new(Hpf::default()).unwrap();
        let device = runtime.device(Noop::<u32>::new(hardware)).unwrap();
        let holder = device.holder();
        assert!(holder.hold(true));
        drop((device, runtime));
        let start = std::time::Instant::now();
        while holder.hold(false) {
            assert!(start.elapsed().as_secs() < 10, "it is kept");
            std::thread::yield_now();
        }
    }
}
