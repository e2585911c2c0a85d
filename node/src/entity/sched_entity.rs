//! A process on a GPU.

use xsched_core::level::Level;
use xsched_core::message::{Claim, HoldState, Order, Report};
use xsched_core::time::{Duration, Instant};

use super::device_time::{DeviceTime, RunInterval, SelfReport};
use super::holds::{GangState, HoldCause, HoldCauses};
use super::host_bound::{HostBoundDetector, Step, Trial};
use super::idle::IdleGrace;
use super::probe::HoldProbe;
use super::state::{EntityState, Event, GateWrite};

/// Time between two looks at a process that does not wake its scheduler, where the scheduler has
/// something to decide: a time slice of an NVIDIA GPU.
pub const POLL_INTERVAL: Duration = Duration::from_ms(2);

/// A process that is watched is looked at as often as one that does not wake its scheduler, for as
/// long as it takes to pass it over and a little longer: whether it goes on at once matters then.
const WATCHED_CLOSELY: Duration = Duration::from_ms(200);
/// Later it is looked at when it has been watched for an eighth longer, and after this time at the
/// latest.
const WATCH_INTERVAL_MAX: Duration = Duration::from_ms(50);

/// A process on a GPU, which its scheduler knows as one queue.
#[derive(Clone, Copy, Debug)]
pub struct SchedEntity {
    state: EntityState,
    causes: HoldCauses,
    gang: Option<GangState>,
    /// The device runs this process and others at the same time, and does not change between them.
    is_concurrent: bool,
    report: Report,
    time: DeviceTime,
    grace: IdleGrace,
    host: HostBoundDetector,
    /// Device time after which the scheduler wants a report.
    report_every: Duration,
    /// When [`SchedEntity::account`] was called last, and what the process said then.
    accounted: Instant,
    said: SelfReport,
    /// Since when the scheduler wants to hear that a command of the process has ended.
    watched: Option<Instant>,
    slice: SliceStart,
    /// The last hold.
    probe: HoldProbe,
}

/// Device time of a process when it was released last, by what it is charged and what it says.
#[derive(Clone, Copy, Debug, Default)]
struct SliceStart {
    used_ns: u64,
    said_ns: u64,
}

/// Findings of [`SchedEntity::account`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// The scheduler wants a report now.
    pub is_report_due: bool,
    /// The pause is no longer short, so [`SchedEntity::refresh`] is due.
    pub is_grace_over: bool,
    /// Time for which the process had the device while it was held, since the last call: its
    /// commands went on that ran when it was held. Those that run meanwhile did not have it then:
    /// see [`SchedEntity::charge_overrun`].
    pub overrun: Duration,
}

impl SchedEntity {
    /// A process that has no work and is not held. It says that it has used `before_ns` nanoseconds
    /// of device time before.
    #[must_use]
    pub fn new(before_ns: u64, now: Instant) -> Self {
        Self {
            state: EntityState::Idle,
            causes: HoldCauses::default(),
            gang: None,
            is_concurrent: false,
            report: Report::default(),
            time: DeviceTime::new(before_ns, now),
            grace: IdleGrace::new(now),
            host: HostBoundDetector::default(),
            report_every: Duration::MAX,
            accounted: now,
            said: SelfReport::default(),
            watched: None,
            slice: SliceStart::default(),
            probe: HoldProbe::default(),
        }
    }

    /// Says that the device runs this process and others at the same time.
    pub const fn run_concurrently(&mut self) {
        self.is_concurrent = true;
    }

    /// Says that the device runs one process at a time, as it is taken to at first.
    pub const fn run_in_turns(&mut self) {
        self.is_concurrent = false;
    }

    /// Returns whether the device runs this process and others at the same time.
    #[must_use]
    pub const fn is_concurrent(&self) -> bool {
        self.is_concurrent
    }

    /// Has lower priorities be tried like this beside the process.
    pub const fn set_trial(&mut self, trial: Trial) {
        self.host.set_trial(trial);
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> EntityState {
        self.state
    }

    /// Returns whether the process has work, or is in a short pause.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.state.is_ready()
    }

    /// Returns whether the process is to be held.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.state.is_held()
    }

    /// Returns whether the process is ready and may run.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.is_ready() && !self.is_held()
    }

    /// Returns whether this cause holds the process.
    #[must_use]
    pub const fn is_held_by(&self, cause: HoldCause) -> bool {
        self.causes.contains(cause)
    }

    /// State of the process by its gang; `None` if it is in no gang that has to decide.
    #[must_use]
    pub const fn gang(&self) -> Option<GangState> {
        self.gang
    }

    /// Returns whether the device mostly waits for the process's host.
    #[must_use]
    pub const fn is_host_bound(&self) -> bool {
        matches!(self.report.claim, Claim::Little)
    }

    /// Device time that the process has used.
    #[must_use]
    pub const fn used(&self) -> Duration {
        Duration::from_ns(self.time.total_ns)
    }

    /// The last hold.
    #[must_use]
    pub const fn probe(&self) -> &HoldProbe {
        &self.probe
    }

    /// Takes note of whether the process has work, and of what it says. If that changes
    /// [`SchedEntity::is_ready`], the scheduler is to hear of it.
    pub fn refresh(
        &mut self,
        has_work: bool,
        said: impl Into<SelfReport>,
        now: Instant,
    ) -> GateWrite {
        self.note_used(RunInterval::NONE, said.into(), now);
        let counts_as_ready = self.grace.observe(has_work, now);
        let was_ready = self.is_ready();
        let write = self.advance(match (has_work, counts_as_ready) {
            (true, _) => Event::WorkBegins,
            (false, true) => Event::WorkPauses,
            (false, false) => Event::WorkEnds,
        });
        if self.is_ready() && !was_ready {
            self.report.submitted += 1;
            self.report.launched = self.report.submitted;
            self.report.ready_since = now;
        } else if was_ready && !self.is_ready() {
            self.report.retired = self.report.submitted;
        }
        write
    }

    /// Accounts for the time since the last call, in which the process ran like this, and for what
    /// it says. To be called before the process is held or released.
    pub fn account(
        &mut self,
        ran: RunInterval,
        said: impl Into<SelfReport>,
        now: Instant,
    ) -> Accounting {
        let said = said.into();
        let overrun = self.note_used(ran, said, now);
        let step = self.step(ran, said);
        let has_gone_on = self.is_ready() && step.ended > 0 && self.watched.take().is_some();
        if has_gone_on {
            // As the end of one command and the beginning of the next.
            self.report.submitted += 1;
            self.report.launched = self.report.submitted;
            self.report.retired += 1;
        }
        if ran.is_alone() {
            self.host.ran_alone(step, now);
        } else if ran.share > Duration::ZERO {
            self.host.ran_beside_others(step, now);
        } else {
            self.host.did_not_run(step);
        }
        let is_changed = self.update_claim(now);
        let is_much = self.time.unreported() >= self.report_every;
        Accounting {
            is_report_due: has_gone_on
                || is_changed
                || is_much && self.report_every < Duration::MAX,
            is_grace_over: self.grace.due().is_some_and(|due| due <= now),
            overrun,
        }
    }

    /// Reports how much of the device the process claims. True if that has changed.
    fn update_claim(&mut self, now: Instant) -> bool {
        let claim = if self.is_concurrent { Claim::Part } else { self.host.claim(now) };
        std::mem::replace(&mut self.report.claim, claim) != claim
    }

    /// Step of the time since the last call.
    fn step(&mut self, ran: RunInterval, said: SelfReport) -> Step {
        let used_ns = self.time.said_ns;
        let before = std::mem::replace(&mut self.said, SelfReport { used_ns, ..said });
        let waited_us =
            said.waited_us.zip(before.waited_us).map(|(now, old)| now.wrapping_sub(old));
        Step {
            time: ran.elapsed,
            has_work: self.grace.has_work(),
            used: Duration::from_ns(used_ns - before.used_ns),
            ended: said.ended.saturating_sub(before.ended),
            waited: waited_us.map(|us| Duration::from_us(us.into())),
        }
    }

    /// Notes what the process used, and answers for how long it had the device while it was held.
    fn note_used(&mut self, ran: RunInterval, said: SelfReport, now: Instant) -> Duration {
        let before_ns = self.time.said_ns;
        self.time.count(ran, said.used_ns, now);
        let since = std::mem::replace(&mut self.accounted, now);
        if !self.is_held() {
            self.probe.note_ended(said.ended);
            return Duration::ZERO;
        }
        let ran_ns = self.probe.ran(since, said.ended, self.time.said_ns - before_ns, now).as_ns();
        // What its commands took before the hold is counted already.
        let counted_ns = self.time.total_ns - self.slice.used_ns;
        let left_ns = (self.time.said_ns - self.slice.said_ns).saturating_sub(counted_ns);
        let overrun = Duration::from_ns(ran_ns.min(left_ns));
        if overrun > Duration::ZERO {
            self.time.count(RunInterval::alone(overrun), said.used_ns, now);
        }
        overrun
    }

    /// Takes off time that others had while the process ran.
    pub fn charge_overrun(&mut self, overrun: Duration) {
        self.time.charge(overrun);
    }

    /// Time until [`SchedEntity::account`] is due although nothing happens: to see what ended after
    /// a hold, or that a pause is no longer short. [`Duration::MAX`] for never. `is_measured`: what
    /// ends is wanted also where the scheduler does not ask for it.
    #[must_use]
    pub fn next_refresh_in(&self, is_measured: bool, now: Instant) -> Duration {
        let pause = self.grace.due().map_or(Duration::MAX, |due| due.since(now));
        let is_wanted = is_measured || self.report_every < Duration::MAX;
        let is_probed = is_wanted && self.is_ready() && self.is_held();
        let probe = if is_probed { self.probe.next_in(now) } else { Duration::MAX };
        pause.min(probe).min(self.next_watch_in(now))
    }

    /// Time until it is due to see whether the process goes on, if the scheduler wants to know.
    fn next_watch_in(&self, now: Instant) -> Duration {
        match self.watched.filter(|_| self.is_running()) {
            Some(since) => {
                let watched = now.since(since);
                let is_new = watched < WATCHED_CLOSELY;
                let later = watched.per(8).min(WATCH_INTERVAL_MAX);
                let interval = if is_new { POLL_INTERVAL } else { later };
                interval - now.since(self.accounted)
            }
            None => Duration::MAX,
        }
    }

    /// Time until [`SchedEntity::account`] is due to find whether the process is bound by its host,
    /// where others wait for that. [`Duration::MAX`] if it is known.
    #[must_use]
    pub fn next_host_check_in(&self, now: Instant) -> Duration {
        if !self.is_running() || self.is_concurrent || !self.host.may_be_host_bound(now) {
            return Duration::MAX;
        }
        POLL_INTERVAL - now.since(self.accounted)
    }

    /// Device time until the scheduler wants a report; [`Duration::MAX`] for never.
    #[must_use]
    pub fn report_due_in(&self) -> Duration {
        match self.report_every {
            Duration::MAX => Duration::MAX,
            every => every - self.time.unreported(),
        }
    }

    /// The report for the scheduler.
    pub const fn take_report(&mut self) -> Report {
        self.report.busy = self.time.report();
        self.report
    }

    /// Takes an order of the scheduler. Says what to do with the gates, and whether the scheduler
    /// is to have a report after that.
    pub fn obey(&mut self, order: Order, now: Instant) -> (GateWrite, bool) {
        let (epoch, holds) = match order {
            Order::Run { epoch } => (epoch, false),
            Order::Hold { epoch, .. } => (epoch, true),
            Order::Progress { every } => {
                self.report_every = every;
                return (GateWrite::Keep, false);
            }
            Order::Watch { .. } => {
                self.watched.get_or_insert(now);
                return (GateWrite::Keep, false);
            }
            Order::Reached { .. } => return (GateWrite::Keep, false),
        };
        self.report.epoch = epoch;
        let held = HoldState::Held(Level::Deactivate);
        self.report.hold = if holds { held } else { HoldState::Running };
        (self.set_cause(HoldCause::Order, holds, now), true)
    }

    /// Holds the process for a user, or ends that, of which the scheduler is to hear.
    pub fn suspend(&mut self, suspends: bool, now: Instant) -> GateWrite {
        self.set_cause(HoldCause::User, suspends, now)
    }

    /// Has the gang hold the process or not, of which the scheduler is to hear if it begins or ends
    /// to [yield](GangState::Yielding).
    pub fn set_gang(&mut self, gang: Option<GangState>, now: Instant) -> GateWrite {
        self.gang = gang;
        self.set_cause(HoldCause::Gang, gang.unwrap_or_default() != GangState::Runnable, now)
    }

    /// Says that the gates are as the state has them.
    pub const fn gates_written(&mut self) {
        // There is nothing to write after that.
        (self.state, _) = self.state.next(Event::GatesWritten);
    }

    fn set_cause(&mut self, cause: HoldCause, holds: bool, now: Instant) -> GateWrite {
        let was_held = self.is_held();
        self.causes.set(cause, holds);
        self.report.suspended =
            self.is_held_by(HoldCause::User) || self.gang == Some(GangState::Yielding);
        let write = self.advance(if self.causes.is_empty() { Event::Release } else { Event::Hold });
        match (was_held, self.is_held()) {
            (false, true) => self.probe.begin(now),
            (true, false) => {
                self.grace.release(now);
                self.host.release();
                let (used_ns, said_ns) = (self.time.total_ns, self.time.said_ns);
                self.slice = SliceStart { used_ns, said_ns };
            }
            _ => {}
        }
        write
    }

    const fn advance(&mut self, event: Event) -> GateWrite {
        let (state, write) = self.state.next(event);
        self.state = state;
        write
    }
}
