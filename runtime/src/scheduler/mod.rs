//! The scheduler: its handle, the rounds, the policy in charge, its thread and the watchdog.
//!
//! [`SchedulerHandle`] is what queues and handles of the runtime know of it. It knows queues as
//! [`ScheduledQueue`].

mod ending;
mod handle;
mod late;
mod mailbox;
mod policy;
mod question;
mod recording;
mod register;
mod retry;
mod thread;

use std::sync::Arc;

use xsched_core::id::{CmdId, EventRef};
use xsched_core::message::{Order, Report};
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Heap, SchedulerError};

use crate::error::Error;
use crate::record::RecordBuffer;
use crate::stats::{Label, Snapshot};
use crate::workers::Committer;

pub(crate) use ending::Deadline;
pub(crate) use handle::SchedulerHandle;
#[cfg(test)]
pub(crate) use mailbox::Mail;
pub(crate) use policy::IsolatedPolicy;
pub use recording::Recording;
#[cfg(all(test, loom))]
pub(crate) use thread::look;
pub(crate) use thread::start;

/// The scheduler as the runtime uses it.
pub(crate) type Scheduler = Recorded<IsolatedPolicy, Heap, RecordBuffer>;

/// A thread that has lost its processor has the queue's state. The caller comes again later rather
/// than wait for that thread, which may be of low priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Operations of the scheduler on a queue, whatever its device and its commands are.
pub(crate) trait ScheduledQueue: Send + Sync {
    /// The report that waits for the scheduler.
    fn take_report(&self) -> Result<Option<Report>, Busy>;
    /// Brings an order, and carries out the steps that follow from it. If one was staged, that has
    /// to be committed, at best together with those of other queues.
    fn deliver(&self, order: Order) -> Result<Option<Arc<Committer>>, Busy>;
    /// The scheduler is not to be trusted any more: its holds end.
    fn fail_open(&self);
    /// The device's queues are held from above, or not: see [`crate::Holder`].
    fn follow_device(&self);
    /// Takes no command any more; resumes the queue if it is suspended. What was submitted still
    /// runs, and then the reaper takes the queue out of the scheduler's table.
    fn close(&self);
    /// Waits until everything that was submitted has retired; false once the deadline has passed.
    fn wait_drained(&self, deadline: Deadline) -> bool;
    /// Name of the queue.
    fn label(&self) -> &Label;
    /// True if the queue ends as soon as the reaper comes to it.
    fn is_leaving(&self) -> bool;
    /// The queue's figures.
    fn snapshot(&self) -> Snapshot;
    /// Takes a command that waits for an event, if `admit` agrees when told its number.
    fn enqueue_wait(&self, event: EventRef, admit: &mut Admit<'_>) -> Result<Option<CmdId>, Error>;
    /// Begins to record what happens to the queue, unless it is recorded already, or ends it.
    fn record(&self, buffer: Option<RecordBuffer>);
}

/// Says whether there is something to wait for.
pub(crate) type Admit<'a> = dyn FnMut(CmdId) -> Result<bool, SchedulerError> + 'a;
