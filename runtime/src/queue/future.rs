//! Futures: the completion of a command, and a command on its way into a full queue.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Ticket, XQueue};
use crate::completion::{Notify, Outcome, Until, WaiterId, poll_until};
use crate::error::{SubmitError, WaitError};

/// The completion of a command; see [`XQueue::completion`].
///
/// It keeps the command's outcome from when it is made, however late it is polled.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Completion<C> {
    queue: XQueue<C>,
    until: Result<Until, WaitError>,
    id: Option<WaiterId>,
    /// The outcome, if it was there from the beginning.
    known: Option<Outcome>,
}

// Nothing in it is ever pinned.
impl<C> Unpin for Completion<C> {}

impl<C> Completion<C> {
    pub(super) fn new(queue: XQueue<C>, ticket: Ticket) -> Self {
        let until = queue.checked(ticket).map(Until::Ended);
        let mut id = None;
        let known = match until {
            Ok(until) => queue.api().register(until, &mut id, Notify::Keep),
            Err(error) => Some(Err(error)),
        };
        Self { queue, until, id, known }
    }

    /// Of a wait; `None` is over already.
    pub(super) fn of(queue: XQueue<C>, until: Option<Until>) -> Self {
        let mut id = None;
        let known = match until {
            Some(until) => queue.api().register(until, &mut id, Notify::Keep),
            None => Some(Ok(())),
        };
        let until = until.ok_or(WaitError::Timeout);
        Self { queue, until, id, known }
    }
}

impl<C> Future for Completion<C> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let until = match (this.known, this.until) {
            (Some(outcome), _) => return Poll::Ready(outcome),
            (None, Err(error)) => return Poll::Ready(Err(error)),
            (None, Ok(until)) => until,
        };
        let notify = Notify::Wake(context.waker().clone());
        let outcome = poll_until(this.queue.api(), until, &mut this.id, notify);
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<C> Drop for Completion<C> {
    fn drop(&mut self) {
        if let (Ok(until), Some(id)) = (self.until, self.id) {
            self.queue.api().unregister(until, id);
        }
    }
}

/// A command on its way into a queue that may be full; see [`XQueue::submit_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Submission<C> {
    queue: XQueue<C>,
    /// Nothing once it was taken.
    command: Option<C>,
    id: Option<WaiterId>,
}

// Nothing in it is ever pinned.
impl<C> Unpin for Submission<C> {}

impl<C> Submission<C> {
    pub(super) const fn new(queue: XQueue<C>, command: C) -> Self {
        Self { queue, command: Some(command), id: None }
    }
}

impl<C> Future for Submission<C> {
    type Output = Result<Ticket, SubmitError<C>>;

    /// Polled again after it was ready, it stays pending.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let Some(command) = this.command.take() else { return Poll::Pending };
            match this.queue.submit_in_line(command, Some(&mut this.id)) {
                Err(SubmitError::Full(back)) => this.command = Some(back),
                result => return Poll::Ready(result),
            }
            let notify = Notify::Wake(context.waker().clone());
            if poll_until(this.queue.api(), Until::Room, &mut this.id, notify).is_none() {
                return Poll::Pending;
            }
        }
    }
}

impl<C> Drop for Submission<C> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.queue.api().unregister(Until::Room, id);
        }
    }
}
