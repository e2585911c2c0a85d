//! Watches the contract between a queue and its device, on either side of which a defect may be.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::Waker;

use super::{ErrorType, Retire, StepDone, Steps, Submit};
use crate::fault::Fault;
use crate::id::CmdId;
use crate::level::{Level, Step};
use crate::queue::Retired;

/// What the three halves of one hardware queue must agree on, shared between them, and the
/// violations found.
///
/// Checked: launches go up; a marker covers nothing that was not launched; completions go up and
/// never name a command that was not launched; nothing is launched between a hold step and its
/// release; steps come in an order that makes sense.
#[derive(Debug, Default)]
pub struct Contract {
    /// One past the last launched command.
    launched: AtomicU64,
    retired: AtomicU64,
    deactivated: AtomicBool,
    interrupted: AtomicBool,
    violations: AtomicU64,
    first: AtomicU64,
}

/// The breaches of a [`Contract`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Breach {
    /// A command was launched after one with a higher number.
    LaunchOrder = 1,
    /// A command was launched while the queue was held on the device.
    LaunchWhileHeld = 2,
    /// A marker for a command that was not launched.
    MarkOrder = 3,
    /// The device says that a command retired which was not launched.
    RetireUnknown = 4,
    /// The device says that fewer commands retired than before.
    RetireOrder = 5,
    /// A step that makes no sense where the queue is.
    StepOrder = 6,
}

impl Contract {
    /// Breaches found so far.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// The first breach found.
    #[must_use]
    pub fn first(&self) -> Option<Breach> {
        Some(match self.first.load(Ordering::Relaxed) {
            1 => Breach::LaunchOrder,
            2 => Breach::LaunchWhileHeld,
            3 => Breach::MarkOrder,
            4 => Breach::RetireUnknown,
            5 => Breach::RetireOrder,
            6 => Breach::StepOrder,
            _ => return None,
        })
    }

    /// The device forgot commands from `first` on; they will be launched again.
    pub fn replay_from(&self, first: CmdId) {
        self.launched.fetch_min(first.0, Ordering::Relaxed);
    }

    fn require(&self, holds: bool, breach: Breach) {
        if !holds && self.violations.fetch_add(1, Ordering::Relaxed) == 0 {
            self.first.store(breach as u64, Ordering::Relaxed);
        }
    }

    fn launch(&self, cmd: CmdId) {
        let before = self.launched.fetch_max(cmd.count(), Ordering::Relaxed);
        self.require(cmd.0 >= before, Breach::LaunchOrder);
        let deactivated = self.deactivated.load(Ordering::Relaxed);
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        self.require(!deactivated && !interrupted, Breach::LaunchWhileHeld);
    }

    fn retire(&self, upto: CmdId) {
        self.require(upto.0 < self.launched.load(Ordering::Relaxed), Breach::RetireUnknown);
        let before = self.retired.fetch_max(upto.count(), Ordering::Relaxed);
        self.require(upto.count() >= before, Breach::RetireOrder);
    }

    fn step(&self, step: Step) {
        let deactivated = self.deactivated.load(Ordering::Relaxed);
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        let sensible = match step {
            Step::Deactivate => !deactivated && !interrupted,
            Step::Interrupt => !interrupted,
            Step::Restore => interrupted,
            Step::Reactivate => deactivated && !interrupted,
        };
        self.require(sensible, Breach::StepOrder);
    }

    fn stepped(&self, step: Step) {
        match step {
            Step::Deactivate => self.deactivated.store(true, Ordering::Relaxed),
            Step::Interrupt => self.interrupted.store(true, Ordering::Relaxed),
            Step::Restore => self.interrupted.store(false, Ordering::Relaxed),
            Step::Reactivate => self.deactivated.store(false, Ordering::Relaxed),
        }
    }
}

/// A half of a hardware queue whose calls are held against a [`Contract`]. Calls pass through
/// whatever is found; look at the contract for violations.
#[derive(Debug)]
pub struct Checked<'a, H> {
    inner: H,
    contract: &'a Contract,
    pending: Option<Step>,
}

impl<'a, H> Checked<'a, H> {
    /// Wraps a half.
    pub const fn new(inner: H, contract: &'a Contract) -> Self {
        Self { inner, contract, pending: None }
    }

    /// The wrapped half.
    pub const fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }
}

impl<H: ErrorType> ErrorType for Checked<'_, H> {
    type Error = H::Error;
}

impl<H: Submit> Submit for Checked<'_, H> {
    type Payload = H::Payload;

    fn launch(&mut self, cmd: CmdId, payload: &H::Payload, marker: bool) -> Result<(), H::Error> {
        self.contract.launch(cmd);
        self.inner.launch(cmd, payload, marker)
    }

    fn mark(&mut self, upto: CmdId) -> Result<(), H::Error> {
        let launched = self.contract.launched.load(Ordering::Relaxed);
        self.contract.require(upto.0 < launched, Breach::MarkOrder);
        self.inner.mark(upto)
    }
}

impl<H: Retire> Retire for Checked<'_, H> {
    fn poll_retired(&mut self) -> Result<Option<Retired>, H::Error> {
        let retired = self.inner.poll_retired()?;
        if let Some(retired) = &retired {
            self.contract.retire(retired.upto);
        }
        Ok(retired)
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        self.inner.wake_on_retire(waker)
    }
}

impl<H: Steps> Steps for Checked<'_, H> {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        self.contract.step(step);
        let done = self.inner.step(step)?;
        match done {
            StepDone::Now(_) => self.contract.stepped(step),
            StepDone::Later => self.pending = Some(step),
        }
        Ok(done)
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        let done = self.inner.poll_step();
        if !matches!(done, Ok(None | Some(StepDone::Later)))
            && let Some(step) = self.pending.take()
            && done.is_ok()
        {
            self.contract.stepped(step);
        }
        done
    }
}
