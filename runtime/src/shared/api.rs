//! What the runtime's threads and the handles do with a queue, whatever its device.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::hal::{Retire, Steps, Submit};
use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::message::{Order, Report};
use xsched_core::queue::Signal;
use xsched_core::window::WindowConfig;

use super::{Shared, Until};
use crate::clock::now;
use crate::commit::Committer;
use crate::device::Callback;
use crate::error::{Error, SubmitError, WaitError};
use crate::hub::{Admit, Member};
use crate::recorder::Tape;
use crate::sync::atomic::Ordering;
use crate::sync::mpsc::Sender;
use crate::sync::mutant;

/// How long the reaper leaves a queue alone that is submitted to and that nobody waits for. After
/// the last submit, the scheduler learns so late that the queue is idle.
const ATTENDED: Duration = Duration::from_micros(100);
/// The reaper's longest nap where the device wakes nobody.
pub(super) const UNATTENDED: Duration = Duration::from_micros(500);
/// The same while a thread is in front. It leaves without a word, since it mostly comes back at
/// once; if it does not, the scheduler learns so late that the queue is idle.
pub(super) const IN_FRONT: Duration = Duration::from_millis(1);

impl<S, R, P> Member for Shared<S, R, P>
where
    S: Submit<Payload: Sized + Send> + Send + 'static,
    R: Retire + Send + 'static,
    P: Steps + Send + 'static,
{
    fn take_report(&self) -> Option<Report> {
        if mutant("a report is fetched in two steps") {
            let report = self.lock().report;
            self.lock().report = None;
            return report;
        }
        self.lock().report.take()
    }

    fn deliver(&self, order: Order) -> Option<Arc<Committer>> {
        self.lock().machine.handle_order(order);
        self.run_steps().cloned()
    }

    fn committed(&self, fault: Option<Fault>) {
        if !self.finish_later_step(fault) {
            // The device goes on with it by itself.
            self.threads.reaper().hurry();
        }
    }

    fn fail_open(&self) {
        self.lock().machine.handle_signal(now(), Signal::FailOpen);
        self.run_steps_and_commit();
        // Whoever staged a step may not come to have it committed.
        if let Some(committer) = self.threads.committer()
            && !mutant("staged by one who has ended")
        {
            committer.commit();
        }
    }

    fn is_eager(&self) -> bool {
        // A device that wakes nobody is looked at when there is something to see.
        self.eager.load(Ordering::Relaxed) && !self.silent.load(Ordering::Relaxed)
    }

    fn reap(&self) -> bool {
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

    fn rest(&self, nap: Duration, tired: bool) -> Option<Duration> {
        let mut state = self.lock();
        let pending = state.machine.submitted() > state.machine.retired();
        let needed =
            state.machine.in_flight() > 0 || state.later.is_some() || (state.closing && pending);
        if !needed && (tired || state.closing) {
            if mutant("let go of late") {
                drop(state);
                state = self.lock();
            }
            state.watched = false;
            if state.closing && !state.detached && !mutant("closed and forgotten") {
                state.detached = true;
                drop(state);
                self.hub.detach(self.id);
            }
            return None;
        }
        let submitted = state.machine.submitted();
        let attended = std::mem::replace(&mut state.submitted_before, submitted) < submitted;
        if attended && !state.eager && !self.silent.load(Ordering::Relaxed) {
            // Whoever submits looks when the window is full. Waking the reaper for each completion
            // meanwhile would only be in the way.
            return Some(nap.max(ATTENDED));
        }
        drop(state);
        // Armed first: what follows sees everything that came before.
        let armed = mutant("rest without arming") || self.arm();
        let state = self.lock();
        if state.later.is_some() {
            return Some(nap);
        }
        if !armed {
            let last = state.machine.next_launch().0.checked_sub(1).map(CmdId);
            drop(state);
            return Some(self.nap_of_the_reaper(nap, last));
        }
        let due = state.machine.poll_timeout();
        Some(
            due.map_or(Duration::MAX, |due| {
                Duration::from_nanos(due.since(now()).as_ns()).max(nap)
            }),
        )
    }

    fn pump(&self) {
        let mut state = self.lock();
        state.pump_due = mutant("the pump stays asked");
        state = self.launch(state, now());
        self.finish(state);
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let window = state.machine.window();
        Snapshot {
            report: state.machine.report(),
            threshold: window.threshold(),
            batch: window.batch(),
            anomalies: state.machine.anomalies(),
        }
    }

    fn submit_wait(&self, event: EventRef, admit: &mut Admit<'_>) -> Result<Option<CmdId>, Error> {
        let mut state = self.lock();
        let next = CmdId(state.machine.submitted());
        let cmd = if state.machine.is_lost() {
            Err(Error::DeviceLost)
        } else if state.machine.is_full() {
            Err(Error::QueueFull)
        } else if admit(next)? {
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

    fn record(&self, tape: Option<Tape>) {
        let old = self.lock().set_tape(tape);
        drop(old);
    }
}

/// How a wait ends.
pub(crate) type Outcome = Result<(), WaitError>;

/// What a handle does with its queue, whatever the device.
pub(crate) trait Api<C>: Member {
    fn id(&self) -> QueueId;
    fn caps(&self) -> Caps;
    fn submit(&self, command: C) -> Result<CmdId, SubmitError<C>>;
    /// Makes sure that it will be seen; the outcome if it is there already.
    fn want(&self, until: Until) -> Option<Outcome>;
    /// Looks for completions; the outcome if it is there now.
    fn poll(&self, until: Until) -> Option<Outcome>;
    /// Has the waker woken when it is so; the outcome if it is there already.
    fn register(&self, until: Until, waker: &Waker) -> Option<Outcome>;
    /// The same for a thread that looks for completions when it is woken, and that leaves before it
    /// goes.
    fn stand_by(&self, until: Until, waker: &Waker) -> Option<Outcome>;
    /// How long a thread that stands by may sleep before it looks again. `None` if it is woken.
    fn nap(&self, until: Until) -> Option<Duration>;
    fn leave(&self, until: Until, waker: &Waker);
    /// The outcome if it is there already. Does not look for completions.
    fn outcome(&self, until: Until) -> Option<Outcome>;
    fn callbacks(&self) -> Result<Sender<Callback>, Error>;
    fn cancel(&self, cmd: CmdId) -> bool;
    fn hold(&self, level: Level);
    /// The same, but only if nothing is submitted that has not retired; says whether it was so.
    fn hold_if_idle(&self, level: Level) -> bool;
    fn resume(&self, drop_pending: bool);
    fn set_window(&self, window: WindowConfig);
    fn set_level(&self, level: Level);
    fn level(&self) -> Level;
    fn close(&self);
}

/// What [`crate::XQueue::stats`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) threshold: u32,
    pub(crate) batch: u32,
    pub(crate) anomalies: xsched_core::queue::Anomalies,
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
        state.note_submit(cmd, None);
        if self.note_load(&mut state)
            && let Some(report) = state.machine.poll_report()
        {
            return Ok(self.submit_first(state, cmd, command, report));
        }
        // The usual case: this command is the next, so it goes straight to the device.
        if state.window_is_open()
            && (state.machine.next_launch() == cmd || mutant("out of turn"))
            && let Some(mut launcher) = state.launcher.take()
        {
            state = self.launch_new(state, &mut launcher, cmd, command, now);
            state.launcher = Some(launcher);
            if state.machine.next_launch().0 < state.machine.submitted()
                && !mutant("no second look")
            {
                state = self.launch(state, now);
            }
            self.finish(state);
            return Ok(cmd);
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

    fn want(&self, until: Until) -> Option<Outcome> {
        let mut state = self.lock();
        state.note_wait(until);
        if let Some(outcome) = state.outcome(until) {
            return Some(outcome);
        }
        let cmd = match until {
            Until::Ended(cmd) | Until::Retired(cmd) => cmd,
            Until::Room => CmdId(state.machine.retired()),
        };
        state.machine.request_completion(cmd);
        state = self.launch(state, now());
        let outcome = state.outcome(until);
        self.finish(state);
        outcome
    }

    fn poll(&self, until: Until) -> Option<Outcome> {
        if self.take_completions(true) { self.lock().outcome(until) } else { None }
    }

    fn register(&self, until: Until, waker: &Waker) -> Option<Outcome> {
        let outcome = self.enlist(until, waker);
        if outcome.is_none() {
            self.threads.reaper().hurry();
        }
        outcome
    }

    fn stand_by(&self, until: Until, waker: &Waker) -> Option<Outcome> {
        let outcome = self.enlist(until, waker);
        if outcome.is_none()
            && !(self.alarm.enter(waker)
                && (mutant("stand by without arming") || self.arm() || self.nap(until).is_some()))
        {
            self.threads.reaper().hurry();
        }
        outcome
    }

    fn nap(&self, until: Until) -> Option<Duration> {
        self.doze(match until {
            Until::Ended(cmd) | Until::Retired(cmd) => Some(cmd),
            Until::Room => None,
        })
    }

    fn leave(&self, until: Until, waker: &Waker) {
        let mut state = self.lock();
        state.waiters.retain(|w| w.until != until || !w.waker.will_wake(waker));
        let others = state.machine.in_flight() > 0 || !state.waiters.is_empty();
        drop(state);
        // If it was woken, the alarm is spent; from now on it is somebody else's task to look.
        let was_in_front = self.alarm.leave(waker);
        let see_to_it = others && !was_in_front && !mutant("leave without a word");
        if see_to_it && !self.arm() {
            self.threads.reaper().hurry();
        }
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

    fn outcome(&self, until: Until) -> Option<Outcome> {
        self.lock().outcome(until)
    }

    fn callbacks(&self) -> Result<Sender<Callback>, Error> {
        self.threads.callbacks()
    }

    fn hold(&self, level: Level) {
        self.lock().machine.suspend(level);
        self.run_steps_and_commit();
    }

    fn hold_if_idle(&self, level: Level) -> bool {
        let mut state = self.lock();
        if state.machine.submitted() > state.machine.retired() {
            return false;
        }
        state.machine.suspend(level);
        drop(state);
        self.run_steps_and_commit();
        true
    }

    fn resume(&self, drop_pending: bool) {
        self.lock().machine.resume(drop_pending);
        self.run_steps_and_commit();
        if mutant("nobody launches after a hold") {
            return;
        }
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
        self.run_steps_and_commit();
    }

    fn level(&self) -> Level {
        self.lock().machine.level()
    }

    fn close(&self) {
        self.lock().machine.resume(false);
        self.run_steps_and_commit();
        let mut state = self.lock();
        state.closing = true;
        self.finish(state);
    }
}
