//! One XQueue as its threads share it.
//!
//! Three locks, one per half of the hardware queue; of two at a time, the state's is the second:
//!
//! * `state` guards the machine and the commands that wait. It is never held across a call to the
//!   device, a command's destructor or a waker.
//! * The launching half is a baton in the state: the thread that takes it out launches, alone,
//!   until nothing is left to launch, and puts it back. A thread that launches by itself, outside
//!   of the library, leaves it in `begun` meanwhile, which no other thread touches. Other threads
//!   leave their commands in the ring; so commands reach the device in order, and no thread waits
//!   behind a launch that is blocked in a driver.
//! * `retire` is only ever tried: if another thread polls already, that is as good.
//! * `steps` is taken by the thread that was handed the one outstanding step.

use std::sync::{Arc, Weak};
use std::task::Waker;

use xsched_core::fault::Fault;
use xsched_core::hal::{HalError, Submit};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Recovery};
use xsched_core::message::Order;

use super::begun::BegunLaunch;
use super::halves::{Launching, Retiring, Stepping};
use super::lifecycle::{Effect, Event, StepState};
use super::state::{MachineParams, State};
use crate::activity::Activity;
use crate::lock::{self, Lock};
use crate::panics::{caught, contain, drop_command};
use crate::scheduler::{Busy, SchedulerHandle};
use crate::stats::Label;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, bound};
use crate::workers::{ActivityWatch, Alarm, OwnPump, Workers};

/// Waiters notified with one release of the state.
const NOTIFIED_AT_ONCE: u32 = bound(8, 1);

/// An XQueue as its threads share it.
// On cache lines of its own: neighbours belong to other threads.
#[repr(align(128))]
pub(crate) struct SharedQueue<S: Submit<Payload: Sized>, R, P> {
    pub(super) this: Weak<Self>,
    pub(super) id: QueueId,
    pub(super) caps: Caps,
    pub(super) label: Label,
    state: Lock<State<S>>,
    /// Launch in the hand of the thread that launches a command of its own.
    pub(super) begun: Lock<Option<BegunLaunch<S>>>,
    pub(super) retire: Lock<R>,
    pub(super) steps: Mutex<P>,
    pub(super) scheduler: Arc<SchedulerHandle>,
    pub(super) workers: Arc<Workers>,
    /// Receives the queue's activity, if not the device's watch.
    watch: Option<ActivityWatch>,
    /// Launches all commands of the queue, in place of submitters and of the device's pump.
    pub(super) own_pump: Option<OwnPump>,
    pub(super) alarm: Arc<Alarm>,
    /// The alarm as the device wants it.
    pub(super) alarm_waker: Waker,
    pub(super) flags: Flags,
}

/// Flags that the reaper reads first: it is not to touch the state of a queue that is busy without
/// it.
// On a cache line of their own: the reaper looks all the time, and submitters write beside them.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Flags {
    /// Completions are needed as soon as they are there.
    pub(super) eager: AtomicBool,
    /// The device notifies no thread: its completions must be looked for.
    pub(super) silent: AtomicBool,
    /// The queue takes no command any more.
    pub(super) closing: AtomicBool,
}

pub(super) type Guard<'a, S> = lock::Guard<'a, State<S>>;

impl<S: Submit<Payload: Sized>, R, P> std::fmt::Debug for SharedQueue<S, R, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedQueue").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Parts of a new queue.
pub(crate) struct QueueParams<S, R, P> {
    pub(crate) id: QueueId,
    pub(crate) label: Label,
    pub(crate) machine: MachineParams,
    pub(crate) submit: S,
    pub(crate) retire: R,
    pub(crate) preempt: P,
    pub(crate) scheduler: Arc<SchedulerHandle>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) watch: Option<ActivityWatch>,
    pub(crate) own_pump: Option<OwnPump>,
}

/// Wake-ups that are due when the state is let go, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingWakeups(u8);

impl PendingWakeups {
    const NONE: Self = Self(0);
    /// The scheduler has a report to fetch.
    const REPORT: Self = Self(1);
    /// A pump has something to launch.
    const PUMP: Self = Self(1 << 1);
    /// A release that waited for the launching half can be carried out.
    const STEP: Self = Self(1 << 2);
    /// The reaper is to watch the queue.
    const WATCH: Self = Self(1 << 3);
    /// The reaper is to let the queue end.
    const DRAINED: Self = Self(1 << 4);

    const fn with_if(self, other: Self, due: bool) -> Self {
        if due { Self(self.0 | other.0) } else { self }
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    pub(crate) fn new(params: QueueParams<S, R, P>) -> Arc<Self> {
        let caps = params.machine.caps;
        let state = State::new(params.machine, params.submit);
        let alarm = Arc::new(Alarm::new(Arc::clone(params.workers.reaper())));
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            id: params.id,
            caps,
            label: params.label,
            state: Lock::new(state),
            begun: Lock::new(None),
            retire: Lock::new(params.retire),
            steps: Mutex::new(params.preempt),
            scheduler: params.scheduler,
            workers: params.workers,
            watch: params.watch,
            own_pump: params.own_pump,
            flags: Flags::default(),
            alarm_waker: Waker::from(Arc::clone(&alarm)),
            alarm,
        })
    }

    #[inline]
    pub(super) fn lock(&self) -> Guard<'_, S> {
        self.state.lock()
    }

    /// True if a thread has the state that has lost its processor.
    pub(super) fn is_stuck(&self) -> bool {
        self.state.is_stuck()
    }

    /// The state, unless a thread has it that has lost its processor.
    pub(super) fn lock_unless_stuck(&self) -> Result<Guard<'_, S>, Busy> {
        self.state.lock_unless_stuck().ok_or(Busy)
    }

    /// True if the device forgets commands in a hold, which are then launched again.
    pub(super) fn replays(&self) -> bool {
        self.caps.deactivate == Some(Recovery::Replay)
            || self.caps.interrupt == Some(Recovery::Replay)
    }

    /// Notes whether the queue needs the reaper.
    pub(super) fn note_eagerness(&self, state: &mut State<S>) {
        let eager = state.waiters.is_awaited()
            // Where steps are committed, the committer looks at once.
            || state.step.on_device() && self.workers.committer().is_none()
            || state.lifecycle.is_closing()
            || state.machine.next_launch().0 < state.machine.submitted();
        // Written only by threads that have the state.
        if eager != self.flags.eager.load(Ordering::Relaxed) {
            self.flags.eager.store(eager, Ordering::Relaxed);
        }
    }

    /// Tells what the queue does.
    pub(crate) fn note(&self, activity: Activity) {
        match &self.watch {
            Some(watch) => watch(activity),
            None => self.workers.note(activity),
        }
    }

    /// Keeps count of the queues that have something to do. True if this one just got something,
    /// and other queues have.
    pub(super) fn note_load(&self, state: &mut State<S>) -> bool {
        let busy = !state.is_drained();
        if busy == state.counted {
            return false;
        }
        state.counted = busy;
        self.note(if busy { Activity::Begun } else { Activity::Ended });
        self.scheduler.count_load(busy) > 0 && busy
    }

    /// Lets the state go and tells the other threads what they must know.
    pub(super) fn finish<'a>(&'a self, mut state: Guard<'a, S>) {
        state.end_waits();
        self.finish_launched(state);
    }

    /// Lets the state go as [`Self::finish`] does, for a caller that has only launched: nothing has
    /// retired without its waits having been ended.
    #[inline]
    pub(super) fn finish_launched<'a>(&'a self, mut state: Guard<'a, S>) {
        loop {
            if state.machine.waiting().is_some() && self.scheduler.is_gone() {
                // No order will say that the event has been reached.
                state = self.abandon_waits(state);
                state.end_waits();
            }
            state.give_turns();
            let wakeups = self.pending_wakeups(&mut state);
            if wakeups == PendingWakeups::NONE
                && !state.waiters.has_due()
                && state.deferred_drops.is_empty()
            {
                return;
            }
            let due = state.waiters.has_due();
            let ended =
                due.then(|| [(); NOTIFIED_AT_ONCE as usize].map(|()| state.waiters.take_due()));
            let more = state.waiters.has_due();
            let deferred_drops = std::mem::take(&mut state.deferred_drops);
            drop(state);
            deferred_drops.into_iter().for_each(drop_command);
            self.wake(wakeups);
            for waiter in ended.into_iter().flatten().flatten() {
                contain("a waker", || waiter.notify());
            }
            if wakeups.has(PendingWakeups::STEP) {
                self.run_steps_and_commit();
            }
            if !more {
                return;
            }
            state = self.lock();
            state.end_waits();
        }
    }

    /// Wake-ups that are due now, and are on their way from now on.
    fn pending_wakeups(&self, state: &mut State<S>) -> PendingWakeups {
        self.note_eagerness(state);
        self.note_load(state);
        let busy = state.machine.in_flight() > 0 || state.step.on_device();
        let watch = busy && state.lifecycle.on(Event::Busy) == Effect::Watch;
        let drained = state.lifecycle.is_closing()
            && state.is_drained()
            && state.lifecycle.on(Event::Drain) == Effect::Notify;
        let pump = state.backlog() && !state.pump_asked;
        state.pump_asked |= pump;
        let step = state.step == StepState::AwaitsLauncher && state.launcher.is_some();
        if step {
            state.step = StepState::None;
        }
        let report = state.keep_report();
        PendingWakeups::NONE
            .with_if(PendingWakeups::REPORT, report)
            .with_if(PendingWakeups::PUMP, pump)
            .with_if(PendingWakeups::STEP, step)
            .with_if(PendingWakeups::WATCH, watch)
            .with_if(PendingWakeups::DRAINED, drained)
    }

    /// Wakes other threads. [`PendingWakeups::STEP`] is the caller's.
    fn wake(&self, wakeups: PendingWakeups) {
        if wakeups.has(PendingWakeups::REPORT) {
            self.scheduler.notify(self.id);
        }
        if wakeups.has(PendingWakeups::DRAINED) {
            self.workers.reaper().notify();
        }
        if wakeups.has(PendingWakeups::WATCH)
            && let Some(this) = self.this.upgrade()
        {
            self.workers.watch(this);
        }
        if wakeups.has(PendingWakeups::PUMP)
            && let Some(this) = self.this.upgrade()
        {
            match &self.own_pump {
                Some(pump) => pump.ask(this),
                None => self.workers.pump(this),
            }
        }
    }

    /// Fails the waits for other queues that have come to their turn.
    #[cold]
    fn abandon_waits<'a>(&'a self, mut state: Guard<'a, S>) -> Guard<'a, S> {
        if let Some(event) = state.machine.waiting() {
            state.machine.handle_order(Order::Reached { event, ok: false });
        }
        state
    }

    /// Calls the device. A backend that panics counts as a lost device: every waiter learns of it,
    /// and the panic goes no further.
    pub(super) fn guarded<T, E: HalError>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Fault> {
        caught(call).map(|result| result.map_err(|e| e.kind())).unwrap_or_else(|_| {
            tracing::error!(queue = self.id.index(), "the device backend panicked");
            Err(Fault::DeviceLost)
        })
    }
}
