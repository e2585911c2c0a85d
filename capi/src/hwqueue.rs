//! Hardware queues as the C API has them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::commands::Commands;
use crate::platform::Hardware;
use crate::refusal::{Answer, Refusal};

/// A hardware queue: what an XQueue is made for.
#[derive(Debug)]
pub(crate) struct HwQueue {
    pub(crate) handle: u64,
    pub(crate) hardware: Box<dyn Hardware>,
    /// The XQueue that it has. Locked while one is made.
    xqueue: Mutex<Option<u64>>,
}

impl HwQueue {
    pub(crate) const fn new(handle: u64, hardware: Box<dyn Hardware>) -> Self {
        Self { handle, hardware, xqueue: Mutex::new(None) }
    }

    /// The XQueue that it has.
    pub(crate) fn xqueue(&self) -> MutexGuard<'_, Option<u64>> {
        self.xqueue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches a command past the XQueue.
    pub(crate) fn launch(&self, commands: &Commands, raw: u64) -> Answer {
        let command = commands.take(raw)?;
        if command.is_for_host() && !self.hardware.is_host() {
            commands.put_back(raw);
            return Err(Refusal::invalid("the command is one for the host device"));
        }
        let launched = self.hardware.launch(command, self.handle);
        commands.launched(raw);
        launched
    }
}
