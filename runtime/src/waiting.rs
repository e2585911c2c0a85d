//! Waiting for commands: by a thread, as a future, by a callback.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use xsched_core::id::CmdId;

use crate::device::Callback;
use crate::error::{Error, SubmitError, WaitError};
use crate::hub::lock;
use crate::parker::Parker;
use crate::queue::{Ticket, XQueue};
use crate::shared::{Api, Outcome, Until};
use crate::sync::mpsc::Sender;
use crate::sync::{Mutex, bound, mutant};

/// Times that a waiter looks for its completion before it sleeps.
const LOOKS: u32 = bound(256, 1);

/// Waits on the caller's thread.
pub(crate) fn wait_until<C>(
    queue: &dyn Api<C>,
    until: Until,
    deadline: Option<Instant>,
) -> Outcome {
    if let Some(outcome) = queue.want(until) {
        return outcome;
    }
    // Where it can be said that there will be nothing to see for a while, looking can wait.
    if queue.nap(until).is_none_or(|nap| nap.is_zero())
        && let Some(outcome) = look(queue, until)
    {
        return outcome;
    }
    let parker = Parker::current();
    let outcome = loop {
        parker.reset();
        if let Some(outcome) = queue.stand_by(until, parker.waker()) {
            break outcome;
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break Err(WaitError::Timeout);
        }
        let nap = queue.nap(until);
        match nap {
            None => parker.park(left),
            Some(nap) if nap.is_zero() => {}
            Some(nap) => parker.nap(left.map_or(nap, |left| nap.min(left))),
        }
        // Whoever is woken in front has to look.
        if !mutant("no look after waking") {
            queue.poll(until);
        }
        // Naps end early.
        if nap.is_some_and(|nap| nap.is_zero())
            && let Some(outcome) = look(queue, until)
        {
            break outcome;
        }
    };
    queue.leave(until, parker.waker());
    outcome
}

/// Looks for a moment.
fn look<C>(queue: &dyn Api<C>, until: Until) -> Option<Outcome> {
    (0..LOOKS).find_map(|_| {
        let outcome = queue.poll(until);
        if outcome.is_none() {
            std::hint::spin_loop();
        }
        outcome
    })
}

/// The completion of a command; see [`XQueue::completion`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Completion<C> {
    pub(crate) queue: XQueue<C>,
    pub(crate) ticket: Ticket,
}

impl<C> Future for Completion<C> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.queue.checked(self.ticket) {
            Ok(cmd) => poll_ended(self.queue.api(), Until::Ended(cmd), context),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

fn poll_ended<C>(queue: &dyn Api<C>, until: Until, context: &Context<'_>) -> Poll<Outcome> {
    let outcome = queue
        .want(until)
        .or_else(|| queue.poll(until))
        .or_else(|| queue.register(until, context.waker()));
    outcome.map_or(Poll::Pending, Poll::Ready)
}

/// A command on its way into a queue that may be full; see [`XQueue::submit_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Submission<C> {
    pub(crate) queue: XQueue<C>,
    /// Nothing once it was taken.
    pub(crate) command: Option<C>,
}

// Nothing in it is ever pinned.
impl<C> Unpin for Submission<C> {}

impl<C> Future for Submission<C> {
    type Output = Result<Ticket, SubmitError<C>>;

    /// Polled again after it was ready, it stays pending.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let Some(command) = self.command.take() else { return Poll::Pending };
            match self.queue.try_submit(command) {
                Err(SubmitError::Full(back)) => self.command = Some(back),
                result => return Poll::Ready(result),
            }
            if poll_ended(self.queue.api(), Until::Room, context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// A waker that hands a callback over to the thread that runs it.
struct Call<F, C> {
    todo: Mutex<Option<Todo<F, C>>>,
}

struct Todo<F, C> {
    callback: F,
    /// No handle, so that the queue closes, and its holds by hand end, when the user's are gone.
    queue: Arc<dyn Api<C>>,
    cmd: CmdId,
    thread: Sender<Callback>,
}

impl<F, C> Wake for Call<F, C>
where
    F: FnOnce(Outcome) + Send + 'static,
    C: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        let Some(todo) = lock(&self.todo).take() else { return };
        let Todo { callback, queue, cmd, thread } = todo;
        // The thread ends after the last queue of its device, so it is there.
        let _ = thread.send(Box::new(move || {
            // Woken means retired; if not known any more, that is how it ended for this caller.
            let outcome = queue.outcome(Until::Ended(cmd)).unwrap_or(Err(WaitError::Forgotten));
            callback(outcome);
        }));
    }
}

/// Has the callback called when the command has retired.
pub(crate) fn call_back<C: Send + 'static>(
    queue: &Arc<dyn Api<C>>,
    cmd: CmdId,
    callback: impl FnOnce(Outcome) + Send + 'static,
) -> Result<(), Error> {
    let thread = queue.callbacks()?;
    let todo = Todo { callback, queue: Arc::clone(queue), cmd, thread };
    let waker = Waker::from(Arc::new(Call { todo: Mutex::new(Some(todo)) }));
    if poll_ended(&**queue, Until::Ended(cmd), &Context::from_waker(&waker)).is_ready() {
        waker.wake();
    }
    Ok(())
}
