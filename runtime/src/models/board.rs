//! A device for models: one lock, and a thread that completes what was launched.

use std::sync::{Arc, PoisonError};
use std::task::Waker;

use xsched_core::fault::Fault;
use xsched_core::hal::{ErrorType, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Level, Step};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// Events that must not happen, as a thread was told that the queue is held at Lv2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Forbidden {
    #[default]
    Nothing,
    Starts,
    /// Starts and launches: the thread was told while nothing was in a launch.
    Launches,
}

/// State of the device.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The names of the commands that were launched, in order.
    pub(super) launched: Vec<u64>,
    /// Commands covered by a fence, per fence.
    fences: Vec<u64>,
    started: u64,
    pub(super) completed: u64,
    reported: u64,
    deactivated: bool,
    forbidden: Forbidden,
    waker: Option<Waker>,
    /// Names of commands, and the threads that are to launch them.
    expected: Vec<(u64, loom::thread::ThreadId)>,
    /// A step that waits for a commit, and whether one has been carried out that was not asked for.
    staged: Option<Step>,
    stepped: bool,
}

impl Ledger {
    /// Commands whose completion can be seen.
    fn visible(&self) -> u64 {
        self.fences.iter().copied().filter(|&fence| fence <= self.completed).max().unwrap_or(0)
    }

    fn alarm(&mut self) -> Option<Waker> {
        if self.visible() > self.reported { self.waker.take() } else { None }
    }
}

/// A device for models, which completes launched commands on a thread of its own.
#[derive(Debug, Default)]
pub(super) struct Board {
    ledger: Mutex<Ledger>,
    /// Something to start.
    changed: Condvar,
    /// Commands that may be in flight.
    window: u64,
    /// Notifies no thread: its completions must be looked for.
    silent: bool,
    /// Stages steps, which wait for a commit.
    stages: bool,
}

impl Board {
    pub(super) fn new(window: u64, silent: bool) -> Self {
        Self { window, silent, ..Self::default() }
    }

    /// One whose steps wait for a commit.
    pub(super) fn staged(window: u64) -> Self {
        Self { stages: true, ..Self::new(window, false) }
    }

    pub(super) const fn stages(&self) -> bool {
        self.stages
    }

    /// Carries out what is staged.
    pub(super) fn commit(&self) {
        let mut ledger = self.lock();
        if let Some(step) = ledger.staged.take() {
            ledger.deactivated = step == Step::Deactivate;
            ledger.stepped = true;
            self.changed.notify_one();
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn halves(board: &Arc<Self>) -> (Launcher, Retirer, Preempter) {
        (Launcher(Arc::clone(board)), Retirer(Arc::clone(board)), Preempter(Arc::clone(board)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the device complain of this from now on.
    pub(super) fn forbid(&self, forbidden: Forbidden) {
        self.lock().forbidden = forbidden;
    }

    /// The device's thread: completes this number of commands, each as soon as it may.
    pub(super) fn complete(&self, commands: u64) {
        for _ in 0..commands {
            let mut ledger = self.lock();
            while ledger.deactivated || ledger.launched.len() as u64 == ledger.started {
                ledger = self.changed.wait(ledger).unwrap_or_else(PoisonError::into_inner);
            }
            assert!(ledger.forbidden < Forbidden::Starts, "a command started on a held queue");
            ledger.started += 1;
            ledger.completed += 1;
            let waker = ledger.alarm();
            drop(ledger);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Has the device complain if another thread than this launches the command of this name.
    pub(super) fn expect(&self, name: u64, thread: loom::thread::ThreadId) {
        self.lock().expected.push((name, thread));
    }

    pub(super) fn was_launched(&self, name: u64) -> bool {
        self.lock().launched.contains(&name)
    }

    /// True if what was submitted under these numbers was launched, each once and in its turn.
    pub(super) fn assert_launched(&self, mut submitted: Vec<(CmdId, u64)>) {
        submitted.sort_unstable();
        let numbers: Vec<u64> = submitted.iter().map(|(cmd, _)| cmd.0).collect();
        assert_eq!(numbers, Vec::from_iter(0..submitted.len() as u64), "each has its number");
        let names: Vec<u64> = submitted.iter().map(|&(_, name)| name).collect();
        let ledger = self.lock();
        assert_eq!(ledger.launched, names, "launched each once and in order");
    }
}

#[derive(Debug)]
pub(super) struct Launcher(Arc<Board>);

#[derive(Debug)]
pub(super) struct Retirer(Arc<Board>);

#[derive(Debug)]
pub(super) struct Preempter(Arc<Board>);

impl ErrorType for Launcher {
    type Error = Fault;
}
impl ErrorType for Retirer {
    type Error = Fault;
}
impl ErrorType for Preempter {
    type Error = Fault;
}

impl Submit for Launcher {
    /// Name that the submitter gave it.
    type Payload = u64;

    fn launch(&mut self, cmd: CmdId, name: &u64, fence: bool) -> Result<(), Fault> {
        let mut ledger = self.0.lock();
        assert_eq!(ledger.launched.len() as u64, cmd.0, "launched out of turn");
        assert!(ledger.forbidden < Forbidden::Launches, "launched on a held queue");
        let launcher = loom::thread::current().id();
        let is_wrong = |&(of, thread)| of == *name && thread != launcher;
        assert!(!ledger.expected.iter().any(is_wrong), "launched by another thread");
        ledger.launched.push(*name);
        let in_flight = ledger.launched.len() as u64 - ledger.reported;
        assert!(in_flight <= self.0.window, "{in_flight} in flight");
        if fence {
            ledger.fences.push(cmd.count());
        }
        self.0.changed.notify_one();
        Ok(())
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        let mut ledger = self.0.lock();
        ledger.fences.push(upto.count());
        let waker = ledger.alarm();
        drop(ledger);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl Retire for Retirer {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        let mut ledger = self.0.lock();
        let visible = ledger.visible();
        if visible <= ledger.reported {
            return Ok(None);
        }
        ledger.reported = visible;
        let upto = CmdId(visible - 1);
        Ok(Some(Retired { upto, busy: Duration::ZERO, outcome: Outcome::Ok }))
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        if self.0.silent {
            return false;
        }
        let mut ledger = self.0.lock();
        ledger.waker = Some(waker.clone());
        let waker = ledger.alarm();
        drop(ledger);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl Steps for Preempter {
    fn level(&self) -> Level {
        Level::Deactivate
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        if matches!(step, Step::Interrupt | Step::Restore) {
            return Err(Fault::NotSupported);
        }
        let mut ledger = self.0.lock();
        if self.0.stages {
            assert_eq!(ledger.staged.replace(step), None, "one step at a time");
            return Ok(StepDone::Later);
        }
        ledger.deactivated = step == Step::Deactivate;
        self.0.changed.notify_one();
        Ok(StepDone::Now(None))
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        let mut ledger = self.0.lock();
        Ok(std::mem::take(&mut ledger.stepped).then_some(StepDone::Now(None)))
    }
}
