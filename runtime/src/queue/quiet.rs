//! Waiting until nothing of a suspended queue runs.

use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::Kept;
use xsched_core::id::CmdId;
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::queue::Signal;

use super::XQueue;
use super::halves::{Launching, Retiring, Stepping};
use super::shared::SharedQueue;
use crate::backoff::{SLEEP_MAX, delay_after};
use crate::clock::now;
use crate::completion::{Until, poll_delay, wait_until};
use crate::error::WaitError;
use crate::sync::lock;

/// How a wait for a suspended queue to be quiet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quiet {
    /// Nothing of the queue runs, and nothing starts until the queue is resumed.
    Reached,
    /// The hold is in effect, and the device cannot tell whether everything that had started has
    /// ended.
    Unknown,
    /// The queue is not suspended, or not any more.
    Resumed,
    /// The device is lost.
    Lost,
}

/// State of a suspended queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The wait is over.
    Over(Quiet),
    /// Nothing is held on the device: everything up to this command has to retire.
    Drains(CmdId),
    /// The hold is not in effect yet, or something of it runs. This is the last command launched.
    Runs(CmdId),
}

impl<C> XQueue<C> {
    /// Waits until nothing of a suspended queue runs: what had started when [`XQueue::suspend`]
    /// took effect has ended, or is stopped at Lv3, and nothing starts until [`XQueue::resume`].
    ///
    /// At Lv1 that is when everything launched has retired. At Lv2 it is when the device waits at a
    /// closed gate. A device that cannot tell that gives [`Quiet::Unknown`], at the earliest when
    /// the hold is in effect, and what had passed the last gate may still run. A call of the driver
    /// that blocks while the queue is suspended opens the gates until it has returned, after this
    /// wait as well.
    ///
    /// The wait ends with the suspension: with [`Quiet::Resumed`]. `at_most` bounds it.
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// # use std::time::Duration;
    /// # use xsched::Quiet;
    /// #
    /// # let queue = device.queue(XQueueConfig::default(), ())?;
    /// queue.submit(7)?;
    /// queue.suspend(Level::Deactivate);
    /// let quiet = queue.wait_quiet(Some(Duration::from_secs(5)))?;
    /// assert_eq!(quiet, Quiet::Reached); // what the commands write can be read now
    /// queue.resume();
    /// assert_eq!(queue.wait_quiet(None), Ok(Quiet::Resumed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError::Timeout`] if it took longer than `at_most`, and [`WaitError::InCommand`]; the
    /// queue stays suspended.
    pub fn wait_quiet(&self, at_most: Option<Duration>) -> Result<Quiet, WaitError> {
        let (api, start) = (self.api(), Instant::now());
        let mut requested = None;
        loop {
            let look = api.look_quiet();
            let left = at_most.map(|span| span.saturating_sub(start.elapsed()));
            let bounded = |delay: Duration| left.map_or(delay, |left| delay.min(left));
            match look {
                Look::Over(quiet) => return Ok(quiet),
                _ if left == Some(Duration::ZERO) => return Err(WaitError::Timeout),
                _ if api.kept_by_caller() == Kept::FromEnding => return Err(WaitError::InCommand),
                Look::Drains(last) => {
                    let deadline = Instant::now().checked_add(bounded(SLEEP_MAX));
                    if wait_until(api, Until::Retired(last), deadline) == Err(WaitError::InCommand)
                    {
                        return Err(WaitError::InCommand);
                    }
                }
                Look::Runs(last) => {
                    let until = Until::Retired(last);
                    if requested.replace(last) != Some(last) {
                        // The end of commands that no gate follows is seen by their fence.
                        api.request_completion(until, None);
                    }
                    api.poll(until, None);
                    poll_delay::exactly(|| thread::sleep(bounded(delay_after(start.elapsed()))));
                }
            }
        }
    }
}

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    /// True if nothing of the suspended queue runs.
    pub(super) fn look_for_quiet(&self) -> Look {
        let state = self.lock();
        let report = state.machine.report();
        drop(state);
        let last = CmdId(report.launched.saturating_sub(1));
        let level = match report.hold {
            _ if report.lost => return Look::Over(Quiet::Lost),
            _ if !report.suspended => return Look::Over(Quiet::Resumed),
            HoldState::Held(_) if report.retired >= report.launched => {
                return Look::Over(Quiet::Reached);
            }
            HoldState::Held(Level::Block) => return Look::Drains(last),
            HoldState::Held(level) => level,
            _ => return Look::Runs(last),
        };
        let mut steps = lock(&self.steps);
        let quiet = self.guarded(|| steps.is_quiet());
        drop(steps);
        match quiet {
            Ok(Some(true)) => Look::Over(Quiet::Reached),
            Ok(Some(false)) => Look::Runs(last),
            // A hold at Lv3 is in effect when nothing runs.
            Ok(None) if level == Level::Interrupt => Look::Over(Quiet::Reached),
            Ok(None) => Look::Over(Quiet::Unknown),
            Err(fault) => self.cannot_ask(fault),
        }
    }

    #[cold]
    fn cannot_ask(&self, fault: Fault) -> Look {
        if !fault.is_sticky() {
            return Look::Over(Quiet::Unknown);
        }
        let mut state = self.lock();
        state.machine.handle_signal(now(), Signal::Lost);
        self.finish(state);
        Look::Over(Quiet::Lost)
    }
}
