//! The handle that users hold.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use xsched_core::hint::Hints;
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::Level;
use xsched_core::scheduler::LevelChoice;
use xsched_core::window::WindowConfig;

use crate::error::{Error, SubmitError, WaitError};
use crate::parker::Parker;
use crate::runtime::Runtime;
use crate::shared::Api;
use crate::stats::Stats;

/// Times that a waiter looks for its completion before it sleeps.
const LOOKS: u32 = 256;

/// A submitted command, for waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    queue: QueueId,
    cmd: CmdId,
}

impl Ticket {
    /// The command's place in submission order, from 0.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.cmd.0
    }
}

/// A queue of commands for a device, that the scheduler can hold.
///
/// Clones are handles of the same queue; commands reach the device in the order in which
/// [`XQueue::submit`] took them, whichever handle they came through. When the last handle is
/// dropped, a hold by hand ends, what was submitted still runs, and then the queue is closed; the
/// drop itself waits for nothing and may happen anywhere, in a command as well.
pub struct XQueue<C> {
    handle: Arc<Handle<C>>,
}

struct Handle<C> {
    queue: Arc<dyn Api<C>>,
    runtime: Runtime,
}

impl<C> Drop for Handle<C> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl<C> Clone for XQueue<C> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<C> fmt::Debug for XQueue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XQueue").field("id", &self.handle.queue.id()).finish_non_exhaustive()
    }
}

impl<C> XQueue<C> {
    pub(crate) fn new(queue: Arc<dyn Api<C>>, runtime: Runtime) -> Self {
        Self { handle: Arc::new(Handle { queue, runtime }) }
    }

    fn api(&self) -> &dyn Api<C> {
        &*self.handle.queue
    }

    fn ticket(&self, cmd: CmdId) -> Ticket {
        Ticket { queue: self.api().id(), cmd }
    }

    /// Takes a command, and launches it if the queue runs and its window is open. Otherwise it is
    /// launched later, in its turn.
    ///
    /// # Errors
    /// [`SubmitError::Full`] when the queue holds as many commands as it can, and
    /// [`SubmitError::Lost`]; the command comes back.
    pub fn try_submit(&self, command: C) -> Result<Ticket, SubmitError<C>> {
        self.api().submit(command).map(|cmd| self.ticket(cmd))
    }

    /// The same, but waits for room while the queue is full.
    ///
    /// # Errors
    /// [`SubmitError::Lost`]; the command comes back.
    pub fn submit(&self, command: C) -> Result<Ticket, SubmitError<C>> {
        let mut command = command;
        loop {
            match self.try_submit(command) {
                Err(SubmitError::Full(back)) => command = back,
                result => return result,
            }
            // However the oldest ends, there is room then.
            let _ = self.wait_until(self.api().oldest(), None);
        }
    }

    /// Waits until the command has retired.
    ///
    /// # Errors
    /// [`WaitError::Failed`] if it failed, [`WaitError::Forgotten`], [`WaitError::WrongQueue`].
    pub fn wait(&self, ticket: Ticket) -> Result<(), WaitError> {
        self.checked(ticket)?;
        self.wait_until(ticket.cmd, None)
    }

    /// Waits until the command has retired, and no longer than `span`.
    ///
    /// # Errors
    /// [`WaitError::Timeout`], and as for [`XQueue::wait`].
    pub fn wait_timeout(&self, ticket: Ticket, span: Duration) -> Result<(), WaitError> {
        self.checked(ticket)?;
        self.wait_until(ticket.cmd, Instant::now().checked_add(span))
    }

    /// Waits until everything submitted so far has retired, whether or not it failed.
    pub fn wait_all(&self) {
        if let Some(last) = self.stats().submitted.checked_sub(1) {
            // Failures are for those who wait for the commands that failed.
            let _ = self.wait_until(CmdId(last), None);
        }
    }

    /// The completion of a command as a future. Polling it needs no particular executor.
    pub fn completion(&self, ticket: Ticket) -> Completion<C> {
        Completion { queue: self.clone(), ticket }
    }

    fn checked(&self, ticket: Ticket) -> Result<(), WaitError> {
        if ticket.queue == self.api().id() { Ok(()) } else { Err(WaitError::WrongQueue) }
    }

    fn wait_until(&self, cmd: CmdId, deadline: Option<Instant>) -> Result<(), WaitError> {
        let queue = self.api();
        if let Some(outcome) = queue.want(cmd) {
            return outcome;
        }
        for _ in 0..LOOKS {
            if let Some(outcome) = queue.poll(cmd) {
                return outcome;
            }
            std::hint::spin_loop();
        }
        let parker = Parker::current();
        loop {
            parker.reset();
            if let Some(outcome) = queue.register(cmd, parker.waker()) {
                return outcome;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                queue.unregister(cmd, parker.waker());
                return Err(WaitError::Timeout);
            }
            parker.park(left);
        }
    }

    /// Cancels a command that was not launched: it fails with
    /// [`xsched_core::fault::Fault::Cancelled`] and retires in its turn. False if it was launched,
    /// has retired, or is not of this queue.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.checked(ticket).is_ok() && self.api().cancel(ticket.cmd)
    }

    /// Holds the queue by hand, as deep as `level` says, the device can and the queue is configured
    /// for. It stays held, whatever the scheduler says, until [`XQueue::resume`]. Returns at once;
    /// [`Stats::hold`] tells how far it has got.
    pub fn hold(&self, level: Level) {
        self.api().hold(level);
    }

    /// Ends a hold by hand.
    pub fn resume(&self) {
        self.api().resume(false);
    }

    /// Ends a hold by hand and drops what can still be kept from running: those commands fail with
    /// [`xsched_core::fault::Fault::Cancelled`].
    pub fn resume_and_drop(&self) {
        self.api().resume(true);
    }

    /// Replaces what the policy knows about the queue. Takes effect soon; nothing drains.
    pub fn set_hints(&self, hints: Hints) {
        let id = self.api().id();
        self.handle.runtime.hub().send(move |now, brain| {
            if let Err(error) = brain.set_hints(now, id, hints) {
                tracing::warn!(queue = id.index(), %error, "hints were not taken");
            }
        });
    }

    /// Changes the deepest hold to use, at once and even while held; nothing drains. Returns the
    /// level that this device can do, at most `level`.
    pub fn set_level(&self, level: Level) -> Level {
        let id = self.api().id();
        self.api().set_level(level);
        self.handle.runtime.hub().send(move |_, brain| {
            if let Err(error) = brain.set_level(id, LevelChoice::Exactly(level)) {
                tracing::warn!(queue = id.index(), %error, "the level was not taken");
            }
        });
        level.min(self.api().caps().level)
    }

    /// Changes the in-flight window at once; nothing drains.
    pub fn set_window(&self, window: WindowConfig) {
        self.api().set_window(window);
    }

    /// Figures of the queue at this moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::from_snapshot(&self.api().snapshot())
    }

    /// The runtime that the queue belongs to.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.handle.runtime
    }

    /// Whether `other` is a handle of the same queue.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// Makes the scheduler catch up with everything that was asked of it before.
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`] and [`Error::SchedulerGone`].
    pub fn flush(&self) -> Result<(), Error> {
        self.handle.runtime.hub().ask(|_, _| ())
    }
}

/// The completion of a command; see [`XQueue::completion`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Completion<C> {
    queue: XQueue<C>,
    ticket: Ticket,
}

impl<C> Future for Completion<C> {
    type Output = Result<(), WaitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (queue, cmd) = (self.queue.api(), self.ticket.cmd);
        if let Err(error) = self.queue.checked(self.ticket) {
            return Poll::Ready(Err(error));
        }
        let outcome = queue
            .want(cmd)
            .or_else(|| queue.poll(cmd))
            .or_else(|| queue.register(cmd, context.waker()));
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}
