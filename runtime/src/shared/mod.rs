//! One XQueue as its threads share it.
//!
//! Three locks, one per half of the hardware queue; of two at a time, the state's is the second:
//!
//! * `state` guards the machine and the commands that wait. It is never held across a call to the
//!   device.
//! * The launching half is a baton in the state: whoever takes it out launches, alone, until
//!   nothing is left to launch, and puts it back. Others leave their commands in the ring; so
//!   commands reach the device in order, and nobody waits behind a launch that is blocked in a
//!   driver.
//! * `retire` is only ever tried: if somebody polls already, that is as good.
//! * `steps` is taken by whoever was handed the one outstanding step.

mod api;
mod state;
mod tape;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::hal::{HalError, Retire, StepDone, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::Step;
use xsched_core::level::{Caps, Recovery};
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::queue::{Action, CommandSlot, Queue, Signal};
use xsched_core::time::Instant;

pub(crate) use state::Until;
use state::{State, Waiter};

pub(crate) use api::{Api, Outcome, Snapshot};

use crate::alarm::Alarm;
use crate::clock::now;
use crate::commit::Committer;
use crate::device::Threads;
use crate::hub::{Hub, Member};
use crate::lock::{self, Lock};
use crate::nap;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, bound, mutant};

/// Launches that a submitter does for others in one call; the pump does the rest.
const FAVOURS: u32 = bound(16, 1);
/// Threads woken with one release of the state.
const WAKES: usize = bound(8, 1) as usize;

/// See the module.
// On cache lines of its own: neighbours belong to other threads.
#[repr(align(128))]
pub(crate) struct Shared<S: Submit<Payload: Sized>, R, P> {
    this: Weak<Self>,
    id: QueueId,
    caps: Caps,
    state: Lock<State<S>>,
    retire: Lock<R>,
    steps: Mutex<P>,
    hub: Arc<Hub>,
    threads: Arc<Threads>,
    alarm: Arc<Alarm>,
    /// The same, as the device wants it.
    alarm_waker: Waker,
    /// [`State::eager`] for the reaper, which is not to touch the state of a queue that is busy
    /// without it.
    eager: AtomicBool,
    /// The device wakes nobody: its completions must be looked for.
    silent: AtomicBool,
}

type Guard<'a, S> = lock::Guard<'a, State<S>>;

impl<S: Submit<Payload: Sized>, R, P> std::fmt::Debug for Shared<S, R, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a new queue is made of.
pub(crate) struct Parts<S, R, P> {
    pub(crate) id: QueueId,
    pub(crate) caps: Caps,
    pub(crate) machine: Queue<Box<[CommandSlot]>>,
    pub(crate) submit: S,
    pub(crate) retire: R,
    pub(crate) preempt: P,
    pub(crate) hub: Arc<Hub>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) capacity: usize,
}

impl<S, R, P> Shared<S, R, P>
where
    S: Submit<Payload: Sized + Send> + Send + 'static,
    R: Retire + Send + 'static,
    P: Steps + Send + 'static,
{
    pub(crate) fn new(parts: Parts<S, R, P>) -> Arc<Self> {
        let state = State {
            machine: parts.machine,
            payloads: (0..parts.capacity).map(|_| None).collect(),
            launcher: Some(Box::new(parts.submit)),
            waiters: Vec::with_capacity(WAKES),
            trash: Vec::new(),
            report: None,
            later: None,
            eager: false,
            submitted_before: 0,
            step_due: false,
            tape: None,
            time: now(),
            watched: false,
            counted: false,
            pump_due: false,
            closing: false,
            over: false,
            detached: false,
        };
        let alarm = Arc::new(Alarm::new(Arc::clone(parts.threads.reaper())));
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            id: parts.id,
            caps: parts.caps,
            state: Lock::new(state),
            retire: Lock::new(parts.retire),
            steps: Mutex::new(parts.preempt),
            hub: parts.hub,
            threads: parts.threads,
            eager: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            alarm_waker: Waker::from(Arc::clone(&alarm)),
            alarm,
        })
    }

    fn lock(&self) -> Guard<'_, S> {
        self.state.lock()
    }

    fn replays(&self) -> bool {
        self.caps.deactivate == Some(Recovery::Replay)
            || self.caps.interrupt == Some(Recovery::Replay)
    }

    /// Notes whether somebody needs the reaper.
    fn note_eagerness(&self, state: &mut State<S>) {
        let eager = !state.waiters.is_empty()
            // Where steps are committed, whoever does that looks at once.
            || state.later.is_some() && self.threads.committer().is_none()
            || state.closing
            || state.machine.next_launch().0 < state.machine.submitted();
        if eager != state.eager {
            state.eager = eager;
            self.eager.store(eager, Ordering::Relaxed);
        }
    }

    /// Lets the state go and tells everybody what they must know.
    fn finish<'a>(&'a self, mut state: Guard<'a, S>) {
        loop {
            if state.machine.waiting().is_some() && self.hub.is_gone() {
                // Nobody will say that the event has been reached.
                state = self.abandon_waits(state);
            }
            self.note_eagerness(&mut state);
            self.note_load(&mut state);
            let ring = state.take_note();
            let busy = state.machine.in_flight() > 0 || state.later.is_some() || state.closing;
            let watch = busy && !state.watched;
            state.watched |= watch;
            let pump = state.backlog() && !state.pump_due;
            state.pump_due |= pump;
            // The last commands may have retired without the device, so that no alarm rings.
            let over = state.closing
                && !state.over
                && state.machine.retired() == state.machine.submitted();
            state.over |= over;
            let step = state.step_due && state.launcher.is_some();
            state.step_due &= !step;
            let news = ring || watch || pump || over || step;
            if !news && state.waiters.is_empty() && state.trash.is_empty() {
                return;
            }
            let mut wakes: [Option<Waker>; WAKES] = [const { None }; WAKES];
            let more = state.ripe_waiters(&mut wakes);
            let trash = std::mem::take(&mut state.trash);
            drop(state);
            drop(trash);
            if ring {
                self.hub.ring(self.id);
            }
            if over && !mutant("over without hurry") {
                self.threads.reaper().hurry();
            }
            if let Some(this) = (watch || pump).then(|| self.this.upgrade()).flatten() {
                if watch {
                    self.threads.watch(Arc::clone(&this) as Arc<dyn Member>);
                }
                if pump {
                    self.threads.pump(this);
                }
            }
            wakes.into_iter().flatten().for_each(Waker::wake);
            if step {
                self.run_steps_and_commit();
            }
            if !more {
                return;
            }
            state = self.lock();
        }
    }

    /// Keeps count of the queues that have something to do. True if this one just got something,
    /// and others have.
    fn note_load(&self, state: &mut State<S>) -> bool {
        let busy = state.machine.submitted() > state.machine.retired();
        if busy == state.counted {
            return false;
        }
        state.counted = busy;
        self.hub.count_load(busy) > 0 && busy
    }

    /// Has the scheduler make room before the first command of an idle queue is launched: it may
    /// have to hold others, and what they start meanwhile is in the way.
    fn submit_first(
        &self,
        mut state: Guard<'_, S>,
        cmd: CmdId,
        command: S::Payload,
        report: Report,
    ) -> CmdId {
        *state.payload(cmd) = Some(command);
        let ring = state.report.replace(report).is_none();
        drop(state);
        if ring {
            self.hub.ring(self.id);
        }
        let state = self.lock();
        let time = state.time;
        let state = self.launch(state, time);
        self.finish(state);
        cmd
    }

    /// Fails the waits for other queues that have come to their turn.
    #[cold]
    fn abandon_waits<'a>(&'a self, mut state: Guard<'a, S>) -> Guard<'a, S> {
        if let Some(event) = state.machine.waiting() {
            state.machine.handle_order(Order::Reached { event, ok: false });
        }
        state
    }

    /// Launches what may be launched, unless somebody else does.
    fn launch<'a>(&'a self, mut state: Guard<'a, S>, mut time: Instant) -> Guard<'a, S> {
        let Some(mut launcher) = state.launcher.take() else { return state };
        for _ in 0..FAVOURS {
            let from = state.machine.next_launch();
            let action = state.machine.poll_launch(time);
            let (passed, payload) = match action {
                Some(Action::Launch { cmd, .. }) => (cmd, state.payload(cmd).take()),
                _ => (state.machine.next_launch(), None),
            };
            state.discard(from, passed);
            let Some(action) = action else { break };
            state = self.perform(state, &mut launcher, action, payload);
            time = now();
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

    /// Calls the device. A backend that panics counts as a lost device: everybody who waits learns
    /// of it, and the panic goes no further.
    fn guarded<T, E: HalError>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, Fault> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => result.map_err(|e| e.kind()),
            Err(_) => {
                tracing::error!(queue = self.id.index(), "the device backend panicked");
                Err(Fault::DeviceLost)
            }
        }
    }

    /// Carries out a launch or a fence, without the state meanwhile.
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
                let payload = payload.filter(|_| self.replays());
                let mut state = self.lock();
                if cmd.count() > state.machine.retired() {
                    if payload.is_some() {
                        *state.payload(cmd) = payload;
                    }
                } else {
                    // It has retired meanwhile, and its place may be another's.
                    state.trash.extend(payload);
                }
                if let Err(fault) = launched {
                    state.machine.handle_signal(now(), Signal::LaunchFailed { cmd, fault });
                    state.lose_if_sticky(fault);
                }
                state
            }
            Action::Fence { upto } => {
                let fenced = self.guarded(|| launcher.fence(upto));
                let mut state = self.lock();
                if let Err(fault) = fenced {
                    state.machine.handle_signal(now(), Signal::FenceFailed);
                    state.lose_if_sticky(fault);
                }
                state
            }
            Action::Step { .. } => self.lock(),
        }
    }

    /// Carries out the steps that are due, also if that takes a commit.
    fn run_steps_and_commit(&self) {
        if let Some(committer) = self.run_steps()
            && !mutant("staged and forgotten")
        {
            committer.commit();
        }
    }

    /// Carries out the steps that are due. If one was staged, somebody has to have that committed.
    fn run_steps(&self) -> Option<&Arc<Committer>> {
        loop {
            let mut state = self.lock();
            if self.replays()
                && state.launcher.is_none()
                && state.machine.hold_state() == HoldState::Resuming
            {
                // A launch is on its way that the device must still forget, or it would run before
                // those that are launched again.
                state.step_due = true;
                self.finish(state);
                return None;
            }
            let Some(Action::Step { step, seq }) = state.machine.poll_step() else {
                self.finish(state);
                return None;
            };
            if mutant("steps are answered before they are carried out") {
                let result = Ok(None);
                state.machine.handle_signal(now(), Signal::Stepped { seq, result });
            }
            drop(state);
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            let done = self.guarded(|| steps.step(step));
            drop(steps);
            let mut state = self.lock();
            let result = match done {
                Ok(StepDone::Now(first)) => Ok(first),
                Ok(StepDone::Later) => {
                    state.later = Some(seq);
                    self.finish(state);
                    return self.staged();
                }
                Err(fault) => Err(fault),
            };
            state.machine.handle_signal(now(), Signal::Stepped { seq, result });
            drop(state);
            if step == Step::Reactivate && self.silent.load(Ordering::Relaxed) {
                // Whoever naps thinks that there is nothing to see as long as the queue is held.
                self.alarm_waker.wake_by_ref();
            }
        }
    }

    /// A step has been answered with "later".
    fn staged(&self) -> Option<&Arc<Committer>> {
        let committer = self.threads.committer();
        match (committer, self.this.upgrade()) {
            (Some(committer), Some(this)) => committer.stage(this),
            // It may rest until the next completion, and none may come before this ends.
            _ => self.threads.reaper().hurry(),
        }
        committer
    }

    /// Takes completions if nobody else is about it. A caller that may launch does so.
    fn take_completions(&self, may_launch: bool) -> bool {
        // Whoever submits is kept from more by the full window, so it pays to wait a moment: a
        // command that is left behind costs a wake-up of the pump.
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

    /// Has the waker woken when it is so; the outcome if it is there already.
    fn enlist(&self, until: Until, waker: &Waker) -> Option<Outcome> {
        let mut state = self.lock();
        let outcome = state.outcome(until).filter(|_| !mutant("enlist without a look"));
        if outcome.is_none()
            && !state.waiters.iter().any(|w| w.until == until && w.waker.will_wake(waker))
        {
            state.waiters.push(Waiter { until, waker: waker.clone() });
            self.note_eagerness(&mut state);
        }
        outcome
    }

    /// Has the alarm rung at the next completion. False if the device cannot, or if somebody looks
    /// for completions just now.
    fn arm(&self) -> bool {
        let Some(mut retire) = self.retire.try_lock() else { return false };
        let armed = self.guarded(|| Ok::<_, Fault>(retire.wake_on_retire(&self.alarm_waker)));
        if armed == Ok(false) {
            self.silent.store(true, Ordering::Relaxed);
        }
        armed.unwrap_or(false)
    }

    /// How long the reaper may leave a queue alone whose device wakes nobody. `nap` if there is no
    /// forecast.
    fn nap_of_the_reaper(&self, nap: Duration, last: Option<CmdId>) -> Duration {
        // A thread in front looks itself, and when it must.
        if self.alarm.has_front() && self.silent.load(Ordering::Relaxed) {
            // Unless it cannot say when: then it sleeps.
            let knows = self.doze(last).is_some();
            return nap.max(if knows { api::IN_FRONT } else { api::UNATTENDED });
        }
        self.doze(last).map_or(nap, |doze| doze.clamp(nap::SHORTEST, api::UNATTENDED))
    }

    /// Where the device wakes nobody: how long somebody may sleep who wants to see the end of
    /// `wanted`, and who will not let the device run dry while commands wait to be launched. `None`
    /// if the device wakes, or cannot say when there will be something to see.
    fn doze(&self, wanted: Option<CmdId>) -> Option<Duration> {
        if !self.silent.load(Ordering::Relaxed) {
            return None;
        }
        // Somebody else looks just now, and has a better idea soon.
        let Some(mut retire) = self.retire.try_lock() else { return Some(Duration::ZERO) };
        let state = self.lock();
        let (launched, submitted) = (state.machine.next_launch().0, state.machine.submitted());
        drop(state);
        let mut forecast = |cmd| self.guarded(|| Ok::<_, Fault>(retire.forecast(cmd))).ok()?;
        let end = wanted.filter(|cmd| cmd.0 < launched).and_then(&mut forecast);
        let end = end.map(|end| nap::until(end.left, end.overdue, &nap::LATENESS));
        let refills = launched < submitted || wanted.is_none();
        let last = launched.checked_sub(1).filter(|_| refills).map(CmdId);
        // Half of it is left to work on when the sleeper comes back.
        let dry = last.and_then(&mut forecast);
        let refill = dry.map(|dry| nap::before_dry(dry.left, dry.overdue, &nap::LATENESS));
        match (end, refill) {
            (Some(end), Some(refill)) => Some(end.min(refill)),
            (end, refill) => end.or(refill),
        }
    }

    /// The end of a step that took its time. `failed` if it will not come by itself.
    fn finish_later_step(&self, failed: Option<Fault>) -> bool {
        let Some(seq) = self.lock().later else { return false };
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.guarded(|| steps.poll_step());
        drop(steps);
        let result = match (done, failed) {
            (Ok(Some(StepDone::Now(first))), _) => Ok(first),
            (Ok(None | Some(StepDone::Later)), None) => return false,
            (Ok(None | Some(StepDone::Later)), Some(fault)) | (Err(fault), _) => Err(fault),
        };
        let mut state = self.lock();
        if state.later.take() != Some(seq) {
            return false;
        }
        state.machine.handle_signal(now(), Signal::Stepped { seq, result });
        drop(state);
        self.run_steps_and_commit();
        true
    }
}
