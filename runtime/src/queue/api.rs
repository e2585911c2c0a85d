//! Operations of handles and of the runtime's threads on a queue, whatever its device.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::hal::Kept;
use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::message::{Order, Report};
use xsched_core::queue::{LaunchBlock, Signal};
use xsched_core::window::WindowConfig;

use super::begun::Begun;
use super::halves::{Launching, Retiring, Stepping};
use super::lifecycle::{Effect, Event};
use super::quiet::Look;
use super::shared::SharedQueue;
use crate::clock::now;
use crate::completion::{Awaited, Notify, Outcome, Until, WaiterId, wait_requested, wait_until};
use crate::error::{Error, SubmitError};
use crate::record::RecordBuffer;
use crate::scheduler::{Admit, Busy, Deadline, ScheduledQueue};
use crate::stats::{Label, Snapshot};
use crate::sync::atomic::Ordering;
use crate::sync::mpsc::Sender;
use crate::workers::{Callback, Committer, DeviceQueue};

/// Operations of a handle on its queue, whatever the device.
pub(crate) trait Api<C>: Awaited + ScheduledQueue {
    fn id(&self) -> QueueId;
    fn caps(&self) -> Caps;
    /// Takes a command. A submitter that will wait for room passes where it keeps its number, and
    /// is in line from then on.
    fn submit(
        &self,
        command: C,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<CmdId, SubmitError<C>>;
    /// Takes a command, and returns when the calling thread is to launch it, or it is over.
    fn begin_launch(
        &self,
        command: C,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<Begun, SubmitError<C>>;
    /// See [`XQueue::begin_launch_behind_hold`](super::XQueue::begin_launch_behind_hold).
    fn begin_launch_behind_hold(&self, command: C) -> Result<Begun, SubmitError<C>>;
    /// Ends a launch that this thread has begun; `launched`: the device took the command.
    fn end_launch(&self, launched: bool);
    /// See [`XQueue::seal`](super::XQueue::seal).
    fn seal(&self) -> bool;
    fn callbacks(&self) -> Result<Sender<Callback>, Error>;
    fn cancel(&self, cmd: CmdId) -> bool;
    fn suspend(&self, level: Level);
    /// Suspends the queue if everything that was submitted has retired; says whether it was so.
    fn suspend_if_idle(&self, level: Level) -> bool;
    fn resume(&self, drop_pending: bool);
    fn set_window(&self, window: WindowConfig);
    fn set_level(&self, level: Level);
    fn level(&self) -> Level;
    /// True if nothing of the suspended queue runs.
    fn look_quiet(&self) -> Look;
}

impl<S: Launching, R: Retiring, P: Stepping> DeviceQueue for SharedQueue<S, R, P> {
    fn committed(&self, fault: Option<Fault>) {
        if !self.finish_later_step(fault) {
            // The device goes on with it by itself.
            self.workers.reaper().notify();
        }
    }

    fn is_eager(&self) -> bool {
        // A device that does not notify is looked at when there is something to see.
        self.flags.eager.load(Ordering::Relaxed) && !self.flags.silent.load(Ordering::Relaxed)
    }

    fn reap(&self) -> bool {
        // Other queues must not wait for a thread that may be of low priority.
        !self.is_stuck() && self.reap_completions()
    }

    fn leave(&self) -> bool {
        self.leave_if_over()
    }

    fn rest(&self, poll_delay: Duration) -> Option<Duration> {
        if self.is_stuck() { Some(poll_delay) } else { self.rest_for(poll_delay) }
    }

    fn pump(&self) {
        loop {
            let mut state = self.lock();
            state.pump_asked = false;
            state = self.launch(state, now());
            // The pump has other queues to see to, and the reaper finds room in the window for it.
            let waits = self.own_pump.is_some()
                && state.machine.can_launch() == Err(LaunchBlock::WindowFull);
            let oldest = CmdId(state.machine.retired());
            if waits {
                state.machine.request_completion(oldest);
                state = self.launch(state, now());
            }
            self.finish(state);
            if !waits {
                return;
            }
            // It retires or the device is lost, whatever holds the queue meanwhile.
            let _ = wait_requested(self, Until::Retired(oldest), &mut None, None);
        }
    }
}

impl<S: Launching, R: Retiring, P: Stepping> ScheduledQueue for SharedQueue<S, R, P> {
    fn take_report(&self) -> Result<Option<Report>, Busy> {
        Ok(self.lock_unless_stuck()?.report.take())
    }

    fn deliver(&self, order: Order) -> Result<Option<Arc<Committer>>, Busy> {
        let mut state = self.lock_unless_stuck()?;
        state.machine.handle_order(order);
        state.end_burst_if_held();
        Ok(self.run_steps_from(state).cloned())
    }

    fn fail_open(&self) {
        self.lock().machine.handle_signal(now(), Signal::FailOpen);
        self.run_steps_and_commit();
        // The thread that staged a step may not come to have it committed.
        if let Some(committer) = self.workers.committer() {
            committer.commit();
        }
    }

    fn follow_device(&self) {
        let mut state = self.lock();
        // Read while locked, so that of two threads the last tells what counts.
        state.machine.hold_from_above(self.workers.is_held());
        state.end_burst_if_held();
        drop(state);
        self.run_steps_and_commit();
        let state = self.lock();
        // What may be launched now is the pump's, so that this does not wait for it.
        self.finish(state);
    }

    fn close(&self) {
        self.lock().machine.resume(false);
        self.run_steps_and_commit();
        let mut state = self.lock();
        let watch = state.lifecycle.on(Event::Close) == Effect::Watch;
        self.flags.closing.store(true, Ordering::Relaxed);
        // Submitters that wait for room learn that none is given any more.
        state.waiters.make_room(u64::MAX);
        self.finish(state);
        if let Some(this) = watch.then(|| self.this.upgrade()).flatten() {
            self.workers.watch(this);
        }
    }

    fn wait_drained(&self, deadline: Deadline) -> bool {
        let submitted = self.lock().machine.submitted();
        submitted == 0 || wait_until(self, Until::Retired(CmdId(submitted - 1)), deadline).is_ok()
    }

    fn label(&self) -> &Label {
        &self.label
    }

    fn is_leaving(&self) -> bool {
        self.lock().is_over()
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let window = state.machine.window();
        Snapshot {
            report: state.machine.report(),
            threshold: window.threshold(),
            batch: window.batch(),
            anomalies: state.machine.anomalies(),
            latency: state.timing.commands,
            hold_latency: state.timing.holds,
        }
    }

    fn enqueue_wait(&self, event: EventRef, admit: &mut Admit<'_>) -> Result<Option<CmdId>, Error> {
        let mut state = self.lock();
        let next = CmdId(state.machine.submitted());
        let cmd = if state.lifecycle.is_closing() {
            Err(Error::QueueClosed)
        } else if state.machine.is_lost() {
            Err(Error::DeviceLost)
        } else if !state.has_room(None) {
            Err(Error::QueueFull)
        } else if admit(next)? {
            state.grow_if_full();
            state.machine.enqueue_wait(now(), event).map(Some).map_err(|_| Error::QueueFull)
        } else {
            Ok(None)
        };
        if let Ok(Some(cmd)) = cmd {
            state.note_submit(cmd, Some(event));
        }
        // Not launched from here, since this is the scheduler's thread: the pump does.
        self.finish(state);
        cmd
    }

    fn record(&self, buffer: Option<RecordBuffer>) {
        let old = self.lock().set_record_buffer(buffer);
        drop(old);
    }
}

impl<S: Launching, R: Retiring, P: Stepping> Awaited for SharedQueue<S, R, P> {
    fn is_outranked(&self) -> bool {
        self.scheduler.outranks_this_thread()
    }

    fn kept_by_caller(&self) -> Kept {
        if !R::RUNS_ON_THREADS {
            return Kept::FromNothing;
        }
        // A thread that takes completions has the half until they are known.
        self.retire.lock().kept_by_caller()
    }

    fn request_completion(&self, until: Until, id: Option<WaiterId>) -> Option<Outcome> {
        let mut state = self.lock();
        state.note_wait(until);
        if let Some(outcome) = state.outcome(until, id) {
            return Some(outcome);
        }
        let cmd = match until {
            Until::Ended(cmd) | Until::Retired(cmd) => Some(cmd),
            Until::Room => Some(CmdId(state.machine.retired())),
            Until::Turn(_) => state.oldest_in_flight(),
        };
        if let Some(cmd) = cmd {
            state.machine.request_completion(cmd);
            state = self.launch(state, now());
        }
        let outcome = state.outcome(until, id);
        self.finish(state);
        outcome
    }

    fn poll(&self, until: Until, id: Option<WaiterId>) -> Option<Outcome> {
        if self.take_completions(true) { self.lock().outcome(until, id) } else { None }
    }

    fn register(&self, until: Until, id: &mut Option<WaiterId>, notify: Notify) -> Option<Outcome> {
        let looks_itself = matches!(notify, Notify::Keep);
        let outcome = self.enlist(until, id, notify);
        if outcome.is_none() && !looks_itself {
            self.workers.reaper().notify();
        }
        outcome
    }

    fn stand_by(&self, until: Until, id: &mut Option<WaiterId>, waker: &Waker) -> Option<Outcome> {
        let outcome = self.enlist(until, id, Notify::Wake(waker.clone()));
        if outcome.is_none()
            && !(self.alarm.enter(waker) && (self.arm() || self.poll_delay(until).is_some()))
        {
            if self.flags.silent.load(Ordering::Relaxed) {
                // It sleeps until it is woken, so it is not the one that looks.
                self.alarm.leave(waker);
            }
            self.workers.reaper().notify();
        }
        outcome
    }

    fn poll_delay(&self, until: Until) -> Option<Duration> {
        self.forecast_delay(match until {
            Until::Ended(cmd) | Until::Retired(cmd) => Some(cmd),
            Until::Room | Until::Turn(_) => None,
        })
    }

    fn leave(&self, until: Until, id: Option<WaiterId>, waker: &Waker) {
        let mut state = self.lock();
        let removed = id.and_then(|id| state.waiters.remove(until, id));
        let others = state.machine.in_flight() > 0 || state.waiters.is_awaited();
        self.finish(state);
        drop(removed);
        // If it was woken, the alarm is spent; from now on another thread has to look.
        let was_in_front = self.alarm.leave(waker);
        if others && !was_in_front && !self.arm() {
            self.workers.reaper().notify();
        }
    }

    fn unregister(&self, until: Until, id: WaiterId) {
        let mut state = self.lock();
        let removed = state.waiters.remove(until, id);
        // Room that was meant for it is for the next one.
        self.finish(state);
        drop(removed);
    }
}

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    /// Registers a waiter, unless its outcome is there already.
    fn enlist(&self, until: Until, id: &mut Option<WaiterId>, notify: Notify) -> Option<Outcome> {
        let mut state = self.lock();
        let outcome = state.outcome(until, *id);
        let unused = if outcome.is_none() {
            let replaced = state.waiters.put(until, id, notify);
            self.note_eagerness(&mut state);
            replaced
        } else {
            Some(notify)
        };
        drop(state);
        if let (Some(call @ Notify::Call(_)), Some(outcome)) = (unused, outcome) {
            call.call(outcome);
        }
        outcome
    }

    /// Suspends the queue, or changes how deep it is suspended.
    fn hold_for_user(&self, level: Level) {
        let mut state = self.lock();
        state.machine.suspend(level);
        state.end_burst_if_held();
        drop(state);
        self.run_steps_and_commit();
    }
}

impl<S: Launching, R: Retiring, P: Stepping> Api<S::Payload> for SharedQueue<S, R, P> {
    fn id(&self) -> QueueId {
        self.id
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn submit(
        &self,
        command: S::Payload,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<CmdId, SubmitError<S::Payload>> {
        self.submit_command(command, line)
    }

    fn begin_launch(
        &self,
        command: S::Payload,
        line: Option<&mut Option<WaiterId>>,
    ) -> Result<Begun, SubmitError<S::Payload>> {
        self.begin_on_this_thread(command, line)
    }

    fn begin_launch_behind_hold(
        &self,
        command: S::Payload,
    ) -> Result<Begun, SubmitError<S::Payload>> {
        self.begin_behind_hold(command)
    }

    fn end_launch(&self, launched: bool) {
        self.end_on_this_thread(launched);
    }

    fn seal(&self) -> bool {
        self.seal_hardware_queue()
    }

    fn callbacks(&self) -> Result<Sender<Callback>, Error> {
        self.workers.callbacks()
    }

    fn cancel(&self, cmd: CmdId) -> bool {
        let mut state = self.lock();
        let cancelled = state.machine.cancel(cmd);
        if cancelled {
            let dropped = state.payload(cmd).take();
            state.deferred_drops.extend(dropped);
            state.end_waits_early(cmd, CmdId(cmd.count()));
            state = self.launch(state, now());
        }
        self.finish(state);
        cancelled
    }

    fn suspend(&self, level: Level) {
        self.hold_for_user(level);
    }

    fn suspend_if_idle(&self, level: Level) -> bool {
        let mut state = self.lock();
        if !state.is_drained() {
            return false;
        }
        state.machine.suspend(level);
        state.end_burst_if_held();
        drop(state);
        self.run_steps_and_commit();
        true
    }

    fn resume(&self, drop_pending: bool) {
        self.lock().machine.resume(drop_pending);
        self.run_steps_and_commit();
        let mut state = self.lock();
        if drop_pending {
            // What is dropped has gone when this returns.
            state = self.launch(state, now());
        }
        // Other launches are the pump's, so that the caller does not wait for them.
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
        self.run_steps_and_commit();
    }

    fn level(&self) -> Level {
        self.lock().machine.level()
    }

    fn look_quiet(&self) -> Look {
        self.look_for_quiet()
    }
}
