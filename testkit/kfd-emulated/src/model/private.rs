//! The numbers 0x87 and 0x88, which mean nothing in any released driver.

use rustix::io::Errno;

use super::{Asked, Handled, Model};
use crate::config::Private;
use crate::wire::{Argument, Definition, READ, WRITE, nr};

/// Drain, reset, save.
const KIND_LAST: u32 = 2;
/// Queues in one call.
const QUEUES_MAX: u32 = 1_024;

impl Model {
    /// The call's entry in the table, if there is one.
    pub(super) const fn private(&self, number: u8) -> Option<Definition> {
        let bytes = match (self.config.private, number) {
            (Private::Preempt, _) => 16,
            (Private::Suspend, nr::RESUME_QUEUE) => 32,
            _ => return None,
        };
        Some(Definition { bytes, direction: READ | WRITE })
    }

    pub(super) fn preempt_queue(&mut self, pid: u32, argument: &Argument<'_>) -> Handled {
        if argument.u32(4) > KIND_LAST {
            return Err(Errno::INVAL.into());
        }
        self.hold_one(pid, argument.u32(0), true)
    }

    /// Or the other meaning, which takes several queues.
    pub(super) fn resume_queue(&mut self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        if self.config.private == Private::Preempt {
            return self.hold_one(pid, argument.u32(0), false);
        }
        let (address, count) = (argument.u64(8), argument.u32(16));
        let suspends = argument.u32(24) == 0;
        if count > QUEUES_MAX {
            return Err(Errno::INVAL.into());
        }
        let mut bytes = vec![0; count as usize * 4];
        host.read(pid, address, &mut bytes)?;
        let (chunks, _) = bytes.as_chunks::<4>();
        for id in chunks.iter().map(|chunk| u32::from_ne_bytes(*chunk)) {
            self.hold_one(pid, id, suspends)?;
        }
        Ok(0)
    }

    fn hold_one(&mut self, pid: u32, id: u32, hold: bool) -> Handled {
        let gpu = self.queue_of(pid, id, Errno::INVAL)?.gpu;
        self.preempting(gpu, |model| {
            model.changing(pid, id, |queue| queue.stopped.preempted = hold);
        })?;
        Ok(0)
    }
}
