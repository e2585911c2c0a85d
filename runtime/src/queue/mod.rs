//! The XQueue: its handle, its futures, and what its threads share.

mod api;
mod begun;
mod config;
mod drain;
mod failures;
mod future;
mod halves;
mod launch;
mod lifecycle;
mod quiet;
mod recorded;
mod retire;
mod settings;
mod shared;
mod state;
mod steps;
mod timing;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, Ordering};
use std::time::{Duration, Instant};

use xsched_core::hint::Hints;
use xsched_core::id::{CmdId, EventRef};
use xsched_core::level::{Caps, Level};
use xsched_core::window::WindowConfig;

use crate::completion::{Notify, Until, WaiterId, wait_for_room, wait_until};
use crate::error::{Error, SubmitError, WaitError};
use crate::runtime::Runtime;
use crate::stats::Stats;
use crate::urgency;

pub(crate) use api::Api;
#[cfg(all(test, loom))]
pub(crate) use begun::Begun;
pub use begun::LaunchToken;
pub use config::XQueueConfig;
pub use future::{Completion, Submission};
pub use quiet::Quiet;
use settings::Settings;
pub(crate) use shared::{QueueParams, SharedQueue};
pub(crate) use state::MachineParams;

/// A submitted command, for waiting: on its own queue by a thread, a future or a callback, and on
/// another queue of the runtime by [`XQueue::enqueue_wait`].
///
/// ```
/// # use xsched::hal::{Noop, NoopQueue};
/// # use xsched::prelude::*;
/// #
/// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
/// # let runtime = Runtime::new(Hpf::default())?;
/// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// # let queue = device.queue(XQueueConfig::default(), ())?;
/// let first = queue.submit(7)?;
/// let second = queue.submit(8)?;
/// assert_eq!((first.number(), second.number()), (0, 1));
/// queue.wait(second)?; // so the first has retired, too
/// assert_eq!(queue.ticket_of(0), Some(first));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    runtime: u32,
    event: EventRef,
}

impl Ticket {
    /// The command's place in submission order, from 0.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.event.cmd.0
    }
}

/// Commands to wait for before a queue is suspended.
///
/// ```
/// # use xsched::hal::{Noop, NoopQueue};
/// # use xsched::prelude::*;
/// #
/// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
/// # let runtime = Runtime::new(Hpf::default())?;
/// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// # use std::time::Duration;
/// #
/// # let queue = device.queue(XQueueConfig::default(), ())?;
/// queue.submit(7)?;
/// queue.suspend_after(Drain::All, Level::Block, Some(Duration::from_secs(5)))?;
/// assert!(queue.stats().suspended);
/// assert_eq!(queue.stats().retired, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drain {
    /// Until everything submitted before the call has retired.
    All,
    /// Until nothing is submitted that has not retired. If other threads go on submitting, that may
    /// be never.
    Idle,
}

/// A queue of commands for a device, that the scheduler can hold.
///
/// Clones are handles of the same queue; commands reach the device in the order in which
/// [`XQueue::submit`] took them, whichever handle they came through. When the last handle is
/// dropped, a suspended queue is resumed, what was submitted still runs, and then the queue is
/// closed; the drop itself waits for nothing and may happen anywhere, in a command as well. What is
/// still submitted when the process ends, as when `main` returns, never runs: see [`XQueue::close`]
/// and [`Runtime::shutdown`].
///
/// ```
/// use xsched::hal::{Noop, NoopQueue};
/// use xsched::prelude::*;
///
/// static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
/// let runtime = Runtime::new(Hpf::default())?;
/// let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// let queue = device.queue(XQueueConfig::default(), ())?;
/// let ticket = queue.submit(7)?;
/// queue.wait(ticket)?;
/// assert_eq!(queue.stats().retired, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct XQueue<C> {
    handle: Arc<Handle<C>>,
}

struct Handle<C> {
    queue: Arc<dyn Api<C>>,
    runtime: Runtime,
    /// Priority of the thread that submitted last, if the policy wants to know.
    thread: AtomicI16,
    config: XQueueConfig,
    settings: Arc<Settings>,
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
    pub(crate) fn new(queue: Arc<dyn Api<C>>, runtime: Runtime, config: XQueueConfig) -> Self {
        let thread = AtomicI16::new(0);
        let settings = Arc::default();
        Self { handle: Arc::new(Handle { queue, runtime, thread, config, settings }) }
    }

    pub(crate) fn api(&self) -> &dyn Api<C> {
        &*self.handle.queue
    }

    fn ticket(&self, cmd: CmdId) -> Ticket {
        let event = EventRef { queue: self.api().id(), cmd };
        Ticket { runtime: self.handle.runtime.number(), event }
    }

    /// The ticket of the command with this number, [`Ticket::number`], if it was submitted.
    #[must_use]
    pub fn ticket_of(&self, number: u64) -> Option<Ticket> {
        (number < self.stats().submitted).then(|| self.ticket(CmdId(number)))
    }

    /// Takes a command, and launches it if the queue runs and its window is open. Otherwise it is
    /// launched later, in its turn.
    ///
    /// # Errors
    /// [`SubmitError::Full`] when the queue holds as many commands as it can, or when the places
    /// left are kept for submitters that wait for room, [`SubmitError::Lost`] and
    /// [`SubmitError::Closed`]; the command comes back.
    pub fn try_submit(&self, command: C) -> Result<Ticket, SubmitError<C>> {
        self.submit_in_line(command, None)
    }

    /// Takes a command. A submitter that will wait for room is in line from when there is none, and
    /// keeps its number there.
    fn submit_in_line(
        &self,
        command: C,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<Ticket, SubmitError<C>> {
        if self.handle.runtime.follows_threads() {
            self.follow_thread();
        }
        self.api().submit(command, line).map(|cmd| self.ticket(cmd))
    }

    /// Tells the scheduler of the calling thread's priority, if it is another one than before.
    fn follow_thread(&self) {
        let priority = urgency::of_this_thread();
        if self.handle.thread.swap(priority, Ordering::Relaxed) != priority {
            self.change_settings(|pending| pending.cpu_priority = Some(priority));
        }
    }

    /// Changes what the scheduler knows of the queue.
    fn change_settings(&self, change: impl FnOnce(&mut settings::Pending)) {
        let Handle { settings, runtime, .. } = &*self.handle;
        Settings::change(settings, runtime.scheduler(), self.api().id(), change);
    }

    /// Takes a command as [`XQueue::try_submit`] does, but waits for room while the queue is full.
    /// Submitters that wait for room get it in the order in which they came.
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// let queue = device.queue(XQueueConfig::default().with_capacity(2), ())?;
    /// let mut last = None;
    /// for command in 0..100 {
    ///     last = Some(queue.submit(command)?); // never more than two wait
    /// }
    /// last.map(|ticket| queue.wait(ticket)).transpose()?;
    /// assert_eq!(queue.stats().retired, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError::Lost`] and [`SubmitError::Closed`]; the command comes back. In a command that
    /// keeps the queue from getting on, [`SubmitError::Full`].
    pub fn submit(&self, command: C) -> Result<Ticket, SubmitError<C>> {
        let (mut command, mut line) = (command, None);
        loop {
            match self.submit_in_line(command, Some(&mut line)) {
                Err(SubmitError::Full(back)) => command = back,
                result => return result,
            }
            if wait_for_room(self.api(), &mut line).is_err() {
                return Err(SubmitError::Full(command));
            }
        }
    }

    /// Takes a command as a future, which is ready when the queue has taken it. Dropped before
    /// that, it submits nothing. It waits for room in line with [`XQueue::submit`], from its first
    /// poll on; a place that it was woken for is kept for it until it is polled or dropped.
    ///
    /// # Errors
    /// The future gives [`SubmitError::Lost`] and [`SubmitError::Closed`]; the command comes back.
    pub fn submit_async(&self, command: C) -> Submission<C> {
        Submission::new(self.clone(), command)
    }

    /// Makes the queue wait for a command of another queue: what is submitted here from now on is
    /// launched only after that command has retired, whether or not it failed. Meanwhile the other
    /// queue may run at least whenever this one may, so that no queue waits for one that the policy
    /// holds.
    ///
    /// The wait is a command of its own, which takes a place in the ring and fails if the other
    /// queue's device is lost; its ticket is returned. `None` if there is nothing to wait for: the
    /// command has retired, or precedes on this queue anyway.
    ///
    /// Waits cannot close a circle: a ticket is of a command that was submitted before.
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 2] = [const { NoopQueue::new() }; 2];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// # let copies = device.queue(XQueueConfig::default(), ())?;
    /// # let kernels = device.queue(XQueueConfig::default(), ())?;
    /// let copied = copies.submit(1)?;
    /// kernels.enqueue_wait(copied)?; // returns at once; the queue waits
    /// let ticket = kernels.submit(2)?; // runs after the copy
    /// kernels.wait(ticket)?;
    /// assert_eq!(copies.stats().retired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Scheduler`] with [`SchedulerError::WaitTableFull`], [`Error::QueueFull`],
    /// [`Error::DeviceLost`], [`Error::QueueClosed`], [`Error::OtherRuntime`],
    /// [`Error::SchedulerSilent`] and [`Error::SchedulerGone`]. After an error nothing is enqueued,
    /// and nothing will be.
    ///
    /// [`SchedulerError::WaitTableFull`]: xsched_core::scheduler::SchedulerError::WaitTableFull
    pub fn enqueue_wait(&self, ticket: Ticket) -> Result<Option<Ticket>, Error> {
        if ticket.runtime != self.handle.runtime.number() {
            return Err(Error::OtherRuntime);
        }
        let (id, event) = (self.api().id(), ticket.event);
        let handle = Arc::clone(self.handle.runtime.scheduler());
        // It runs no code of the policy, so its end is near once it has begun.
        let answer = self
            .handle
            .runtime
            .scheduler()
            .ask_to_the_end(move |_, scheduler| handle.enqueue_wait(scheduler, id, event));
        Ok(answer??.map(|cmd| self.ticket(cmd)))
    }

    /// Has `callback` called once the command has retired, on a thread of the device that does
    /// nothing else, never on the caller's. A callback holds up other callbacks of the device and
    /// nothing besides. A panic in it is caught and logged. The callback may use and drop handles
    /// of this queue, the last one too; being called later does not keep the queue open.
    ///
    /// # Errors
    /// [`Error::Thread`] if the thread cannot be started. A ticket of another queue is no error
    /// here: the callback gets [`WaitError::WrongQueue`].
    pub fn on_retired(
        &self,
        ticket: Ticket,
        callback: impl FnOnce(Result<(), WaitError>) + Send + 'static,
    ) -> Result<(), Error>
    where
        C: Send + 'static,
    {
        let thread = self.api().callbacks()?;
        // The thread ends after the last queue of its device, so it is there.
        let call = Notify::Call(Box::new(move |outcome| {
            let _ = thread.send(Box::new(move || callback(outcome)));
        }));
        let (until, mut id) = match self.checked(ticket) {
            Ok(cmd) => (Until::Ended(cmd), None),
            Err(error) => {
                call.call(Err(error));
                return Ok(());
            }
        };
        let api = self.api();
        match api.request_completion(until, None).or_else(|| api.poll(until, None)) {
            Some(outcome) => call.call(outcome),
            // The callback is called even if the outcome is there by now.
            None => {
                let _ = api.register(until, &mut id, call);
            }
        }
        Ok(())
    }

    /// Waits until the command has retired.
    ///
    /// A command that runs on a thread of this process, as those of the host device do, can wait
    /// for queues of other devices. For its own queue, and for one that gets no compute unit before
    /// the command ends, every call that waits is refused. A future is not: it stays pending.
    ///
    /// # Errors
    /// [`WaitError::Failed`] if it failed, [`WaitError::Forgotten`], [`WaitError::WrongQueue`],
    /// [`WaitError::InCommand`].
    pub fn wait(&self, ticket: Ticket) -> Result<(), WaitError> {
        let cmd = self.checked(ticket)?;
        wait_until(self.api(), Until::Ended(cmd), None)
    }

    /// Waits until the command has retired, and no longer than `span`.
    ///
    /// # Errors
    /// [`WaitError::Timeout`], and as for [`XQueue::wait`].
    pub fn wait_timeout(&self, ticket: Ticket, span: Duration) -> Result<(), WaitError> {
        let cmd = self.checked(ticket)?;
        wait_until(self.api(), Until::Ended(cmd), Instant::now().checked_add(span))
    }

    /// The completion of a command as a future. Polling it needs no particular executor. It keeps
    /// the outcome, so it may be polled long after the command has retired.
    ///
    /// # Errors
    /// The future gives [`WaitError::Failed`] if the command failed, [`WaitError::Forgotten`] and
    /// [`WaitError::WrongQueue`].
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// # use std::task::{Context, Poll, Waker};
    /// async fn run(queue: &XQueue<u32>) -> Result<(), Box<dyn std::error::Error>> {
    ///     let ticket = queue.submit_async(7).await?;
    ///     queue.completion(ticket).await?;
    ///     Ok(())
    /// }
    /// #
    /// # let queue = device.queue(XQueueConfig::default(), ())?;
    /// # let mut running = std::pin::pin!(run(&queue));
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # loop {
    /// #     if let Poll::Ready(result) = running.as_mut().poll(&mut context) {
    /// #         break result;
    /// #     }
    /// #     std::thread::yield_now();
    /// # }?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn completion(&self, ticket: Ticket) -> Completion<C> {
        Completion::new(self.clone(), ticket)
    }

    pub(crate) fn checked(&self, ticket: Ticket) -> Result<CmdId, WaitError> {
        let ours = ticket.runtime == self.handle.runtime.number();
        let ours = ours && ticket.event.queue == self.api().id();
        if ours { Ok(ticket.event.cmd) } else { Err(WaitError::WrongQueue) }
    }

    /// Cancels a command that was not launched: it fails with
    /// [`xsched_core::fault::Fault::Cancelled`] and retires in its turn. False if it was launched,
    /// has retired, or is not of this queue.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.checked(ticket).is_ok_and(|cmd| self.api().cancel(cmd))
    }

    /// Suspends the queue, as deep as `level` says, the device can and the queue is configured for.
    /// It stays suspended, whatever the scheduler says, until [`XQueue::resume`]. Returns at once;
    /// [`Stats::hold`] tells how far it has got, and [`XQueue::wait_quiet`] waits until nothing of
    /// it runs.
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// # use std::time::Duration;
    /// #
    /// # let queue = device.queue(XQueueConfig::default(), ())?;
    /// queue.suspend(Level::Deactivate);
    /// let ticket = queue.submit(7)?;
    /// let moment = Duration::from_millis(5);
    /// assert_eq!(queue.wait_timeout(ticket, moment), Err(WaitError::Timeout));
    /// queue.resume();
    /// queue.wait(ticket)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn suspend(&self, level: Level) {
        self.api().suspend(level);
    }

    /// Suspends the queue after waiting as `drain` says. If it is suspended already, this waits for
    /// nothing. Another thread may resume it meanwhile: that ends earlier suspensions, not this
    /// one.
    ///
    /// # Errors
    /// [`WaitError::Timeout`] if it took longer than `at_most`, and [`WaitError::InCommand`]; the
    /// queue is then not suspended.
    pub fn suspend_after(
        &self,
        drain: Drain,
        level: Level,
        at_most: Option<Duration>,
    ) -> Result<(), WaitError> {
        let deadline = at_most.and_then(|span| Instant::now().checked_add(span));
        let mut submitted = self.stats().submitted;
        while !self.stats().suspended && !self.api().suspend_if_idle(level) {
            let last = CmdId(submitted.saturating_sub(1));
            wait_until(self.api(), Until::Retired(last), deadline)?;
            if drain == Drain::All {
                break;
            }
            submitted = self.stats().submitted;
        }
        self.suspend(level);
        Ok(())
    }

    /// Resumes a suspended queue; [`XQueue::suspend`] has an example.
    pub fn resume(&self) {
        self.api().resume(false);
    }

    /// Resumes a queue and drops what can still be kept from running: those commands fail with
    /// [`xsched_core::fault::Fault::Cancelled`].
    pub fn resume_and_drop(&self) {
        self.api().resume(true);
    }

    /// Replaces what the policy knows about the queue. Takes effect soon; nothing drains. While the
    /// policy in charge goes by the priority of submitting threads, that is kept.
    pub fn set_hints(&self, hints: Hints) {
        let follows = self.handle.runtime.follows_threads();
        self.change_settings(|pending| {
            pending.hints = Some(hints);
            if !follows {
                pending.cpu_priority = Some(hints.cpu_priority);
            }
        });
    }

    /// Changes the deepest hold to use, at once and even while held; nothing drains. Returns the
    /// level that this device can do, at most `level`.
    pub fn set_level(&self, level: Level) -> Level {
        self.api().set_level(level);
        let choice = self.handle.config.choice(level, Some(self.api().caps()));
        self.change_settings(|pending| pending.level = Some(choice));
        level.min(self.api().caps().level)
    }

    /// The deepest hold that is used: as configured, or what the device can do if that is less.
    #[must_use]
    pub fn level(&self) -> Level {
        self.api().level()
    }

    /// Capabilities of the device for this queue.
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.api().caps()
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

    /// True if `other` is a handle of the same queue.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// Makes the scheduler catch up: with everything that was asked of it before, what queues have
    /// to tell, and the orders that follow from it.
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`] and [`Error::SchedulerGone`].
    pub fn flush(&self) -> Result<(), Error> {
        let scheduler = self.handle.runtime.scheduler();
        scheduler.ask(|_, _| ())?;
        scheduler.settle()
    }
}
