//! Submitting and launching.

use xsched_core::fault::Fault;
use xsched_core::hal::{Retire, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::message::Report;
use xsched_core::queue::{Action, LaunchBlock, Signal};
use xsched_core::time::Instant;

use super::shared::{Guard, SharedQueue};
use super::state::State;
use crate::clock::now;
use crate::completion::{Notify, Until, WaiterId, wait_for_turn, wait_until};
use crate::error::SubmitError;
use crate::panics::drop_command;
use crate::sync::bound;
use crate::workers::{Turn, turns_to};

/// A command that has a place in the ring.
struct Taken<'a, S: Submit<Payload: Sized>> {
    state: Guard<'a, S>,
    cmd: CmdId,
    /// How its submitter was to be told of room: to be dropped once the state is let go.
    left: Option<Notify>,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug)]
enum Refused {
    Full,
    Lost,
    Closed,
}

impl Refused {
    /// The error that gives the command back.
    fn of<C>(self, command: C) -> SubmitError<C> {
        match self {
            Self::Full => SubmitError::Full(command),
            Self::Lost => SubmitError::Lost(command),
            Self::Closed => SubmitError::Closed(command),
        }
    }
}

/// Launches of waiting commands that one call of a submitter does; the pump does the rest.
const INLINE_LAUNCHES: u32 = bound(16, 1);

impl<S, R, P> SharedQueue<S, R, P>
where
    S: Submit<Payload: Sized + Send> + Send + 'static,
    R: Retire + Send + 'static,
    P: Steps + Send + 'static,
{
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
        let turn = self.turn(&mut state, cmd);
        if self.launcher.is_some() {
            *state.payload(cmd) = Some(command);
            // The scheduler learns of it before the launcher thread does.
            self.finish_launched(state);
        } else if turn == Turn::HandOver {
            *state.payload(cmd) = Some(command);
            state.note_full_window();
            self.finish_launched(state);
        } else if self.note_load(&mut state)
            && let Some(report) = state.machine.poll_report()
        {
            self.submit_first(state, cmd, command, report);
        } else {
            let time = state.time;
            self.submit_next(state, cmd, command, time);
        }
        if let (Turn::LaunchAndWake, Some(launcher)) = (turn, &self.shared_launcher) {
            launcher.wake();
        }
        Ok(cmd)
    }

    /// Takes a command that only this thread may launch, and does so when it is its turn. Returns
    /// without a launch if it is over before that.
    pub(super) fn launch_on_this_thread(
        &self,
        command: S::Payload,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<CmdId, SubmitError<S::Payload>> {
        let Taken { mut state, cmd, left: _left } = match self.take_place(line) {
            Ok(taken) => taken,
            Err(refused) => return Err(refused.of(command)),
        };
        *state.payload(cmd) = Some(command);
        state.here.push_back(cmd);
        if self.note_load(&mut state)
            && let Some(report) = state.machine.poll_report()
        {
            state = self.make_way(state, report);
        }
        loop {
            let time = state.time;
            state = self.launch_as(state, time, Some(cmd));
            if state.machine.next_launch() > cmd || state.machine.is_lost() {
                self.leave_here(state, cmd);
                return Ok(cmd);
            }
            self.finish(state);
            wait_for_turn(self, cmd);
            state = self.lock();
        }
    }

    /// The thread that was to launch this command returns.
    fn leave_here(&self, mut state: Guard<'_, S>, cmd: CmdId) {
        state.here.retain(|here| *here != cmd);
        if state.machine.next_launch() <= cmd {
            // The device is lost, and never launches it.
            state.discard(cmd, CmdId(cmd.count()));
        }
        self.finish(state);
        if self.replays() {
            // It may have to be launched again, from what its thread has.
            let _ = wait_until(self, Until::Retired(cmd), None);
        }
    }

    /// A place in the ring for a command. See [`Self::submit_command`].
    #[inline]
    fn take_place(&self, line: Option<&mut Option<WaiterId>>) -> Result<Taken<'_, S>, Refused> {
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

    /// Who is to launch a command that was just taken. A submitter that goes from one queue to
    /// another would launch into each only after the other, so a shared thread does, unless it
    /// sleeps. What is submitted to an idle queue is not handed over.
    #[inline]
    fn turn(&self, state: &mut State<S>, cmd: CmdId) -> Turn {
        let Some(launcher) = &self.shared_launcher else { return Turn::Launch };
        let busy = state.machine.in_flight() > 0;
        let turned = busy && turns_to(self.id);
        let follows = state.handed_over && state.machine.next_launch() < cmd;
        // The thread has been asked, or is about it.
        let comes = state.launcher_asked || state.launcher.is_none();
        let turn = if follows && comes {
            Turn::HandOver
        } else if turned || busy && follows {
            launcher.turn()
        } else {
            Turn::Launch
        };
        state.handed_over = turn == Turn::HandOver;
        turn
    }

    /// Launches what was handed over, on the shared launcher thread. Says how many commands that
    /// were.
    pub(super) fn launch_for_submitters(&self) -> u32 {
        let mut state = self.lock();
        state.launcher_asked = false;
        state.late_looks = 0;
        let first = state.machine.next_launch();
        state = self.launch(state, now());
        let is_full = state.machine.can_launch() == Err(LaunchBlock::WindowFull);
        let mut next = state.machine.next_launch();
        self.finish(state);
        // Its submitter does not look. If there is nothing to see yet, the reaper finds room.
        if is_full && self.take_completions(true) {
            let mut state = self.lock();
            next = state.machine.next_launch();
            // There may be more to see, once the thread has seen to its other queues.
            state.note_full_window();
            self.finish(state);
        }
        next.0.saturating_sub(first.0) as u32
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
    fn make_way<'a>(&'a self, mut state: Guard<'a, S>, report: Report) -> Guard<'a, S> {
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

    /// Launches what may be launched, unless another thread does.
    pub(super) fn launch<'a>(&'a self, state: Guard<'a, S>, time: Instant) -> Guard<'a, S> {
        self.launch_as(state, time, None)
    }

    /// The same for the thread that is to launch this command, if any.
    fn launch_as<'a>(
        &'a self,
        mut state: Guard<'a, S>,
        mut time: Instant,
        own: Option<CmdId>,
    ) -> Guard<'a, S> {
        let Some(mut launcher) = state.launcher.take() else { return state };
        for _ in 0..INLINE_LAUNCHES {
            if state.is_for_other(own) {
                break;
            }
            let from = state.machine.next_launch();
            let action = state.machine.poll_launch(time);
            let (passed, payload) = match action {
                Some(Action::Launch { cmd, .. }) => (cmd, state.payload(cmd).take()),
                _ => (state.machine.next_launch(), None),
            };
            if passed > from {
                state.discard(from, passed);
                state.end_waits_early(from, passed);
                state.end_waits();
            }
            let Some(action) = action else { break };
            state = self.perform(state, &mut launcher, action, payload);
            time = now();
        }
        state.launcher = Some(launcher);
        state
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
                    state.machine.handle_signal(now(), Signal::LaunchFailed { cmd, fault });
                    state.lose_if_sticky(fault);
                    state.end_waits_early(cmd, CmdId(cmd.count()));
                    state.end_waits();
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
