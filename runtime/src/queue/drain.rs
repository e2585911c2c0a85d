//! Waiting for everything that was submitted, and closing a queue.

use std::time::{Duration, Instant};

use xsched_core::id::CmdId;

use super::{Completion, XQueue};
use crate::completion::{Until, wait_until};
use crate::error::WaitError;

impl<C> XQueue<C> {
    /// When everything submitted so far has retired; `None` if nothing was submitted.
    fn until_drained(&self) -> Option<Until> {
        self.stats().submitted.checked_sub(1).map(|last| Until::Retired(CmdId(last)))
    }

    /// Waits until everything submitted so far has retired, whether or not it failed.
    pub fn wait_all(&self) {
        if let Some(until) = self.until_drained() {
            // Without a deadline it cannot fail.
            let _ = wait_until(self.api(), until, None);
        }
    }

    /// Waits until everything submitted so far has retired, and no longer than `span`.
    ///
    /// # Errors
    /// [`WaitError::Timeout`].
    pub fn wait_all_timeout(&self, span: Duration) -> Result<(), WaitError> {
        let Some(until) = self.until_drained() else { return Ok(()) };
        wait_until(self.api(), until, Instant::now().checked_add(span))
    }

    /// Waits as [`XQueue::wait_all`] does, as a future.
    ///
    /// # Errors
    /// The future gives none.
    pub fn wait_all_async(&self) -> Completion<C> {
        Completion::of(self.clone(), self.until_drained())
    }

    /// Closes the queue for all its handles: from now on it takes no command. Then waits until
    /// everything that was submitted has retired, whether or not it failed.
    ///
    /// As when the last handle is dropped, a suspended queue is resumed. A queue that has drained
    /// leaves the scheduler's table; its hardware queue goes with the last handle. To close it
    /// again does no harm.
    ///
    /// A command that the policy holds for ever, or that waits for such a one, is waited for in
    /// vain: see [`XQueue::close_timeout`].
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// let queue = device.queue(XQueueConfig::default(), ())?;
    /// queue.submit(7)?;
    /// queue.close();
    /// assert_eq!(queue.stats().retired, 1);
    /// assert!(matches!(queue.submit(8), Err(SubmitError::Closed(8))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.api().close();
        self.wait_all();
    }

    /// Closes the queue as [`XQueue::close`] does, and waits no longer than `span`.
    ///
    /// # Errors
    /// [`WaitError::Timeout`]; the queue is closed all the same, and what was submitted still runs.
    pub fn close_timeout(&self, span: Duration) -> Result<(), WaitError> {
        self.api().close();
        self.wait_all_timeout(span)
    }

    /// Closes the queue at once as [`XQueue::close`] does, and waits as a future. The queue is
    /// closed even if the future is dropped.
    ///
    /// # Errors
    /// The future gives none.
    pub fn close_async(&self) -> Completion<C> {
        self.api().close();
        self.wait_all_async()
    }
}
