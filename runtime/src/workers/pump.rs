//! Pumps: threads that launch what submitters do not. Each device has one, and a queue may have its
//! own.

use std::sync::Arc;

use super::{DeviceQueue, QueueList, USER_CODE, spawn};
#[cfg(not(loom))]
use crate::backoff::Backoff;
use crate::error::Error;
use crate::panics::contain;

/// Waits for queues that have something to launch, and sees to them. False when there will never
/// be any again.
pub(crate) fn pump_round(list: &QueueList, queues: &mut Vec<Arc<dyn DeviceQueue>>) -> bool {
    let news = list.take(queues, None);
    for queue in queues.drain(..) {
        contain(USER_CODE, move || queue.pump());
    }
    !news.end
}

/// The pump of one queue. Its thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnPump(Arc<QueueList>);

impl OwnPump {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, Error> {
        let pump = Self::new();
        let list = Arc::clone(&pump.0);
        spawn("launcher", move || {
            let mut queues = Vec::new();
            while own_pump_round(&list, &mut queues) {}
        })?;
        Ok(pump)
    }

    /// Everything but the thread: models bring their own.
    pub(crate) fn new() -> Self {
        Self(QueueList::new())
    }

    #[cfg(all(test, loom))]
    pub(crate) const fn list(&self) -> &Arc<QueueList> {
        &self.0
    }

    /// The queue has something to launch.
    pub(crate) fn ask(&self, queue: Arc<dyn DeviceQueue>) {
        self.0.push(queue);
    }
}

impl Drop for OwnPump {
    fn drop(&mut self) {
        // Not joined: the queue may be dropped on that thread.
        self.0.stop();
    }
}

/// Does what [`pump_round`] does, after it has looked for a command for a moment: waking the thread
/// costs a submitter more than submitting does. In models the thread sleeps at once, as spinning
/// only decides how soon it comes.
pub(crate) fn own_pump_round(list: &QueueList, queues: &mut Vec<Arc<dyn DeviceQueue>>) -> bool {
    #[cfg(not(loom))]
    {
        let mut backoff = Backoff::default();
        while !list.has_news() && backoff.spin() {}
    }
    pump_round(list, queues)
}
