//! State that a queue keeps of one command.

use super::Queue;
use crate::fault::Fault;
use crate::id::{CmdId, EventRef, QueueId};
use crate::store::Store;

/// Storage for one command of a queue. A queue with `n` slots takes at most `n` commands that have
/// not retired, and remembers the outcome of the last `n`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandSlot {
    wait_queue: QueueId,
    wait_cmd: CmdId,
    kind: Kind,
    /// Set once the command's completion was requested.
    pub(crate) requested: bool,
    /// Nothing of it is, or will be, on the device; it retires when all before it have.
    pub(crate) settled: bool,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Device,
    Wait,
}

impl CommandSlot {
    pub(crate) const fn device() -> Self {
        Self {
            wait_queue: QueueId::new(0, 0),
            wait_cmd: CmdId(0),
            kind: Kind::Device,
            requested: false,
            settled: false,
            fault: None,
        }
    }

    pub(crate) const fn wait(event: EventRef) -> Self {
        let mut slot = Self::device();
        slot.wait_queue = event.queue;
        slot.wait_cmd = event.cmd;
        slot.kind = Kind::Wait;
        slot
    }

    /// The event that the command waits for, if it is a wait.
    pub(crate) const fn awaited(&self) -> Option<EventRef> {
        match self.kind {
            Kind::Device => None,
            Kind::Wait => Some(EventRef { queue: self.wait_queue, cmd: self.wait_cmd }),
        }
    }
}

/// Status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Never submitted.
    Unknown,
    /// Submitted and not launched.
    Queued,
    /// Launched and not known to have retired.
    InFlight,
    /// Retired without an error.
    Done,
    /// Failed, was cancelled or was dropped.
    Failed(Fault),
    /// Retired, and the ring has since reused the command's slot, so the outcome is forgotten.
    Forgotten,
}

impl Status {
    /// Returns whether a wait for the command would return.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed(_) | Self::Forgotten)
    }
}

/// The mask that takes the place of a remainder in a ring of this size; 0 if none does.
pub(super) const fn mask(slots: usize) -> u64 {
    if slots.is_power_of_two() { slots as u64 - 1 } else { 0 }
}

impl<R: Store<CommandSlot>> Queue<R> {
    /// Exchanges the ring for a larger one, which takes over what this one remembers, and gives
    /// this one back. A ring that is not larger is given back itself. Takes one pass over the ring.
    ///
    /// ```
    /// use xsched_core::level::{Caps, Level};
    /// use xsched_core::queue::{CommandSlot, Queue, QueueConfig, SubmitError};
    /// use xsched_core::time::Instant;
    ///
    /// let ring = |slots| vec![CommandSlot::default(); slots];
    /// let caps = Caps::up_to(Level::Block, 64);
    /// let mut queue = Queue::new(ring(1), QueueConfig::default(), caps);
    /// queue.submit(Instant::ZERO)?;
    /// assert_eq!(queue.submit(Instant::ZERO), Err(SubmitError::Full));
    /// assert_eq!(queue.grow(ring(2)).len(), 1);
    /// queue.submit(Instant::ZERO)?;
    /// # Ok::<(), SubmitError>(())
    /// ```
    pub fn grow(&mut self, mut ring: R) -> R {
        let (before, after) = (self.ring.as_ref().len(), ring.as_ref().len());
        if after <= before {
            return ring;
        }
        for n in self.submitted.saturating_sub(before as u64)..self.submitted {
            ring.as_mut()[(n % after as u64) as usize] = *self.slot(n);
        }
        self.mask = mask(after);
        core::mem::replace(&mut self.ring, ring)
    }

    fn index(&self, n: u64) -> usize {
        let slots = self.ring.as_ref().len() as u64;
        let index = if self.mask != 0 { n & self.mask } else { n % slots.max(1) };
        index as usize
    }

    pub(super) fn slot(&self, n: u64) -> &CommandSlot {
        &self.ring.as_ref()[self.index(n)]
    }

    pub(super) fn slot_mut(&mut self, n: u64) -> &mut CommandSlot {
        let index = self.index(n);
        &mut self.ring.as_mut()[index]
    }
}
