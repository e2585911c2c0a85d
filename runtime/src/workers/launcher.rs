//! The thread that launches for one queue, where the queue has one.

use std::sync::Arc;
#[cfg(not(loom))]
use std::time::{Duration, Instant};

use super::{DeviceQueue, QueueList, pump_round, spawn};
use crate::error::Error;

/// For how long the thread looks for a command before it sleeps: waking it costs a submitter more
/// than submitting does.
#[cfg(not(loom))]
const SPIN: Duration = Duration::from_micros(50);

/// The thread that launches for one queue. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LauncherThread(Arc<QueueList>);

impl LauncherThread {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, Error> {
        let launcher = Self::new();
        let list = Arc::clone(&launcher.0);
        spawn("launcher", move || {
            let mut queues = Vec::new();
            while launcher_round(&list, &mut queues) {}
        })?;
        Ok(launcher)
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

impl Drop for LauncherThread {
    fn drop(&mut self) {
        // Not joined: the queue may be dropped on that thread.
        self.0.stop();
    }
}

/// Waits until the queue has something to launch, and launches it. False when it has gone.
pub(crate) fn launcher_round(list: &QueueList, queues: &mut Vec<Arc<dyn DeviceQueue>>) -> bool {
    #[cfg(not(loom))]
    spin_for_news(list);
    pump_round(list, queues)
}

#[cfg(not(loom))]
fn spin_for_news(list: &QueueList) {
    let start = Instant::now();
    while !list.has_news() && start.elapsed() < SPIN {
        (0..16).for_each(|_| std::hint::spin_loop());
    }
}
