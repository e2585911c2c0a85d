//! Launches that the submitting thread makes by itself, between their begin and their end.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::hal::{LaunchMode, Submit};
use xsched_core::id::CmdId;
use xsched_core::queue::{Action, LaunchBlock};

use super::halves::{Launching, Retiring, Stepping};
use super::launch::Taken;
use super::shared::{Guard, SharedQueue};
use super::state::State;
use super::{Ticket, XQueue};
use crate::clock::now;
use crate::completion::{WaiterId, wait_for_room, wait_for_turn};
use crate::error::SubmitError;
use crate::panics::drop_command;

/// How often a thread that waits to launch looks whether a hold of another scheduler goes on, whose
/// end wakes it at once where a completion follows: the turn of a process by default.
const HELD_PATIENCE: Duration = Duration::from_millis(10);

/// How often it looks where something else than a full window keeps it, or another command is the
/// next: the end of that wakes it, and the window may be full then.
const REST_PATIENCE: Duration = Duration::from_millis(50);

/// The launching half, while the submitter of a command launches that.
pub(super) struct BegunLaunch<S> {
    launcher: Box<S>,
    cmd: CmdId,
    fence: bool,
}

/// How far a launch has got by the submitting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The launch is that thread's to make, and then to end.
    InHand(CmdId),
    /// The command has passed the launch point without a launch.
    Over,
}

/// A launch that the calling thread makes by itself: see [`XQueue::begin_launch`].
///
/// Dropped without [`LaunchToken::end`], as when the thread unwinds, it counts as failed, and the
/// queue goes on. While there is one, nothing else of the queue is launched.
#[must_use = "the queue launches nothing else until the launch ends"]
pub struct LaunchToken<C> {
    /// `None` once it has ended.
    queue: Option<XQueue<C>>,
    cmd: CmdId,
    /// The device may have prepared it for this thread.
    not_send: PhantomData<*const ()>,
}

impl<C> LaunchToken<C> {
    /// The launch was made, or refused by the device: then the command fails.
    pub fn end(mut self, launched: bool) {
        if let Some(queue) = self.queue.take() {
            queue.api().end_launch(launched);
        }
    }

    /// The command's ticket.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        self.queue.as_ref().map(|queue| queue.ticket(self.cmd))
    }

    /// The command's place in submission order, from 0.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.cmd.0
    }
}

impl<C> Drop for LaunchToken<C> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.api().end_launch(false);
        }
    }
}

impl<C> fmt::Debug for LaunchToken<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchToken").field("cmd", &self.cmd).finish_non_exhaustive()
    }
}

impl<C> XQueue<C> {
    /// Takes a command as [`XQueue::submit`] does, and returns when the calling thread is to launch
    /// it by itself: later if the queue is held, or its window is full. The launch ends with the
    /// token. It must not be called by a thread that holds the queue, or by a command.
    ///
    /// ```
    /// # use xsched::hal::{Noop, NoopQueue};
    /// # use xsched::prelude::*;
    /// #
    /// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// # let runtime = Runtime::new(Hpf::default())?;
    /// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// let queue = device.queue(XQueueConfig::default(), ())?;
    /// if let Some(token) = queue.begin_launch(7)? {
    ///     token.end(true); // after the call of the driver
    /// }
    /// queue.wait_all();
    /// assert_eq!(queue.stats().launched, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `None` if the command is cancelled or dropped before its turn, or refused by the device.
    ///
    /// # Errors
    /// [`SubmitError::Lost`], [`SubmitError::Closed`] and [`SubmitError::Replays`]; the command
    /// comes back. In a command that keeps the queue from getting on, [`SubmitError::Full`].
    pub fn begin_launch(&self, command: C) -> Result<Option<LaunchToken<C>>, SubmitError<C>> {
        let (mut command, mut line) = (command, None);
        loop {
            if self.handle.runtime.follows_threads() {
                self.follow_thread();
            }
            match self.api().begin_launch(command, Some(&mut line)) {
                Err(SubmitError::Full(back)) => command = back,
                Err(error) => return Err(error),
                Ok(Begun::Over) => return Ok(None),
                Ok(Begun::InHand(cmd)) => {
                    let queue = Some(self.clone());
                    return Ok(Some(LaunchToken { queue, cmd, not_send: PhantomData }));
                }
            }
            if wait_for_room(self.api(), &mut line).is_err() {
                return Err(SubmitError::Full(command));
            }
        }
    }

    /// Takes a command as [`XQueue::begin_launch`] does, for the thread that has suspended the
    /// queue: the launch goes behind a gate that is closed, or to hardware that is stopped, and
    /// runs when the queue is resumed. It waits for the steps of the hold alone.
    ///
    /// `None` if the device refuses the command.
    ///
    /// # Errors
    /// As [`XQueue::begin_launch`]. [`SubmitError::Full`] also if the queue is not suspended, is
    /// held at level 1, or is not ready to launch the command next.
    pub fn begin_launch_behind_hold(
        &self,
        command: C,
    ) -> Result<Option<LaunchToken<C>>, SubmitError<C>> {
        Ok(match self.api().begin_launch_behind_hold(command)? {
            Begun::Over => None,
            Begun::InHand(cmd) => {
                Some(LaunchToken { queue: Some(self.clone()), cmd, not_send: PhantomData })
            }
        })
    }
}

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    /// Takes a command that only this thread may launch, and begins that when it is its turn.
    pub(super) fn begin_on_this_thread(
        &self,
        command: S::Payload,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<Begun, SubmitError<S::Payload>> {
        if self.replays() {
            return Err(SubmitError::Replays(command));
        }
        let Taken { mut state, cmd, left: _left } = match self.take_place(line) {
            Ok(taken) => taken,
            Err(refused) => return Err(refused.of(command)),
        };
        *state.payload(cmd) = Some(command);
        state.caller_launched.push_back(cmd);
        if self.note_load(&mut state)
            && let Some(report) = state.machine.poll_report()
        {
            state = self.make_way(state, report);
        }
        loop {
            let time = state.time;
            state = self.launch(state, time);
            let is_held = state.is_held();
            state.machine.hold_window(is_held);
            state = match self.begin_next(state, cmd) {
                Ok(()) => return Ok(Begun::InHand(cmd)),
                Err(state) => state,
            };
            if state.machine.next_launch() > cmd || state.machine.is_lost() {
                self.leave_over(state, cmd);
                return Ok(Begun::Over);
            }
            let (patience, retired) = (patience(&state, cmd), state.machine.retired());
            self.finish(state);
            let is_its_turn = wait_for_turn(self, cmd, patience);
            state = self.lock();
            if !is_its_turn && state.machine.retired() == retired {
                Self::widen_window(&mut state, cmd);
            }
        }
    }

    /// Takes a command that the thread launches which holds the queue, and begins that.
    pub(super) fn begin_behind_hold(
        &self,
        command: S::Payload,
    ) -> Result<Begun, SubmitError<S::Payload>> {
        let mut state = self.lock();
        let next = CmdId(state.machine.submitted());
        let may_launch = state.machine.launch_behind_hold(next);
        drop(state);
        if !may_launch {
            return Err(SubmitError::Full(command));
        }
        let Taken { mut state, cmd, left: _left } = match self.take_place(None) {
            Ok(taken) => taken,
            Err(refused) => return Err(refused.of(command)),
        };
        *state.payload(cmd) = Some(command);
        state.caller_launched.push_back(cmd);
        self.finish_launched(state);
        // The gate closes, unless it is.
        self.finish_steps();
        match self.begin_next(self.lock(), cmd) {
            Ok(()) => Ok(Begun::InHand(cmd)),
            Err(mut state) => {
                state.machine.cancel(cmd);
                let time = state.time;
                state = self.launch(state, time);
                self.leave_over(state, cmd);
                Ok(Begun::Over)
            }
        }
    }

    /// Nothing has retired for long while a thread waited to launch this command: lets more be in
    /// flight, unless that is for a hold. What is in flight may wait for that thread.
    fn widen_window(state: &mut Guard<'_, S>, cmd: CmdId) {
        let is_full = state.machine.can_launch() == Err(LaunchBlock::WindowFull);
        let is_next = state.launcher.is_some() && state.machine.next_launch() == cmd;
        if is_full && is_next && !state.is_held() {
            state.machine.widen_window();
        }
    }

    /// Begins the launch of this command. The state comes back if it is not its turn, or the device
    /// refuses.
    fn begin_next<'a>(&'a self, mut state: Guard<'a, S>, cmd: CmdId) -> Result<(), Guard<'a, S>> {
        if state.machine.peek_launch() != Some(cmd) {
            return Err(state);
        }
        let Some(mut launcher) = state.launcher.take() else { return Err(state) };
        self.note_attendance(&mut state, &launcher);
        let (from, time) = (state.machine.next_launch(), state.time);
        // What was dropped in front of it takes up the window until it retires.
        let fence = match state.machine.poll_launch(time) {
            Some(Action::Launch { cmd: next, fence }) if next == cmd => fence,
            other => {
                state = self.carry_out(state, &mut launcher, from, other);
                state.launcher = Some(launcher);
                return Err(state);
            }
        };
        let payload = state.payload(cmd).take();
        state.pass(from, cmd);
        launcher.set_launch_mode(if state.machine.window().is_widened() {
            LaunchMode::Crowded
        } else if state.machine.is_unattended() {
            LaunchMode::Unattended
        } else {
            LaunchMode::Attended
        });
        drop(state);
        let begun = match &payload {
            Some(payload) => self.guarded(|| launcher.begin_launch(cmd, payload, fence)),
            // It cannot be; it fails rather than be forgotten.
            None => Err(Fault::Launch),
        };
        drop_command(payload);
        let Err(fault) = begun else {
            *self.begun.lock() = Some(BegunLaunch { launcher, cmd, fence });
            return Ok(());
        };
        let mut state = self.lock();
        state.fail_launch(cmd, fault);
        state.launcher = Some(launcher);
        Err(state)
    }

    /// Ends the launch that was begun.
    pub(super) fn end_on_this_thread(&self, launched: bool) {
        let Some(begun) = self.begun.lock().take() else { return };
        let BegunLaunch { mut launcher, cmd, fence } = begun;
        let ended = self.guarded(|| launcher.end_launch(cmd, fence, launched));
        let ended = if launched { ended } else { ended.and(Err(Fault::Launch)) };
        let mut state = self.lock();
        state.note_room(&launcher);
        if let Err(fault) = ended {
            state.fail_launch(cmd, fault);
        }
        // A hold that has come meanwhile has ended no burst.
        if !state.machine.may_burst() {
            launcher.end_burst();
        }
        state.launcher = Some(launcher);
        state.caller_launched.retain(|of_caller| *of_caller != cmd);
        if state.machine.next_launch().0 < state.machine.submitted() {
            state = self.launch(state, now());
        }
        self.finish_launched(state);
    }

    /// A thread that was to launch this command returns without that.
    fn leave_over(&self, mut state: Guard<'_, S>, cmd: CmdId) {
        state.caller_launched.retain(|of_caller| *of_caller != cmd);
        if state.machine.next_launch() <= cmd {
            // The device is lost, and never launches it.
            state.discard(cmd, CmdId(cmd.count()));
        }
        self.finish(state);
    }
}

/// How long a thread that is to launch this command waits for its turn before it looks why nothing
/// retires.
fn patience<S: Submit<Payload: Sized>>(state: &State<S>, cmd: CmdId) -> Duration {
    let is_full = state.machine.can_launch() == Err(LaunchBlock::WindowFull);
    if !is_full || state.machine.next_launch() != cmd {
        REST_PATIENCE
    } else if state.is_held() {
        HELD_PATIENCE
    } else {
        state.machine.window().patience().into()
    }
}
