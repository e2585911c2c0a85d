//! Hardware queues as the C API has them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::command::{Does, is_inside_callback};
use crate::platform::Hardware;
use crate::process::{Process, process};
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
    /// Gives hardware a handle.
    pub(crate) fn add(process: &Process, hardware: Box<dyn Hardware>) -> Answer<Arc<Self>> {
        let make = |handle| Self { handle, hardware, xqueue: Mutex::new(None) };
        let full = || Refusal::not_allowed("there are too many hardware queues; destroy some");
        process.hwqs.add(make).ok_or_else(full)
    }

    pub(crate) fn xqueue(&self) -> MutexGuard<'_, Option<u64>> {
        self.xqueue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches a command past the XQueue.
    pub(crate) fn launch(&self, raw: u64) -> Answer {
        let commands = &process().commands;
        let command = commands.take(raw)?;
        if matches!(command.does(), Does::Time(_)) && !self.hardware.takes_times() {
            commands.put_back(raw);
            return Err(Refusal::invalid("the command is one for the host device"));
        }
        let launched = self.hardware.launch(command, self.handle);
        commands.launched(raw);
        launched
    }

    /// Waits until everything that was launched has run.
    pub(crate) fn synchronize(&self) -> Answer {
        if is_inside_callback() {
            return Err(Refusal::not_allowed("a callback cannot wait for a hardware queue"));
        }
        let xqueue = *self.xqueue();
        if let Some(queue) = xqueue.and_then(|handle| process().queues.get(handle)) {
            queue.wait_launched_commands();
        }
        self.hardware.synchronize()
    }

    /// Destroys a hardware queue that has no XQueue.
    pub(crate) fn destroy(process: &Process, handle: u64) -> Answer {
        let queue = process.hwq(handle)?;
        let xqueue = queue.xqueue();
        if xqueue.is_some() {
            return Err(Refusal::not_allowed(
                "the hardware queue has an XQueue; destroy that first",
            ));
        }
        // Still locked, so that no XQueue is made meanwhile that nobody would find.
        process.hwqs.remove(handle);
        drop(xqueue);
        Ok(())
    }
}
