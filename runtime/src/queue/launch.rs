//! Submitting and launching.

use xsched_core::fault::Fault;
use xsched_core::hal::Submit;
use xsched_core::id::CmdId;
use xsched_core::message::Report;
use xsched_core::queue::{Action, LaunchBlock, Signal};
use xsched_core::time::Instant;

use super::halves::{Launching, Retiring, Stepping};
use super::shared::{Guard, SharedQueue};
use crate::clock::now;
use crate::completion::{Notify, Until, WaiterId};
use crate::error::SubmitError;
use crate::panics::drop_command;
use crate::sync::bound;

/// A command that has a place in the ring.
pub(super) struct Taken<'a, S: Submit<Payload: Sized>> {
    pub(super) state: Guard<'a, S>,
    pub(super) cmd: CmdId,
    /// How its submitter was to be told of room: to be dropped once the state is let go.
    pub(super) left: Option<Notify>,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    Full,
    Lost,
    Closed,
}

impl Refused {
    /// The error that gives the command back.
    pub(super) fn of<C>(self, command: C) -> SubmitError<C> {
        match self {
            Self::Full => SubmitError::Full(command),
            Self::Lost => SubmitError::Lost(command),
            Self::Closed => SubmitError::Closed(command),
        }
    }
}

/// Launches of waiting commands that one call of a submitter does; the pump does the rest.
const INLINE_LAUNCHES: u32 = bound(16, 1);

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    /// Takes a command. `line` is where a submitter that waits for room keeps its number: it is
    /// registered if there is no room, and no more after that.
    pub(super) fn submit_command(
        &self,
        command: S::Payload,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<CmdId, SubmitError<S::Payload>> {
        let Taken { mut state, cmd, left: _left } = match self.take_place(line) {
            Ok(taken) => taken,
            Err(refused) => return Err(refused.of(command)),
        };
        if self.own_pump.is_some() {
            *state.payload(cmd) = Some(command);
            // The scheduler learns of it before the pump does.
            self.finish_launched(state);
        } else if self.note_load(&mut state)
            && let Some(report) = state.machine.poll_report()
        {
            self.submit_first(state, cmd, command, report);
        } else {
            let time = state.time;
            self.submit_next(state, cmd, command, time);
        }
        Ok(cmd)
    }

    /// A place in the ring for a command. See [`Self::submit_command`].
    #[inline]
    pub(super) fn take_place(
        &self,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<Taken<'_, S>, Refused> {
        let waiter = line.as_deref().copied().flatten();
        let mut state = self.lock();
        if !state.has_room(waiter) {
            state = self.look_for_room(state);
            let is_over = state.lifecycle.is_closing() || state.machine.is_lost();
            if !state.has_room(waiter) && !is_over {
                if let (None, Some(line)) = (waiter, line) {
                    state.waiters.put(Until::Room, line, Notify::Keep);
                }
                self.finish(state);
                return Err(Refused::Full);
            }
        }
        let id = line.and_then(Option::take);
        let left = id.and_then(|id| state.waiters.remove(Until::Room, id));
        if state.lifecycle.is_closing() {
            self.finish(state);
            drop(left);
            return Err(Refused::Closed);
        }
        let idle = state.machine.in_flight() == 0;
        if idle {
            state.time = now();
        }
        let now = state.time;
        state.grow_if_full();
        let cmd = match state.machine.submit(now) {
            Ok(cmd) => cmd,
            Err(e) => {
                self.finish(state);
                drop(left);
                return Err(match e {
                    xsched_core::queue::SubmitError::Full => Refused::Full,
                    xsched_core::queue::SubmitError::Lost => Refused::Lost,
                });
            }
        };
        state.note_submit(cmd, None);
        state.timing.submitted(cmd, idle.then_some(now));
        Ok(Taken { state, cmd, left })
    }

    /// Takes completions if a submitter finds no room.
    #[cold]
    fn look_for_room<'a>(&'a self, state: Guard<'a, S>) -> Guard<'a, S> {
        if state.lifecycle.is_closing() {
            return state;
        }
        drop(state);
        self.take_completions(true);
        self.lock()
    }

    /// Has the scheduler make room before the first command of an idle queue is launched: it may
    /// have to hold other queues, and what they start meanwhile is in the way.
    fn submit_first(
        &self,
        mut state: Guard<'_, S>,
        cmd: CmdId,
        command: S::Payload,
        report: Report,
    ) {
        *state.payload(cmd) = Some(command);
        let state = self.make_way(state, report);
        let time = state.time;
        let state = self.launch(state, time);
        self.finish(state);
    }

    /// Tells the scheduler that the queue has something to do, which holds others for it.
    pub(super) fn make_way<'a>(&'a self, mut state: Guard<'a, S>, report: Report) -> Guard<'a, S> {
        let notify = state.report.replace(report).is_none();
        drop(state);
        if notify {
            self.scheduler.notify(self.id);
        }
        self.lock()
    }

    fn submit_next<'a>(
        &'a self,
        mut state: Guard<'a, S>,
        cmd: CmdId,
        command: S::Payload,
        now: Instant,
    ) {
        let rule = state.machine.can_launch();
        // The usual case: this command is the next, so it goes straight to the device.
        if rule.is_ok()
            && state.machine.next_launch() == cmd
            && let Some(mut launcher) = state.launcher.take()
        {
            state.machine.leave_unattended(false);
            state = self.launch_new(state, &mut launcher, cmd, command, now);
            state.launcher = Some(launcher);
            if state.machine.next_launch().0 < state.machine.submitted() {
                state = self.launch(state, now);
            }
            self.finish_launched(state);
            return;
        }
        *state.payload(cmd) = Some(command);
        if rule == Err(LaunchBlock::WindowFull) {
            // Only now that the command is in the ring: so the queue is never idle in between, and
            // the scheduler need not hear of it.
            drop(state);
            if self.take_completions(true) {
                return;
            }
            state = self.lock();
        } else {
            state = self.launch(state, now);
        }
        self.finish(state);
    }

    /// Launches what may be launched, unless another thread does, up to what a submitter launches
    /// by itself.
    pub(super) fn launch<'a>(&'a self, mut state: Guard<'a, S>, mut time: Instant) -> Guard<'a, S> {
        let Some(mut launcher) = state.launcher.take() else { return state };
        // Who submits commands may ask for their ends; who launches does so of the driver.
        state.machine.leave_unattended(false);
        for _ in 0..INLINE_LAUNCHES {
            if state.is_for_caller() {
                break;
            }
            let from = state.machine.next_launch();
            let action = state.machine.poll_launch(time);
            state = self.carry_out(state, &mut launcher, from, action);
            if action.is_none() {
                break;
            }
            time = now();
        }
        state.launcher = Some(launcher);
        state
    }

    /// Notes whether a scheduler has a use for when the queue runs out of work: that of the node,
    /// or that of the process, where it may hold other queues that have work.
    pub(super) fn note_attendance(&self, state: &mut Guard<'_, S>, launcher: &S) {
        let is_unattended = launcher.is_unattended() && !self.scheduler.holds_others();
        state.machine.leave_unattended(is_unattended);
    }

    /// Ends what has passed the launch point since `from`, and carries out the machine's answer.
    pub(super) fn carry_out<'a>(
        &'a self,
        mut state: Guard<'a, S>,
        launcher: &mut S,
        from: CmdId,
        action: Option<Action>,
    ) -> Guard<'a, S> {
        let (passed, payload) = match action {
            Some(Action::Launch { cmd, .. }) => (cmd, state.payload(cmd).take()),
            _ => (state.machine.next_launch(), None),
        };
        state.pass(from, passed);
        match action {
            Some(action) => self.perform(state, launcher, action, payload),
            None => state,
        }
    }

    /// Puts a fence that is due, unless another thread launches. Fences are cheap and do not block.
    /// Launches are left to others: one may block, and completions of other queues with it.
    pub(super) fn put_fence<'a>(&'a self, mut state: Guard<'a, S>) -> Guard<'a, S> {
        let Some(mut launcher) = state.launcher.take() else { return state };
        if let Some(action) = state.machine.poll_fence() {
            state = self.perform(state, &mut launcher, action, None);
        }
        state.launcher = Some(launcher);
        state
    }

    /// Launches the command that was just submitted, if it is its turn.
    fn launch_new<'a>(
        &'a self,
        mut state: Guard<'a, S>,
        launcher: &mut S,
        cmd: CmdId,
        command: S::Payload,
        now: Instant,
    ) -> Guard<'a, S> {
        match state.machine.poll_launch(now) {
            Some(action @ Action::Launch { .. }) => {
                self.perform(state, launcher, action, Some(command))
            }
            other => {
                *state.payload(cmd) = Some(command);
                match other {
                    Some(action) => self.perform(state, launcher, action, None),
                    None => state,
                }
            }
        }
    }

    /// Carries out a launch or a fence, without the state meanwhile. Nothing here unwinds: the
    /// caller has the launching half in its hand.
    fn perform<'a>(
        &'a self,
        state: Guard<'a, S>,
        launcher: &mut S,
        action: Action,
        payload: Option<S::Payload>,
    ) -> Guard<'a, S> {
        drop(state);
        match action {
            Action::Launch { cmd, fence } => {
                // A command without its payload cannot be; it fails rather than be forgotten.
                let launched = match &payload {
                    Some(payload) => self.guarded(|| launcher.launch(cmd, payload, fence)),
                    None => Err(Fault::Launch),
                };
                let kept = if self.replays() {
                    payload
                } else {
                    drop_command(payload);
                    None
                };
                let mut state = self.lock();
                state.note_room(launcher);
                if cmd.count() > state.machine.retired() {
                    if kept.is_some() {
                        *state.payload(cmd) = kept;
                    }
                } else {
                    // It has retired meanwhile, and its place may be another's.
                    state.deferred_drops.extend(kept);
                }
                if let Err(fault) = launched {
                    state.fail_launch(cmd, fault);
                }
                state
            }
            Action::Fence { upto } => {
                let fenced = self.guarded(|| launcher.fence(upto));
                let mut state = self.lock();
                if let Err(fault) = fenced {
                    state.machine.handle_signal(now(), Signal::FenceFailed);
                    state.lose_if_sticky(fault);
                    state.end_waits();
                }
                state
            }
            Action::Step { .. } => self.lock(),
        }
    }
}
