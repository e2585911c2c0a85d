//! What the runtime's threads and the handles do with a queue, whatever its device.

use std::task::Waker;

use xsched_core::hal::{Retire, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::message::{Order, Report};
use xsched_core::queue::{ByHand, Signal};
use xsched_core::window::WindowConfig;

use super::Shared;
use super::state::Waiter;
use crate::clock::now;
use crate::error::{SubmitError, WaitError};
use crate::hub::Member;

impl<S, R, P> Member for Shared<S, R, P>
where
    S: Submit<Payload: Sized + Send> + Send + 'static,
    R: Retire + Send + 'static,
    P: Steps + Send + 'static,
{
    fn take_report(&self) -> Option<Report> {
        self.lock().report.take()
    }

    fn deliver(&self, order: Order) {
        self.lock().machine.handle_order(order);
        self.run_steps();
    }

    fn fail_open(&self) {
        self.lock().machine.handle_signal(now(), Signal::FailOpen);
        self.run_steps();
    }

    fn reap(&self) -> bool {
        let mut progress = self.take_completions(false);
        progress |= self.finish_later_step();
        let mut state = self.lock();
        let due = state.machine.poll_timeout().is_some_and(|due| now() >= due);
        if due {
            state.machine.handle_timeout(now());
            // Marks are cheap and do not block: nothing is launched beyond what is in flight.
            state = self.launch(state, now());
            self.finish(state);
        }
        progress
    }

    fn stays_watched(&self) -> bool {
        let mut state = self.lock();
        let pending = state.machine.submitted() > state.machine.retired();
        state.watched =
            state.machine.in_flight() > 0 || state.later.is_some() || (state.closing && pending);
        let watched = state.watched;
        if !watched && state.closing && !state.detached {
            state.detached = true;
            drop(state);
            self.hub.detach(self.id);
        }
        watched
    }

    fn pump(&self) {
        let mut state = self.lock();
        state.pump_due = false;
        state = self.launch(state, now());
        self.finish(state);
    }
}

/// What a handle does with its queue, whatever the device.
pub(crate) trait Api<C>: Member {
    fn id(&self) -> QueueId;
    fn caps(&self) -> Caps;
    fn submit(&self, command: C) -> Result<CmdId, SubmitError<C>>;
    /// The oldest command that has not retired: when it has, there is room.
    fn oldest(&self) -> CmdId;
    /// Makes sure that the completion will be seen; the outcome if it is there already.
    fn want(&self, cmd: CmdId) -> Option<Result<(), WaitError>>;
    /// Looks for completions; the outcome if it is there now.
    fn poll(&self, cmd: CmdId) -> Option<Result<(), WaitError>>;
    /// Has the waker woken when the command has retired; the outcome if it is there already.
    fn register(&self, cmd: CmdId, waker: &Waker) -> Option<Result<(), WaitError>>;
    fn unregister(&self, cmd: CmdId, waker: &Waker);
    fn cancel(&self, cmd: CmdId) -> bool;
    fn hold(&self, level: Level);
    fn resume(&self, drop_pending: bool);
    fn set_window(&self, window: WindowConfig);
    fn set_level(&self, level: Level);
    fn snapshot(&self) -> Snapshot;
    fn close(&self);
}

/// What [`crate::XQueue::stats`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) threshold: u32,
    pub(crate) batch: u32,
    pub(crate) oddities: xsched_core::queue::Oddities,
}

impl<S, R, P> Api<S::Payload> for Shared<S, R, P>
where
    S: Submit<Payload: Sized + Send> + Send + 'static,
    R: Retire + Send + 'static,
    P: Steps + Send + 'static,
{
    fn id(&self) -> QueueId {
        self.id
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn submit(&self, command: S::Payload) -> Result<CmdId, SubmitError<S::Payload>> {
        let mut state = self.lock();
        if state.machine.is_full() {
            drop(state);
            self.take_completions(true);
            state = self.lock();
        }
        if state.machine.in_flight() == 0 {
            state.time = now();
        }
        let now = state.time;
        let cmd = match state.machine.submit(now) {
            Ok(cmd) => cmd,
            Err(e) => {
                self.finish(state);
                return Err(match e {
                    xsched_core::queue::SubmitError::Full => SubmitError::Full(command),
                    xsched_core::queue::SubmitError::Lost => SubmitError::Lost(command),
                });
            }
        };
        // The usual case: this command is the next, so it goes straight to the device.
        if state.window_is_open() && state.machine.next_launch() == cmd {
            if let Some(mut launcher) = state.launcher.take() {
                state = self.launch_new(state, &mut launcher, cmd, command, now);
                state.launcher = Some(launcher);
                if state.machine.next_launch().0 < state.machine.submitted() {
                    state = self.launch(state, now);
                }
                self.finish(state);
                return Ok(cmd);
            }
        }
        *state.payload(cmd) = Some(command);
        if state.window_is_open() {
            state = self.launch(state, now);
        } else {
            // Only now that the command is in the ring: so the queue is never idle in between, and
            // the scheduler need not hear of it.
            drop(state);
            if self.take_completions(true) {
                return Ok(cmd);
            }
            state = self.lock();
        }
        self.finish(state);
        Ok(cmd)
    }

    fn oldest(&self) -> CmdId {
        CmdId(self.lock().machine.retired())
    }

    fn want(&self, cmd: CmdId) -> Option<Result<(), WaitError>> {
        let mut state = self.lock();
        if let Some(outcome) = state.outcome(cmd) {
            return Some(outcome);
        }
        state.machine.want(cmd);
        state = self.launch(state, now());
        let outcome = state.outcome(cmd);
        self.finish(state);
        outcome
    }

    fn poll(&self, cmd: CmdId) -> Option<Result<(), WaitError>> {
        if self.take_completions(true) { self.lock().outcome(cmd) } else { None }
    }

    fn register(&self, cmd: CmdId, waker: &Waker) -> Option<Result<(), WaitError>> {
        let mut state = self.lock();
        if let Some(outcome) = state.outcome(cmd) {
            return Some(outcome);
        }
        if !state.waiters.iter().any(|w| w.cmd == cmd && w.waker.will_wake(waker)) {
            state.waiters.push(Waiter { cmd, waker: waker.clone() });
        }
        drop(state);
        self.threads.hurry();
        None
    }

    fn unregister(&self, cmd: CmdId, waker: &Waker) {
        self.lock().waiters.retain(|w| w.cmd != cmd || !w.waker.will_wake(waker));
    }

    fn cancel(&self, cmd: CmdId) -> bool {
        let mut state = self.lock();
        let cancelled = state.machine.cancel(cmd);
        let mut dropped = None;
        if cancelled {
            dropped = state.payload(cmd).take();
            state = self.launch(state, now());
        }
        self.finish(state);
        drop(dropped);
        cancelled
    }

    fn hold(&self, level: Level) {
        self.lock().machine.hold_by_hand(ByHand { level });
        self.run_steps();
    }

    fn resume(&self, drop_pending: bool) {
        self.lock().machine.resume_by_hand(drop_pending);
        self.run_steps();
        let state = self.lock();
        let state = self.launch(state, now());
        self.finish(state);
    }

    fn set_window(&self, window: WindowConfig) {
        let mut state = self.lock();
        state.machine.set_window(window);
        state = self.launch(state, now());
        self.finish(state);
    }

    fn set_level(&self, level: Level) {
        self.lock().machine.set_level(level);
        self.run_steps();
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let window = state.machine.window();
        Snapshot {
            report: state.machine.report(),
            threshold: window.threshold(),
            batch: window.batch(),
            oddities: state.machine.oddities(),
        }
    }

    fn close(&self) {
        self.lock().machine.resume_by_hand(false);
        self.run_steps();
        let mut state = self.lock();
        state.closing = true;
        self.finish(state);
    }
}
