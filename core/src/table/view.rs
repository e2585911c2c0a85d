//! The table as a policy sees it.

use core::cell::Cell;

use crate::cost::CostModel;
use crate::hint::Priority;
use crate::id::{DeviceId, ProcessId, QueueId};
use crate::table::bits::members;
use crate::table::slot::{DeviceSlot, NONE, QueueInfo, QueueSlot};
use crate::table::state::{DEVICE_WORDS, PolicyState, QUEUE_WORDS, StateCell};
use crate::table::verdict::Verdict;
use crate::time::Instant;

/// The queue table of a scheduler: read-only, except for the policy's own state.
#[derive(Clone, Copy, Debug)]
pub struct QueueTable<'a> {
    pub(crate) queues: &'a [QueueSlot],
    pub(crate) devices: &'a [DeviceSlot],
    /// Queues that iterators gave.
    pub(crate) looked: &'a Cell<u64>,
}

impl<'a> QueueTable<'a> {
    /// A queue, if it is in the table.
    #[must_use]
    pub fn get(&self, queue: QueueId) -> Option<&'a QueueInfo> {
        self.slot(queue).map(|slot| &slot.info)
    }

    fn slot(&self, queue: QueueId) -> Option<&'a QueueSlot> {
        self.queues.get(queue.index()).filter(|slot| slot.is(queue))
    }

    /// All queues, in table order.
    pub fn iter(&self) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        self.looked(self.queues.iter().filter(|slot| slot.live))
    }

    /// The queues of one device, in table order.
    pub fn on_device(&self, device: DeviceId) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        self.iter().filter(move |info| info.device == device)
    }

    /// The queues of one process, in table order.
    pub fn of_process(&self, process: ProcessId) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        self.iter().filter(move |info| info.process == process)
    }

    /// The ready queues, in table order. Takes as long as there are such queues, and a little for
    /// the others.
    pub fn ready(&self) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        self.looked(members(self.queues, |slot| slot.ready_bits))
    }

    /// The ready queues of one device, in table order.
    pub fn ready_on(&self, device: DeviceId) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        self.ready().filter(move |info| info.device == device)
    }

    /// The ready queues, and those that are noted as changed, in table order.
    pub(crate) fn active(&self) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        self.looked(members(self.queues, |slot| slot.ready_bits | slot.changed_bits))
    }

    /// Counts what is given.
    fn looked<I: Iterator<Item = &'a QueueSlot>>(
        &self,
        slots: I,
    ) -> impl Iterator<Item = &'a QueueInfo> + use<'a, I> {
        let looked = self.looked;
        slots.map(move |slot| {
            looked.set(looked.get() + 1);
            &slot.info
        })
    }

    /// All devices.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..self.devices.len() as u16).map(DeviceId)
    }

    /// The highest priority among the ready queues of a device, in constant time. Queues with
    /// [`Priority::NO_EXECUTE`] do not count.
    #[must_use]
    pub fn top_ready(&self, device: DeviceId) -> Option<Priority> {
        self.devices.get(device.index())?.top_ready()
    }

    /// The priority from which on the ready queues of a device are to run, if the highest come
    /// first: the highest, or the next one if all of the highest
    /// [claim little](crate::message::Claim::Little) of the device. Takes constant time.
    #[must_use]
    pub fn ready_floor(&self, device: DeviceId) -> Option<Priority> {
        self.devices.get(device.index())?.ready_floor()
    }

    /// The verdict that is in force for a queue (not counting floors and inheritance).
    #[must_use]
    pub fn verdict(&self, queue: QueueId) -> Option<Verdict> {
        self.slot(queue).map(|slot| slot.verdict.get())
    }

    /// When a queue last became ready.
    #[must_use]
    pub fn ready_since(&self, queue: QueueId) -> Option<Instant> {
        self.get(queue).map(|info| info.report.ready_since)
    }

    /// The queue at this place of the table, if there is one: see [`QueueId::index`].
    #[must_use]
    pub fn at(&self, index: usize) -> Option<&'a QueueInfo> {
        self.queues.get(index).filter(|slot| slot.live).map(|slot| &slot.info)
    }

    /// The queues of a device that have this priority, in no particular order. Takes as long as
    /// there are such queues.
    pub fn with_priority(
        &self,
        device: DeviceId,
        priority: Priority,
    ) -> impl Iterator<Item = &'a QueueInfo> + use<'a> {
        let queues = self.queues;
        let head = self.devices.get(device.index()).map_or(NONE, |d| d.head(priority.rank()));
        let slot = move |index: u32| queues.get(index as usize);
        self.looked(core::iter::successors(slot(head), move |before| slot(before.bucket_next)))
    }

    /// How many queues the iterators of this scheduler's table have given so far, to any caller.
    /// Tests count with it what a policy looks at.
    #[must_use]
    pub fn looked_at(&self) -> u64 {
        self.looked.get()
    }

    /// Returns the policy's state of a queue; `None` for a queue that is not in the table.
    ///
    /// All fields are zero when the queue is attached and when the policy changes. See
    /// [`policy_state!`](crate::policy_state).
    #[must_use]
    pub fn state<S: PolicyState>(&self, queue: QueueId) -> Option<StateCell<'a, S, QUEUE_WORDS>> {
        self.slot(queue).map(|slot| StateCell::new(&slot.words))
    }

    /// Returns the policy's state of the queue at a place of the table, for policies that link
    /// queues by their places (see [`QueueId::index`]); `None` beyond the end of the table.
    ///
    /// A place without a queue has a state as well. It is zeroed when a queue gets the place.
    #[must_use]
    pub fn state_at<S: PolicyState>(&self, index: usize) -> Option<StateCell<'a, S, QUEUE_WORDS>> {
        self.queues.get(index).map(|slot| StateCell::new(&slot.words))
    }

    /// Zeroes what the policy remembers about a queue.
    pub fn clear_state(&self, queue: QueueId) {
        if let Some(slot) = self.slot(queue) {
            slot.words.set([0; QUEUE_WORDS]);
        }
    }

    /// Returns the policy's state of a device; `None` for a device that does not exist.
    ///
    /// All fields are zero at first and when the policy changes.
    #[must_use]
    pub fn device_state<S: PolicyState>(
        &self,
        device: DeviceId,
    ) -> Option<StateCell<'a, S, DEVICE_WORDS>> {
        self.devices.get(device.index()).map(|slot| StateCell::new(&slot.words))
    }

    /// Zeroes what the policy remembers about a device.
    pub fn clear_device_state(&self, device: DeviceId) {
        if let Some(slot) = self.devices.get(device.index()) {
            slot.words.set([0; DEVICE_WORDS]);
        }
    }

    /// Returns the costs of preemption on a device. All zero if they were not set.
    #[must_use]
    pub fn cost(&self, device: DeviceId) -> CostModel {
        self.devices.get(device.index()).map_or_else(CostModel::default, |slot| slot.cost)
    }
}
