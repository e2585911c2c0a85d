//! Taking completions, and how long that can wait.

use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::hal::{Retire, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::queue::Signal;

use super::lifecycle::Event;
use super::shared::{Guard, SharedQueue};
use crate::clock::now;
use crate::completion::poll_delay::{self, LATENESS};
use crate::sync::atomic::Ordering;

/// How long the reaper leaves a queue alone that is submitted to and that has no waiter. After the
/// last submit, the scheduler learns so late that the queue is idle.
const ATTENDED: Duration = Duration::from_micros(100);
/// The reaper's longest poll delay where the device does not notify.
const UNATTENDED: Duration = Duration::from_micros(500);
/// The same while a thread is in front. It leaves without notifying, since it mostly comes back at
/// once; if it does not, the scheduler learns so late that the queue is idle.
const IN_FRONT: Duration = Duration::from_millis(1);

impl<S, R, P> SharedQueue<S, R, P>
where
    S: Submit<Payload: Sized + Send> + Send + 'static,
    R: Retire + Send + 'static,
    P: Steps + Send + 'static,
{
    /// Takes completions if no other thread is about it. A caller that may launch does so.
    pub(super) fn take_completions(&self, may_launch: bool) -> bool {
        // The full window keeps a submitter from more, so it pays to wait a moment: a command that
        // is left behind costs a wake-up of the pump.
        let retire =
            if may_launch { self.retire.try_lock_patiently() } else { self.retire.try_lock() };
        let Some(mut retire) = retire else { return false };
        let signal = match self.guarded(|| retire.poll_retired()) {
            Ok(None) => return false,
            Ok(Some(retired)) => Signal::Retired(retired),
            Err(fault) if fault.is_sticky() => Signal::Lost,
            Err(_) => return false,
        };
        let mut state = self.lock();
        let before = state.machine.retired();
        let time = now();
        state.time = time;
        state.machine.handle_signal(time, signal);
        state.note_retired(before, signal);
        let retired = state.machine.retired();
        state.timing.retired(retired, time);
        state.end_waits();
        drop(retire);
        if self.replays() {
            let retired = CmdId(state.machine.retired());
            state.discard(CmdId(before), retired);
        }
        if may_launch {
            state = self.launch(state, time);
        }
        self.finish(state);
        true
    }

    /// Takes completions for the reaper, and puts fences again that were lost.
    pub(super) fn reap_completions(&self) -> bool {
        let mut progress = self.take_completions(false);
        progress |= self.finish_later_step(None);
        let mut state = self.lock();
        let due = state.machine.poll_timeout().is_some_and(|due| now() >= due);
        if due {
            state.machine.handle_timeout(now());
            // Fences are cheap and do not block: nothing is launched beyond what is in flight.
            state = self.launch(state, now());
            self.finish(state);
        }
        progress
    }

    /// Has the alarm woken at the next completion. False if the device cannot, or if another thread
    /// looks for completions just now.
    pub(super) fn arm(&self) -> bool {
        let Some(mut retire) = self.retire.try_lock() else { return false };
        let armed = self.guarded(|| Ok::<_, Fault>(retire.wake_on_retire(&self.alarm_waker)));
        if armed == Ok(false) {
            self.silent.store(true, Ordering::Relaxed);
        }
        armed.unwrap_or(false)
    }

    /// See [`crate::workers::DeviceQueue::leave`].
    pub(super) fn leave_if_over(&self) -> bool {
        // What is missed here is seen when the reaper rests.
        self.closing.load(Ordering::Relaxed) && self.leave_with(self.lock()).is_none()
    }

    /// Ends the queue if it is closed and nothing is left to do; otherwise gives the state
    /// back.
    fn leave_with<'a>(&'a self, mut state: Guard<'a, S>) -> Option<Guard<'a, S>> {
        if !state.is_over() {
            return Some(state);
        }
        state.lifecycle.on(Event::Drain);
        state.lifecycle.on(Event::Detach);
        drop(state);
        self.scheduler.detach(self.id);
        None
    }

    /// See [`crate::workers::DeviceQueue::rest`].
    pub(super) fn rest_for(&self, delay: Duration, evict_idle: bool) -> Option<Duration> {
        let mut state = self.leave_with(self.lock())?;
        let needed =
            state.machine.in_flight() > 0 || state.step.on_device() || state.lifecycle.is_closing();
        if !needed && evict_idle {
            state.lifecycle.on(Event::Evict);
            return None;
        }
        let submitted = state.machine.submitted();
        let attended = std::mem::replace(&mut state.submitted_before, submitted) < submitted;
        if attended && !state.eager && !self.silent.load(Ordering::Relaxed) {
            // The submitter looks when the window is full. Waking the reaper for each completion
            // meanwhile would only be in the way.
            return Some(delay.max(ATTENDED));
        }
        drop(state);
        // Armed first: what follows sees everything that came before.
        let armed = self.arm();
        let state = self.lock();
        if state.step.on_device() {
            return Some(delay);
        }
        if !armed {
            let last = state.machine.next_launch().0.checked_sub(1).map(CmdId);
            drop(state);
            return Some(self.reaper_delay(delay, last));
        }
        let due = state.machine.poll_timeout();
        Some(due.map_or(Duration::MAX, |due| Duration::from(due.since(now())).max(delay)))
    }

    /// How long the reaper may leave a queue alone whose device does not notify. `delay` if there
    /// is no forecast.
    fn reaper_delay(&self, delay: Duration, last: Option<CmdId>) -> Duration {
        // A thread in front looks itself, and when it must.
        if self.alarm.has_front() && self.silent.load(Ordering::Relaxed) {
            // Unless it cannot say when: then it sleeps.
            let knows = self.forecast_delay(last).is_some();
            return delay.max(if knows { IN_FRONT } else { UNATTENDED });
        }
        self.forecast_delay(last)
            .map_or(delay, |forecast| forecast.clamp(poll_delay::SHORTEST, UNATTENDED))
    }

    /// Where the device does not notify: how long a thread may sleep that must see the end of
    /// `wanted`, and that will not let the device run dry while commands wait to be launched.
    /// `None` if the device notifies, or cannot say when there will be something to see.
    pub(super) fn forecast_delay(&self, wanted: Option<CmdId>) -> Option<Duration> {
        if !self.silent.load(Ordering::Relaxed) {
            return None;
        }
        // Another thread looks just now, and knows better soon.
        let Some(mut retire) = self.retire.try_lock() else { return Some(Duration::ZERO) };
        let state = self.lock();
        let (launched, submitted) = (state.machine.next_launch().0, state.machine.submitted());
        drop(state);
        let mut forecast = |cmd| self.guarded(|| Ok::<_, Fault>(retire.forecast(cmd))).ok()?;
        let end = wanted.filter(|cmd| cmd.0 < launched).and_then(&mut forecast);
        let end = end.map(|end| poll_delay::until(end.left, end.overdue, &LATENESS));
        let refills = launched < submitted || wanted.is_none();
        let last = launched.checked_sub(1).filter(|_| refills).map(CmdId);
        // Half of it is left to work on when the sleeper comes back.
        let dry = last.and_then(&mut forecast);
        let refill = dry.map(|dry| poll_delay::before_dry(dry.left, dry.overdue, &LATENESS));
        match (end, refill) {
            (Some(end), Some(refill)) => Some(end.min(refill)),
            (end, refill) => end.or(refill),
        }
    }
}
