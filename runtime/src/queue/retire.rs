//! Taking completions, and how long that can wait.

use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::id::CmdId;
use xsched_core::queue::{Retired, Signal};

use super::halves::{Launching, Retiring, Stepping};
use super::lifecycle::Event;
use super::shared::{Guard, SharedQueue};
use crate::activity::Activity;
use crate::backoff::{SLEEP_MAX, SLEEP_MIN};
use crate::clock::now;
use crate::completion::poll_delay::{self, LATENESS};
use crate::sync::atomic::Ordering;

/// Delay of the reaper for a queue that is submitted to and that has no waiter. The scheduler
/// learns with this delay that the queue is idle. A look takes about 5 µs, and with this delay a
/// twentieth of a processor.
const ATTENDED_DELAY: Duration = Duration::from_micros(100);
/// Delay where no scheduler has a use for that: as often a scheduler of the node looks at processes
/// that do not wake it.
const UNATTENDED_DELAY: Duration = Duration::from_millis(2);

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
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
        if let Some(launcher) = state.launcher.take() {
            state.note_room(&launcher);
            state.launcher = Some(launcher);
        }
        state.note_retired(before, signal);
        let retired = state.machine.retired();
        if let Signal::Retired(Retired { busy, .. }) = signal {
            self.note(Activity::Retired { commands: retired - before, busy });
        }
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
        }
        // The end of a burst has no fence, and perhaps no thread that waits for it: without one,
        // what it holds up waits for the timeout.
        if due || state.machine.lacks_fence() && !state.is_in_burst() {
            state = self.put_fence(state);
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
            self.flags.silent.store(true, Ordering::Relaxed);
        }
        armed.unwrap_or(false)
    }

    /// See [`crate::workers::DeviceQueue::leave`].
    pub(super) fn leave_if_over(&self) -> bool {
        // What is missed here is seen when the reaper rests.
        self.flags.closing.load(Ordering::Relaxed) && self.leave_with(self.lock()).is_none()
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
    pub(super) fn rest_for(&self, delay: Duration) -> Option<Duration> {
        let mut state = self.leave_with(self.lock())?;
        let needed = state.machine.in_flight() > 0
            || state.step.on_device()
            || state.lifecycle.is_closing()
            || state.backlog();
        let submitted = state.machine.submitted();
        let attended = std::mem::replace(&mut state.submitted_before, submitted) < submitted;
        if !needed && !attended {
            state.lifecycle.on(Event::Evict);
            return None;
        }
        // The submitter looks when the window is full. A reaper that looks at each completion
        // meanwhile would only be in the way.
        let is_awaited = self.flags.eager.load(Ordering::Relaxed);
        if state.machine.is_unattended()
            && let Some(launcher) = state.launcher.take()
        {
            self.note_attendance(&mut state, &launcher);
            state.launcher = Some(launcher);
        }
        if state.machine.is_unattended() && !is_awaited {
            return Some(delay.max(UNATTENDED_DELAY));
        }
        let attended = attended && !is_awaited;
        if attended && !self.flags.silent.load(Ordering::Relaxed) {
            return Some(delay.max(ATTENDED_DELAY));
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
            let delay = self.reaper_delay(delay, last);
            return Some(if attended { delay.max(ATTENDED_DELAY) } else { delay });
        }
        let due = state.machine.poll_timeout();
        Some(due.map_or(Duration::MAX, |due| Duration::from(due.since(now())).max(delay)))
    }

    /// How long the reaper may leave a queue alone whose device does not notify. `delay` if there
    /// is no forecast.
    fn reaper_delay(&self, delay: Duration, last: Option<CmdId>) -> Duration {
        match self.forecast_delay(last) {
            None => delay,
            // A thread in front looks itself, and when it must.
            Some(_) if self.alarm.has_front() => SLEEP_MAX,
            Some(forecast) => forecast.clamp(SLEEP_MIN, SLEEP_MAX),
        }
    }

    /// Where the device does not notify: how long a thread may sleep that must see the end of
    /// `wanted`, and that will not let the device run dry while commands wait to be launched.
    /// `None` if the device notifies, or cannot say when there will be something to see.
    pub(super) fn forecast_delay(&self, wanted: Option<CmdId>) -> Option<Duration> {
        if !self.flags.silent.load(Ordering::Relaxed) {
            return None;
        }
        // Another thread looks just now, and knows better soon.
        let Some(mut retire) = self.retire.try_lock() else { return Some(Duration::ZERO) };
        let state = self.lock();
        let (launched, submitted) = (state.machine.next_launch().0, state.machine.submitted());
        let is_launching = state.machine.can_launch().is_ok();
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
            // Another thread is about to launch, and then there is something to see.
            (None, None) if is_launching => Some(Duration::ZERO),
            (end, refill) => end.or(refill),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use xsched_core::hal::{Backend, LevelAdapter, Noop, NoopHalf, NoopQueue};
    use xsched_core::id::QueueId;
    use xsched_core::level::Level;
    use xsched_core::message::{HoldState, Order};
    use xsched_core::queue::QueueConfig;

    use super::*;
    use crate::completion::{Awaited, Until};
    use crate::queue::{Api, MachineParams, QueueParams};
    use crate::scheduler::{Busy, Mail, ScheduledQueue, SchedulerHandle};
    use crate::stats::Label;
    use crate::sync::mpsc;
    use crate::workers::{DeviceQueue, Workers};

    /// Wakes no thread.
    struct Sleeps;

    impl std::task::Wake for Sleeps {
        fn wake(self: Arc<Self>) {}
    }

    type Half = NoopHalf<'static, u64>;

    const ID: QueueId = QueueId::new(0, 1);

    /// A queue without threads, on a device that never notifies.
    fn queue() -> Arc<SharedQueue<Half, Half, LevelAdapter<Half>>> {
        static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
        let halves = Noop::<u64>::new(&HARDWARE).open(ID, ()).unwrap();
        SharedQueue::new(QueueParams {
            id: ID,
            machine: MachineParams {
                config: QueueConfig::default(),
                caps: halves.caps,
                capacity: 4,
            },
            submit: halves.submit,
            retire: halves.retire,
            preempt: halves.preempt,
            scheduler: Arc::new(SchedulerHandle::new(Duration::from_secs(1), mpsc::channel().0)),
            workers: Arc::new(Workers::new(false)),
            watch: None,
            own_pump: None,
            label: Label { name: None, device: Arc::from("noop") },
        })
    }

    #[test]
    fn a_thread_that_cannot_be_told_when_to_look_leaves_it_to_the_reaper() {
        let queue = queue();
        queue.suspend(Level::Block);
        let cmd = queue.submit(7, None).unwrap();
        // That of `Waker::noop` may have several tables, and then is another one each time.
        let (mut id, waker) = (None, Waker::from(Arc::new(Sleeps)));
        for _ in 0..2 {
            assert!(queue.stand_by(Until::Ended(cmd), &mut id, &waker).is_none());
            assert!(!queue.alarm.has_front());
        }
        let soon = Duration::from_micros(20);
        assert_eq!(queue.reaper_delay(soon, Some(cmd)), soon);
    }

    #[test]
    fn the_end_of_a_burst_is_seen_without_a_wait_for_it() {
        let queue = queue();
        (0..3).for_each(|n| assert_eq!(queue.submit(n, None).unwrap().0, n));
        assert_eq!(queue.lock().machine.retired(), 0);
        assert!(queue.reap() && queue.reap() && !queue.reap());
        assert_eq!(queue.lock().machine.retired(), 3);
    }

    #[test]
    fn no_thread_of_the_runtime_waits_for_one_that_has_the_state_and_no_processor() {
        let (queue, mut mail) = (queue(), Mail::default());
        queue.scheduler.register(ID, Arc::clone(&queue) as _);
        let state = queue.lock();
        assert_eq!(queue.take_report().map(|_| ()), Err(Busy));
        assert!(!queue.reap());
        assert_eq!(queue.rest(Duration::ZERO), Some(Duration::ZERO));
        let hold = Order::Hold { epoch: 1, level: Level::Block };
        for order in [hold, Order::Run { epoch: 2 }, Order::Watch { upto: 9 }] {
            queue.scheduler.deliver_or_keep(&mut mail, ID, order);
        }
        queue.scheduler.deliver_late(&mut mail);
        assert_eq!(state.machine.report().epoch, 0);
        drop(state);
        queue.scheduler.deliver_late(&mut mail);
        let report = queue.lock().machine.report();
        assert_eq!((report.epoch, report.hold), (2, HoldState::Running));
        assert_eq!(queue.lock().machine.anomalies().stale_orders, 0, "only the newest came");
    }
}
