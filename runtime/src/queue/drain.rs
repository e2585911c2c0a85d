//! Waiting for everything that was submitted, and closing a queue.

use std::time::{Duration, Instant};

use xsched_core::id::CmdId;

use super::halves::{Launching, Retiring, Stepping};
use super::shared::{Guard, SharedQueue};
use super::{Completion, XQueue};
use crate::backoff::Backoff;
use crate::completion::{Until, wait_until};
use crate::error::WaitError;

impl<C> XQueue<C> {
    /// When everything submitted so far has retired; `None` if nothing was submitted.
    fn until_drained(&self) -> Option<Until> {
        self.stats().submitted.checked_sub(1).map(|last| Until::Retired(CmdId(last)))
    }

    /// Waits until everything submitted so far has retired, whether or not it failed.
    ///
    /// In a command that keeps the queue from getting on it does not wait, and the log says so;
    /// [`XQueue::wait_all_timeout`] answers [`WaitError::InCommand`] there.
    pub fn wait_all(&self) {
        let Some(until) = self.until_drained() else { return };
        // Without a deadline it fails for no other reason.
        if let Err(error) = wait_until(self.api(), until, None) {
            tracing::error!(%error, "a wait for everything was refused");
        }
    }

    /// Waits until everything submitted so far has retired, and no longer than `span`.
    ///
    /// # Errors
    /// [`WaitError::Timeout`] and [`WaitError::InCommand`].
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

    /// Touches the hardware queue no more until the next launch: what was launched is seen to
    /// retire all the same. So its owner may end it, or begin to capture it. Does not wait for the
    /// device.
    ///
    /// False if that cannot be had: the backend's halves cannot do it, something was submitted that
    /// is not launched, or another thread launches. Then [`XQueue::wait_all`] comes to the same.
    #[must_use]
    pub fn seal(&self) -> bool {
        self.api().seal()
    }

    /// Closes the queue for all its handles: from now on it takes no command. Then waits until
    /// everything that was submitted has retired, whether or not it failed.
    ///
    /// As when the last handle is dropped, a suspended queue is resumed. A queue that has drained
    /// leaves the scheduler's table; its hardware queue goes with the last handle. To close it
    /// again does no harm.
    ///
    /// In a command that keeps the queue from getting on, it closes the queue without a wait, as
    /// [`XQueue::wait_all`] does there.
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
    /// [`WaitError::Timeout`] and [`WaitError::InCommand`]; the queue is closed all the same, and
    /// what was submitted still runs.
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

/// For this time [`XQueue::seal`] waits for a thread that launches or puts a fence: that blocks in
/// the driver for as long as others do, and this thread would in the driver as well.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(1);

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    /// See [`XQueue::seal`].
    pub(super) fn seal_hardware_queue(&self) -> bool {
        let Some((mut state, mut launcher)) = self.take_launcher() else { return false };
        let launched = state.machine.next_launch().0;
        let is_sealed = match launched.checked_sub(1) {
            _ if launched < state.machine.submitted() => false,
            None => true,
            Some(last) => {
                drop(state);
                let sealed = self.guarded(|| launcher.seal(CmdId(last)));
                state = self.lock();
                if let Err(fault) = sealed {
                    state.lose_if_sticky(fault);
                }
                sealed == Ok(true)
            }
        };
        state.launcher = Some(launcher);
        self.finish(state);
        is_sealed
    }

    /// The launching half. A thread that puts a fence has it for a moment, or for longer if it gets
    /// no processor meanwhile.
    fn take_launcher(&self) -> Option<(Guard<'_, S>, Box<S>)> {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        loop {
            let mut state = self.lock();
            if let Some(launcher) = state.launcher.take() {
                return Some((state, launcher));
            }
            drop(state);
            if !backoff.spin() {
                if start.elapsed() >= LAUNCHER_PATIENCE {
                    return None;
                }
                let delay = backoff.delay();
                std::thread::sleep(delay);
                backoff.slept(delay);
            }
        }
    }
}
