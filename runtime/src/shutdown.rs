//! The end of a runtime that the program waits for.

use std::fmt;
use std::time::{Duration, Instant};

use xsched_core::message::HoldState;

use crate::runtime::Runtime;
use crate::stats::Stats;

/// Queues that had not ended when [`Runtime::shutdown`] gave up. The message names each queue, with
/// what is left of it and what keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownError {
    /// Queues with commands that have not retired. If there are none, all have drained, and the
    /// scheduler's thread did not end.
    pub queues: Vec<UnfinishedQueue>,
}

/// A queue with commands that have not retired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedQueue {
    /// Name of the queue, or its number if it has none.
    pub name: String,
    /// The device's name.
    pub device: String,
    /// Figures of the queue.
    pub stats: Stats,
}

impl fmt::Display for UnfinishedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { submitted, retired, .. } = self.stats;
        let why = match self.stats {
            Stats { suspended: true, .. } => "it is suspended",
            Stats { waiting: true, .. } => "it waits for another queue",
            Stats { hold: HoldState::Running, .. } => "it runs",
            _ => "the policy holds it",
        };
        let (left, name, device) = (submitted - retired, &self.name, &self.device);
        write!(f, "queue {name} on {device} has {left} of {submitted} commands left and {why}")
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime has not ended in time: ")?;
        if self.queues.is_empty() {
            return f.write_str("all queues have drained; the scheduler's policy may be stuck");
        }
        for (n, queue) in self.queues.iter().enumerate() {
            write!(f, "{}{queue}", if n == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ShutdownError {}

impl Runtime {
    /// Ends the runtime: [closes](crate::XQueue::close) all its queues, waits until they have
    /// drained, and ends the scheduler, in `at_most` altogether. From the call on there are no new
    /// queues, and queues take no commands.
    ///
    /// Call it before the program returns from `main`, which ends the process with whatever is
    /// still submitted. Threads of a device end with the last handle of it and of its queues.
    /// Callbacks of [`XQueue::on_retired`](crate::XQueue::on_retired) may come later.
    ///
    /// It blocks, so a task of an async program calls it where that is allowed, in Tokio's
    /// `spawn_blocking` for instance. Called in a callback it waits for itself, until the time is
    /// over; in a command that runs on a thread of this process it waits for no queue that the
    /// command keeps from getting on.
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// # use std::time::Duration;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// let queue = device.queue(XQueueConfig::default(), ())?;
    /// queue.submit(7)?;
    /// runtime.shutdown(Duration::from_secs(5))?;
    /// assert_eq!(queue.stats().retired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShutdownError`] says which queues have not drained in time. They stay closed, and what is
    /// submitted still runs. Another call goes on waiting.
    pub fn shutdown(&self, at_most: Duration) -> Result<(), ShutdownError> {
        let deadline = Instant::now().checked_add(at_most);
        let scheduler = self.scheduler();
        let queues = scheduler.close_register();
        queues.iter().for_each(|(_, queue)| queue.close());
        let unfinished = queues.into_iter().filter(|(_, queue)| !queue.wait_drained(deadline));
        let unfinished = unfinished.map(|(id, queue)| {
            let label = queue.label();
            let (name, device) = (label.name(id), label.device.to_string());
            UnfinishedQueue { name, device, stats: Stats::from_snapshot(&queue.snapshot()) }
        });
        let queues: Vec<_> = unfinished.filter(|q| q.stats.retired < q.stats.submitted).collect();
        // It ends with the last queue.
        scheduler.stop();
        if !queues.is_empty() || !scheduler.wait_gone(deadline) {
            return Err(ShutdownError { queues });
        }
        Ok(())
    }
}
