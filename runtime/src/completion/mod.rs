//! Waiting for commands: by a thread, as a future, by a callback.

mod parker;
pub(crate) mod poll_delay;
mod waiters;

use std::task::Waker;
use std::time::{Duration, Instant};

use xsched_core::hal::Kept;
use xsched_core::id::CmdId;

use crate::backoff::Backoff;
use crate::error::WaitError;

pub(crate) use parker::Parker;
pub(crate) use waiters::{Notify, WaiterId, Waiters};

/// How a wait ends.
pub(crate) type Outcome = Result<(), WaitError>;

/// Aim of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The end of a command: it has retired, or has failed and will retire in its turn.
    Ended(CmdId),
    /// The command and everything before it has retired.
    Retired(CmdId),
    /// A place in the ring, which is kept for the waiter until it leaves. That takes the oldest
    /// command to retire. Only for waiters that are registered.
    Room,
    /// The command may be launched, which its waiter does, or it is over. Only for waiters that are
    /// registered.
    Turn(CmdId),
}

/// A queue as those that wait know it.
///
/// A wait that is registered keeps its outcome: the queue may forget the command afterwards. So
/// each call says under which number it is registered, if it is.
pub(crate) trait Awaited: Send + Sync {
    /// True if the calling thread is less urgent than the threads of the runtime.
    fn is_outranked(&self) -> bool;
    /// Returns the work that a command of the calling thread keeps the queue from. By then what
    /// other threads have seen of completions is known.
    fn kept_by_caller(&self) -> Kept;
    /// Makes sure that the completion will be seen; the outcome if it is there already.
    fn request_completion(&self, until: Until, id: Option<WaiterId>) -> Option<Outcome>;
    /// Looks for completions; the outcome if it is there now.
    fn poll(&self, until: Until, id: Option<WaiterId>) -> Option<Outcome>;
    /// Has `notify` notified when it is so, in place of what was registered under `id`; the outcome
    /// if it is there already. A [`Notify::Call`] is called in either case.
    fn register(&self, until: Until, id: &mut Option<WaiterId>, notify: Notify) -> Option<Outcome>;
    /// Registers a thread that looks for completions when it is woken, and that leaves before it
    /// goes.
    fn stand_by(&self, until: Until, id: &mut Option<WaiterId>, waker: &Waker) -> Option<Outcome>;
    /// How long a thread that stands by may sleep before it looks again. `None` if it is woken.
    fn poll_delay(&self, until: Until) -> Option<Duration>;
    /// Ends a thread's wait.
    fn leave(&self, until: Until, id: Option<WaiterId>, waker: &Waker);
    /// Ends any other wait.
    fn unregister(&self, until: Until, id: WaiterId);
}

/// Waits on the caller's thread.
pub(crate) fn wait_until(
    queue: &(impl Awaited + ?Sized),
    until: Until,
    deadline: Option<Instant>,
) -> Outcome {
    wait(queue, until, &mut None, deadline)
}

/// Waits on the caller's thread, which is in line, until a place in the ring is kept for it.
///
/// # Errors
/// [`WaitError::InCommand`]; the thread has left the line.
pub(crate) fn wait_for_room(
    queue: &(impl Awaited + ?Sized),
    line: &mut Option<WaiterId>,
) -> Outcome {
    let outcome = wait(queue, Until::Room, line, None);
    if outcome.is_err()
        && let Some(id) = line.take()
    {
        queue.unregister(Until::Room, id);
    }
    outcome
}

/// The end of a wait in a command that the wait would be for.
fn refused(queue: &(impl Awaited + ?Sized), until: Until, id: Option<WaiterId>) -> Option<Outcome> {
    // A turn to launch comes while commands run.
    if matches!(until, Until::Turn(_)) || queue.kept_by_caller() == Kept::FromNothing {
        return None;
    }
    let known = queue.poll(until, id).or_else(|| queue.request_completion(until, id));
    Some(known.unwrap_or(Err(WaitError::InCommand)))
}

fn wait(
    queue: &(impl Awaited + ?Sized),
    until: Until,
    id: &mut Option<WaiterId>,
    deadline: Option<Instant>,
) -> Outcome {
    match queue.request_completion(until, *id) {
        Some(outcome) => outcome,
        None => wait_requested(queue, until, id, deadline),
    }
}

/// Waits on the caller's thread, which is to launch this command, until that may be, or the command
/// is over; false if neither is so after this time.
pub(crate) fn wait_for_turn(
    queue: &(impl Awaited + ?Sized),
    cmd: CmdId,
    patience: Duration,
) -> bool {
    // In models no time passes.
    let passes = !cfg!(all(test, loom));
    let deadline = Instant::now().checked_add(patience).filter(|_| passes);
    wait(queue, Until::Turn(cmd), &mut None, deadline).is_ok()
}

/// Waits as [`wait_until`] does, after the completion has been requested.
pub(crate) fn wait_requested(
    queue: &(impl Awaited + ?Sized),
    until: Until,
    id: &mut Option<WaiterId>,
    deadline: Option<Instant>,
) -> Outcome {
    if let Some(outcome) = refused(queue, until, *id) {
        return outcome;
    }
    if queue.is_outranked() {
        return wait_for_reaper(queue, until, id, deadline);
    }
    // Where a forecast says that there will be nothing to see for a while, looking can wait.
    if queue.poll_delay(until).is_none_or(|delay| delay.is_zero())
        && let Some(outcome) = look(queue, until, *id)
    {
        return outcome;
    }
    let parker = Parker::current();
    let outcome = loop {
        parker.reset();
        if let Some(outcome) = queue.stand_by(until, id, parker.waker()) {
            break outcome;
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break Err(WaitError::Timeout);
        }
        let delay = queue.poll_delay(until);
        match delay {
            None => parker.park(left),
            Some(delay) if delay.is_zero() => {}
            Some(delay) => parker.sleep(left.map_or(delay, |left| delay.min(left))),
        }
        // A thread that is woken in front has to look.
        queue.poll(until, *id);
        // Sleeps end early.
        if delay.is_some_and(|delay| delay.is_zero())
            && let Some(outcome) = look(queue, until, *id)
        {
            break outcome;
        }
    };
    // A place that is kept for the thread is still to be taken.
    let id = if until == Until::Room { None } else { id.take() };
    queue.leave(until, id, parker.waker());
    outcome
}

/// Waits as a future does, without a look at the device. So a thread of low priority is not the one
/// that the device wakes, and keeps no other thread from looking: it may get no processor for long.
pub(crate) fn wait_for_reaper(
    queue: &(impl Awaited + ?Sized),
    until: Until,
    id: &mut Option<WaiterId>,
    deadline: Option<Instant>,
) -> Outcome {
    let parker = Parker::current();
    let outcome = loop {
        parker.reset();
        let notify = Notify::Wake(parker.waker().clone());
        if let Some(outcome) = queue.register(until, id, notify) {
            break outcome;
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break Err(WaitError::Timeout);
        }
        parker.park(left);
    };
    if until != Until::Room
        && let Some(id) = id.take()
    {
        queue.unregister(until, id);
    }
    outcome
}

/// Looks for a moment.
fn look(queue: &(impl Awaited + ?Sized), until: Until, id: Option<WaiterId>) -> Option<Outcome> {
    let mut backoff = Backoff::default();
    loop {
        let outcome = queue.poll(until, id);
        if outcome.is_some() || !backoff.spin() {
            return outcome;
        }
    }
}

/// Has `notify` notified when it is so; the outcome if it is there already.
pub(crate) fn poll_until(
    queue: &(impl Awaited + ?Sized),
    until: Until,
    id: &mut Option<WaiterId>,
    notify: Notify,
) -> Option<Outcome> {
    queue
        .request_completion(until, *id)
        .or_else(|| queue.poll(until, *id))
        .or_else(|| queue.register(until, id, notify))
}
