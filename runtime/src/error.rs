//! Errors, and how to handle them.

use std::fmt;

use xsched_core::fault::Fault;
use xsched_core::scheduler::SchedulerError;

/// Why a queue could not be made, or a setting not be changed.
///
/// Each method gives some of them:
///
/// * [`Runtime::new`], [`Runtime::with_config`] and [`XQueue::on_retired`]: [`Thread`].
/// * [`Runtime::device`]: [`Thread`], [`Scheduler`].
/// * [`Runtime::set_policy`], [`Runtime::hint_policy`] and [`XQueue::flush`]: [silent], [gone].
/// * [`Runtime::cost`]: [`OtherRuntime`], [silent], [gone].
/// * [`Runtime::record`]: [`AlreadyRecording`], [`Thread`], [silent], [gone].
/// * [`Device::queue`]: [`NoCapacity`], [`TooMuchCapacity`], [`Open`], [`Scheduler`], [silent],
///   [gone].
/// * [`XQueue::enqueue_wait`]: [`OtherRuntime`], [`QueueFull`], [`QueueClosed`], [`DeviceLost`],
///   [`Scheduler`], [silent], [gone].
///
/// [`Runtime::new`]: crate::Runtime::new
/// [`Runtime::with_config`]: crate::Runtime::with_config
/// [`Runtime::device`]: crate::Runtime::device
/// [`Runtime::set_policy`]: crate::Runtime::set_policy
/// [`Runtime::hint_policy`]: crate::Runtime::hint_policy
/// [`Runtime::cost`]: crate::Runtime::cost
/// [`Runtime::record`]: crate::Runtime::record
/// [`Device::queue`]: crate::Device::queue
/// [`XQueue::on_retired`]: crate::XQueue::on_retired
/// [`XQueue::flush`]: crate::XQueue::flush
/// [`XQueue::enqueue_wait`]: crate::XQueue::enqueue_wait
/// [silent]: Error::SchedulerSilent
/// [gone]: Error::SchedulerGone
/// [`Thread`]: Error::Thread
/// [`Scheduler`]: Error::Scheduler
/// [`OtherRuntime`]: Error::OtherRuntime
/// [`AlreadyRecording`]: Error::AlreadyRecording
/// [`NoCapacity`]: Error::NoCapacity
/// [`TooMuchCapacity`]: Error::TooMuchCapacity
/// [`Open`]: Error::Open
/// [`QueueFull`]: Error::QueueFull
/// [`QueueClosed`]: Error::QueueClosed
/// [`DeviceLost`]: Error::DeviceLost
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A thread could not be started.
    #[error("cannot start the {name} thread: {source}; raise the limit of threads")]
    Thread {
        /// Purpose of the thread.
        name: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The scheduler did not answer within its lease.
    #[error("the scheduler did not answer within its lease; its policy may be stuck")]
    SchedulerSilent,
    /// The scheduler has ended, because its policy panicked or the runtime was shut down.
    #[error("the scheduler has ended; queues run unscheduled; make a new runtime")]
    SchedulerGone,
    /// The scheduler refused.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// The device refused to open a hardware queue. The source is the backend's own error.
    #[error("the device refused to open a hardware queue: {0}")]
    Open(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The queue holds as many commands as it can.
    #[error("the queue is full; wait for a command to retire")]
    QueueFull,
    /// The device of the queue is lost.
    #[error("the device is lost; reopen it and make a new queue")]
    DeviceLost,
    /// The queue was closed, and takes nothing any more.
    #[error("the queue is closed; make a new one")]
    QueueClosed,
    /// The ticket or the device belongs to another runtime, whose scheduler knows nothing of this
    /// one.
    #[error("it belongs to another runtime; use the runtime that it came from")]
    OtherRuntime,
    /// The configuration asks for a queue without room for commands.
    #[error("a queue needs room for at least one command; set its capacity to 1 or more")]
    NoCapacity,
    /// The configuration asks for a queue with room for too many commands.
    #[error("a queue has room for at most {most} commands, not {asked}; set a smaller capacity")]
    TooMuchCapacity {
        /// The capacity that was asked for.
        asked: usize,
        /// The largest there is.
        most: usize,
    },
    /// Recording goes on already.
    #[error("the runtime is being recorded already; finish that recording first")]
    AlreadyRecording,
}

/// A command that was not taken, and why. The command comes back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError<C> {
    /// Full queue: it holds as many commands as it can. Try again when one has retired.
    /// [`XQueue::try_submit`](crate::XQueue::try_submit) gives it; the other calls wait for room,
    /// but not in a command that keeps the queue from getting on.
    #[error("the queue is full; wait for a command to retire")]
    Full(C),
    /// The device is lost.
    #[error("the device is lost; reopen it and make a new queue")]
    Lost(C),
    /// The queue was closed, by [`XQueue::close`](crate::XQueue::close) or
    /// [`Runtime::shutdown`](crate::Runtime::shutdown).
    #[error("the queue is closed; make a new one")]
    Closed(C),
    /// The device forgets commands in a hold, so that the queue has to launch them again. Only
    /// [`XQueue::begin_launch`](crate::XQueue::begin_launch) gives it.
    #[error("the queue may have to launch commands again; submit the command instead")]
    Replays(C),
}

// Commands need not be printable.
impl<C> fmt::Debug for SubmitError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Lost(_) => "Lost(..)",
            Self::Closed(_) => "Closed(..)",
            Self::Replays(_) => "Replays(..)",
        })
    }
}

impl<C> SubmitError<C> {
    /// The command.
    pub fn into_command(self) -> C {
        match self {
            Self::Full(command)
            | Self::Lost(command)
            | Self::Closed(command)
            | Self::Replays(command) => command,
        }
    }
}

/// Why a wait did not end with a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The command failed.
    #[error("{0}")]
    Failed(Fault),
    /// The command has not retired in time. It still may. Only calls with a time limit give it.
    #[error("the command has not retired in time; it may still do so")]
    Timeout,
    /// The command retired too long ago, and its outcome is forgotten: 65,536 later commands of its
    /// queue have failed since, where neighbours that failed alike count as one. Never otherwise.
    #[error("the command retired too long ago; its outcome is forgotten; wait sooner")]
    Forgotten,
    /// The calling thread runs a command of this queue, or one that has the device: the wait would
    /// be for itself.
    #[error("a command waits for a queue that cannot get on before it ends; wait outside of it")]
    InCommand,
    /// The ticket belongs to another queue. Calls without a ticket never give it.
    #[error("the ticket belongs to another queue; wait on the queue that gave it")]
    WrongQueue,
}
