//! Reports of the device: exceptions of queues, and wrong addresses.

use super::Model;
use super::events::MEMORY;

/// Codes of exceptions are from 1 on, and bits from 0 on.
const CODE_LAST: u32 = 63;

/// Receiver of an exception of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The debugger, which asked for it.
    Debugger,
    /// The process's own runtime.
    Runtime,
}

impl Model {
    /// The device stopped a queue for an exception, by its code in the interface. Who is to be
    /// told: the device tells the runtime by itself. `None` if there is no such queue or code.
    pub fn raise(&mut self, pid: u32, id: u32, code: u32) -> Option<Told> {
        let bit = code.checked_sub(1).filter(|bit| *bit < CODE_LAST)?;
        let process = self.processes.get_mut(&pid)?;
        let queue = process.queues.get_mut(&id)?;
        queue.exceptions |= 1 << bit;
        let wanted = process.debugged.as_ref().map_or(0, |debugged| debugged.exceptions);
        Some(if wanted >> bit & 1 != 0 { Told::Debugger } else { Told::Runtime })
    }

    /// A wave or a packet of a process used a wrong address: all its events for that are set. How
    /// many these were; `None` without such a GPU.
    pub fn memory_fault(
        &mut self,
        pid: u32,
        gpu_id: u32,
        address: u64,
        is_write: bool,
    ) -> Option<u32> {
        self.gpu(gpu_id)?;
        let mut data = [0; 32];
        let mut words = crate::wire::Argument(&mut data);
        // Not present; and what it would be if it were.
        words.set_u32(0, 1);
        words.set_u32(4, u32::from(is_write));
        words.set_u64(16, address & !0xfff);
        words.set_u32(24, gpu_id);
        Some(self.set_events(pid, MEMORY, data))
    }

    /// The exceptions of a queue that no debugger has cleared, as bits.
    #[must_use]
    pub fn exceptions(&self, pid: u32, id: u32) -> Option<u64> {
        Some(self.processes.get(&pid)?.queues.get(&id)?.exceptions)
    }
}
