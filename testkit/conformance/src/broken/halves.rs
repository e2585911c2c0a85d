//! The halves of a queue, with one defect between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::{ErrorType, FaultyError, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Caps, Level, Step};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time;

use super::{Counts, Defect, Watched};

/// A defect that strikes now and then does so every this many calls.
const NOW_AND_THEN: u64 = 4;

/// State shared by the halves.
#[derive(Debug)]
pub(super) struct Shared {
    defect: Defect,
    room: u64,
    watched: Arc<Watched>,
    launched: AtomicU64,
    /// Reported.
    seen: AtomicU64,
    /// Covered by fences that the device does not know of.
    pretended: AtomicU64,
    held: AtomicBool,
    stepping: AtomicBool,
    calls: AtomicU64,
    /// How long the queue was held, in nanoseconds.
    held_ns: AtomicU64,
}

impl Shared {
    pub(super) fn new(defect: Defect, caps: Caps, watched: Arc<Watched>) -> Self {
        Self {
            defect,
            room: u64::from(caps.in_flight_max(1)),
            watched,
            launched: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            pretended: AtomicU64::new(0),
            held: AtomicBool::new(false),
            stepping: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            held_ns: AtomicU64::new(0),
        }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn in_flight(&self) -> u64 {
        let seen = self.seen.load(Ordering::Acquire);
        self.launched.load(Ordering::Acquire).saturating_sub(seen)
    }

    /// True if it is time for a defect that strikes now and then.
    fn strikes(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % NOW_AND_THEN == NOW_AND_THEN - 1
    }
}

/// Takes long to be dropped, if that is the defect.
#[derive(Debug)]
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        if self.0.has(Defect::HangsOnDrop) {
            thread::sleep(2 * super::PATIENCE);
        }
    }
}

/// The launching half.
#[derive(Debug)]
pub struct BrokenSubmit<H, C> {
    inner: H,
    shared: Arc<Shared>,
    empty: Option<C>,
    /// A launch that was put off.
    put_off: Option<(C, bool)>,
    _last: Last,
}

impl<H, C> BrokenSubmit<H, C> {
    pub(super) fn new(inner: H, shared: Arc<Shared>, empty: Option<C>) -> Self {
        let last = Last(Arc::clone(&shared));
        Self { inner, shared, empty, put_off: None, _last: last }
    }
}

impl<H: ErrorType, C> ErrorType for BrokenSubmit<H, C> {
    type Error = FaultyError<H::Error>;
}

fn refused<T, E>(fault: Fault) -> Result<T, FaultyError<E>> {
    Err(FaultyError::Injected(fault))
}

impl<H: Submit<Payload = C>, C: Clone> BrokenSubmit<H, C> {
    fn pass(&mut self, cmd: CmdId, c: &C, fence: bool) -> Result<(), FaultyError<H::Error>> {
        self.inner.launch(cmd, c, fence).map_err(FaultyError::Inner)
    }

    /// Launches every eighth command after the next one.
    fn swap(&mut self, cmd: CmdId, c: &C, fence: bool) -> Result<(), FaultyError<H::Error>> {
        if let Some((before, fenced)) = self.put_off.take() {
            self.pass(CmdId(cmd.0 - 1), c, fenced)?;
            return self.pass(cmd, &before, fence);
        }
        if cmd.0 % 8 == 4 {
            self.put_off = Some((c.clone(), fence));
            return Ok(());
        }
        self.pass(cmd, c, fence)
    }
}

impl<H: Submit<Payload = C>, C: Clone> Submit for BrokenSubmit<H, C> {
    type Payload = C;

    fn launch(&mut self, cmd: CmdId, c: &C, fence: bool) -> Result<(), Self::Error> {
        let shared = Arc::clone(&self.shared);
        let in_flight = shared.in_flight();
        shared.launched.store(cmd.count(), Ordering::Release);
        let fifth = cmd.0 % 5 == 4;
        let lost = fifth && shared.has(Defect::LosesCommands)
            || shared.has(Defect::LosesLaunchesDuringSteps)
                && shared.stepping.load(Ordering::Acquire);
        match shared.defect {
            Defect::SwapsLaunches => self.swap(cmd, c, fence),
            Defect::RunsTwice if fifth => {
                self.pass(cmd, c, false)?;
                self.pass(cmd, c, fence)
            }
            Defect::ReportsEarly => {
                shared.pretended.fetch_max(if fence { cmd.count() } else { 0 }, Ordering::AcqRel);
                self.pass(cmd, c, false)
            }
            Defect::LaunchBlocks if in_flight == 3 => {
                shared.watched.wait(false);
                self.pass(cmd, c, fence)
            }
            Defect::RefusesEarly if in_flight >= shared.room / 2 => refused(Fault::Launch),
            Defect::RefusesWhileHeld if shared.held.load(Ordering::Acquire) => {
                refused(Fault::Launch)
            }
            Defect::LosesFences => self.pass(cmd, c, false),
            Defect::FencesEverything => self.pass(cmd, c, true),
            _ => match self.empty.clone().filter(|_| lost) {
                Some(empty) => self.pass(cmd, &empty, fence),
                None => self.pass(cmd, c, fence),
            },
        }
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        if let Some((c, fence)) = self.put_off.take() {
            self.pass(upto, &c, fence)?;
        }
        match self.shared.defect {
            Defect::IgnoresFences => return Ok(()),
            Defect::RefusesIdleFences if self.shared.in_flight() == 0 => {
                return refused(Fault::Launch);
            }
            Defect::FenceShowsAtOnce | Defect::ReportsEarly => {
                self.shared.pretended.fetch_max(upto.count(), Ordering::AcqRel);
                return Ok(());
            }
            _ => {}
        }
        self.inner.fence(upto).map_err(FaultyError::Inner)
    }
}

/// The half that watches completions.
#[derive(Debug)]
pub struct BrokenRetire<H> {
    inner: H,
    shared: Arc<Shared>,
    /// An answer to be repeated.
    again: Option<Retired>,
    failed: bool,
    has_waker: bool,
}

impl<H> BrokenRetire<H> {
    pub(super) const fn new(inner: H, shared: Arc<Shared>) -> Self {
        Self { inner, shared, again: None, failed: false, has_waker: false }
    }
}

impl<H: ErrorType> ErrorType for BrokenRetire<H> {
    type Error = FaultyError<H::Error>;
}

impl<H: Retire> BrokenRetire<H> {
    fn ask(&mut self) -> Result<Option<Retired>, FaultyError<H::Error>> {
        if self.shared.has(Defect::PollBlocks) {
            self.shared.watched.wait(false);
        }
        self.inner.poll_retired().map_err(FaultyError::Inner)
    }

    /// A completion that the device did not tell of.
    fn pretended(&self) -> Option<Retired> {
        let pretended = self.shared.pretended.load(Ordering::Acquire);
        let upto = pretended.checked_sub(1).map(CmdId)?;
        let new = pretended > self.shared.seen.load(Ordering::Acquire);
        new.then_some(Retired { upto, busy: time::Duration::ZERO, outcome: Outcome::Ok })
    }

    fn falsify(&mut self, mut retired: Retired) -> Retired {
        self.failed |= retired.outcome != Outcome::Ok;
        match self.shared.defect {
            Defect::RepeatsReports => self.again = Some(retired),
            Defect::ReportsAhead => retired.upto.0 += 1,
            Defect::BusyTooLong => retired.busy = retired.busy.times(10),
            Defect::BusyTooShort => retired.busy = retired.busy.per(16),
            Defect::BusyWhileHeld => {
                let held_ns = self.shared.held_ns.swap(0, Ordering::AcqRel);
                retired.busy += time::Duration::from_ns(held_ns);
            }
            Defect::HidesFailures => retired.outcome = Outcome::Ok,
            Defect::BlamesLaterOnes if self.failed => {
                retired.outcome = Outcome::Failed { from: retired.upto, fault: Fault::Execution };
            }
            _ => {}
        }
        retired
    }
}

impl<H: Retire> Retire for BrokenRetire<H> {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        if self.shared.has(Defect::HoldsReports) && self.shared.held.load(Ordering::Acquire) {
            return Ok(None);
        }
        if let Some(again) = self.again.take() {
            return Ok(Some(again));
        }
        let answer = match self.pretended() {
            Some(pretended) => Some(pretended),
            None => self.ask()?.map(|retired| self.falsify(retired)),
        };
        if let Some(retired) = &answer {
            self.shared.seen.fetch_max(retired.upto.count(), Ordering::AcqRel);
            self.has_waker = false;
        }
        Ok(answer)
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        let keeps = self.shared.has(Defect::KeepsFirstWaker) && self.has_waker;
        let skips = self.shared.has(Defect::LosesSomeWakes) && self.shared.strikes();
        self.has_waker = true;
        if self.shared.has(Defect::NeverWakes) || keeps || skips {
            return true;
        }
        if !self.shared.has(Defect::LosesReadyWakes) {
            return self.inner.wake_on_retire(waker);
        }
        let later = Arc::new(Later { waker: waker.clone(), armed: AtomicBool::new(false) });
        let wakes = self.inner.wake_on_retire(&Waker::from(Arc::clone(&later)));
        later.armed.store(true, Ordering::Release);
        wakes
    }
}

/// Wakes, but not while the waker is being handed over.
#[derive(Debug)]
struct Later {
    waker: Waker,
    armed: AtomicBool,
}

impl Wake for Later {
    fn wake(self: Arc<Self>) {
        if self.armed.load(Ordering::Acquire) {
            self.waker.wake_by_ref();
        }
    }
}

/// The half that preempts.
#[derive(Debug)]
pub struct BrokenSteps<H> {
    inner: H,
    shared: Arc<Shared>,
    /// The deactivation was skipped.
    skipped: bool,
    /// The queue is deactivated.
    deactivated: bool,
    /// True if it was interrupted since then.
    interrupted: bool,
    held_since: Option<Instant>,
    /// Number of the queue in the device.
    number: u32,
    counts: Arc<Counts>,
    /// A step waits for its answer.
    waits: bool,
}

impl<H> BrokenSteps<H> {
    pub(super) fn new(inner: H, shared: Arc<Shared>, number: u32, c: Arc<Counts>) -> Self {
        let (skipped, deactivated, interrupted, held_since) = (false, false, false, None);
        let (counts, waits) = (c, false);
        Self { inner, shared, skipped, deactivated, interrupted, held_since, number, counts, waits }
    }
}

impl<H> Drop for BrokenSteps<H> {
    fn drop(&mut self) {
        self.counts.gone.fetch_add(u64::from(self.waits), Ordering::AcqRel);
    }
}

impl<H: ErrorType> ErrorType for BrokenSteps<H> {
    type Error = FaultyError<H::Error>;
}

impl<H: Steps> BrokenSteps<H> {
    /// True if the step is to be answered and not carried out.
    fn skips(&mut self, step: Step) -> bool {
        let idle = self.shared.in_flight() == 0;
        let never = matches!(
            (self.shared.defect, step),
            (Defect::IgnoresDeactivate, Step::Deactivate | Step::Reactivate)
                | (Defect::IgnoresInterrupt, Step::Interrupt | Step::Restore)
                | (Defect::LosesReactivate, Step::Reactivate)
                | (Defect::LosesRestore, Step::Restore)
        );
        let skips = match (self.shared.defect, step) {
            (Defect::SkipsIdleDeactivate, Step::Deactivate) => idle,
            (Defect::InterruptsOnce, Step::Interrupt) => self.interrupted,
            (Defect::SkipsSomeDeactivates, Step::Deactivate)
            | (Defect::SkipsSomeInterrupts, Step::Interrupt) => self.shared.strikes(),
            (Defect::SkipsIdleDeactivate | Defect::SkipsSomeDeactivates, Step::Reactivate)
            | (Defect::SkipsSomeInterrupts, Step::Restore) => std::mem::take(&mut self.skipped),
            _ => never,
        };
        self.skipped |= skips && step.is_hold();
        self.interrupted =
            step != Step::Deactivate && (self.interrupted || step == Step::Interrupt);
        skips
    }

    fn note_hold(&mut self, step: Step) {
        self.shared.held.store(step.is_hold(), Ordering::Release);
        if step.is_hold() {
            self.held_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.held_since.take() {
            let held_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.shared.held_ns.fetch_add(held_ns, Ordering::AcqRel);
        }
    }

    fn pass(&mut self, step: Step) -> Result<StepDone, Fault> {
        if self.shared.has(Defect::CommitsOnlyTheFirst) && self.number > 0 {
            return Ok(StepDone::Later);
        }
        let mut done = self.inner.step(step)?;
        if self.shared.has(Defect::LosesLaunchesDuringSteps) {
            self.shared.stepping.store(true, Ordering::Release);
            thread::sleep(Duration::from_micros(100));
            self.shared.stepping.store(false, Ordering::Release);
        }
        if step == Step::Restore
            && self.shared.has(Defect::RestoreReactivates)
            && std::mem::take(&mut self.deactivated)
        {
            done = self.inner.step(Step::Reactivate)?;
        }
        Ok(done)
    }

    fn falsify(&self, done: StepDone) -> StepDone {
        match done {
            StepDone::Now(Some(first)) if self.shared.has(Defect::NamesTooFew) => {
                StepDone::Now(Some(CmdId(first.0 + 1)))
            }
            done => done,
        }
    }
}

impl<H: Steps> Steps for BrokenSteps<H> {
    fn level(&self) -> Level {
        if self.shared.has(Defect::LacksItsLevel) { Level::Block } else { self.inner.level() }
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        let idle = self.shared.in_flight() == 0;
        let strikes = match (self.shared.defect, step) {
            (Defect::RefusesIdleDeactivate, Step::Deactivate)
            | (Defect::RefusesIdleInterrupt, Step::Interrupt) => idle,
            _ => false,
        };
        if strikes {
            return Err(Fault::Timeout);
        }
        match (self.shared.defect, step) {
            (Defect::DeactivatesLate, Step::Deactivate) => self.shared.watched.wait(true),
            (Defect::InterruptsLate, Step::Interrupt) => self.shared.watched.wait(false),
            _ => {}
        }
        self.note_hold(step);
        self.deactivated |= step == Step::Deactivate;
        // Reactivated with the restoring.
        let done_before = step == Step::Reactivate
            && self.shared.has(Defect::RestoreReactivates)
            && !std::mem::take(&mut self.deactivated);
        if done_before || self.skips(step) {
            return Ok(StepDone::Now(None));
        }
        match self.pass(step) {
            Err(Fault::NotSupported) if self.shared.has(Defect::AnswersUnclaimedSteps) => {
                Ok(StepDone::Now(None))
            }
            Ok(_) if self.shared.has(Defect::NeverAnswers) => Ok(StepDone::Later),
            Ok(StepDone::Later) => {
                self.counts.staged.fetch_add(1, Ordering::AcqRel);
                self.waits = true;
                Ok(StepDone::Later)
            }
            done => done.map(|done| self.falsify(done)),
        }
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        if self.shared.has(Defect::NeverAnswers) {
            return Ok(None);
        }
        if self.shared.has(Defect::AnswersBeforeCommits) && std::mem::take(&mut self.waits) {
            return Ok(Some(StepDone::Now(None)));
        }
        let done = self.inner.poll_step()?;
        self.waits &= done.is_none();
        Ok(done.map(|done| self.falsify(done)))
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        match self.shared.defect {
            Defect::QuietTooSoon => Ok(Some(self.held_since.is_some())),
            Defect::AlwaysQuiet => Ok(Some(true)),
            Defect::NeverQuiet => Ok(Some(false)),
            _ => self.inner.is_quiet(),
        }
    }
}
