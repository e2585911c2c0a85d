//! Watches the contract between a queue and its device, on either side of which a defect may be.

use core::borrow::Borrow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{ErrorType, Retire, StepDone, Steps, Submit};
use crate::fault::Fault;
use crate::id::CmdId;
use crate::level::{Level, Step};
use crate::queue::Retired;

/// State that the three halves of one hardware queue must agree on, shared between them, and the
/// violations found.
///
/// [`Checked`] watches: launches go up; a fence covers nothing that was not launched; completions
/// go up and never name a command that was not launched; nothing is launched between a hold step
/// and its release; steps come in an order that makes sense.
#[derive(Debug, Default)]
pub struct Contract {
    /// One past the last launched command.
    launched: AtomicU64,
    retired: AtomicU64,
    deactivated: AtomicBool,
    interrupted: AtomicBool,
    /// Launches and steps come from several threads.
    threads: bool,
    /// Launches that may still arrive after a hold because they were on their way.
    under_way: AtomicU64,
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
    /// A fence for a command that was not launched.
    FenceOrder = 3,
    /// The device says that a command retired which was not launched.
    RetireUnknown = 4,
    /// The device says that fewer commands retired than before.
    RetireOrder = 5,
    /// A step that makes no sense where the queue is.
    StepOrder = 6,
}

impl Contract {
    /// For drivers in which one thread launches while another holds: a launch that is on its way
    /// when the queue is held may arrive afterwards, one for each hold step. The machine has
    /// counted it as launched before, so the hold covers it.
    #[must_use]
    pub fn between_threads() -> Self {
        Self { threads: true, ..Self::default() }
    }

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
            3 => Breach::FenceOrder,
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
        let held = deactivated || interrupted;
        let down = |n: u64| n.checked_sub(1);
        let order = Ordering::Relaxed;
        let fine = !held || self.under_way.fetch_update(order, order, down).is_ok();
        self.require(fine, Breach::LaunchWhileHeld);
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
        if step.is_hold() {
            self.under_way.store(self.threads.into(), Ordering::Relaxed);
        }
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
///
/// ```
/// use xsched_core::hal::{Backend, Breach, Checked, Contract, Noop, NoopQueue, Submit};
/// use xsched_core::id::{CmdId, QueueId};
///
/// let hardware = [NoopQueue::new()];
/// let queue = Noop::<()>::new(&hardware).open(QueueId::new(0, 0), ())?;
/// let contract = Contract::default();
/// let mut submit = Checked::new(queue.submit, &contract);
/// submit.launch(CmdId(1), &(), true)?;
/// assert_eq!(contract.violations(), 0);
/// submit.launch(CmdId(0), &(), true)?; // goes through, and is noted
/// assert_eq!(contract.first(), Some(Breach::LaunchOrder));
/// # Ok::<(), xsched_core::hal::NoMoreQueues>(())
/// ```
#[derive(Debug)]
pub struct Checked<H, C> {
    inner: H,
    contract: C,
    pending: Option<Step>,
}

impl<H, C: Borrow<Contract>> Checked<H, C> {
    /// Wraps a half. The contract is lent, or shared in an `Arc`.
    pub const fn new(inner: H, contract: C) -> Self {
        Self { inner, contract, pending: None }
    }

    fn contract(&self) -> &Contract {
        self.contract.borrow()
    }

    /// The wrapped half.
    pub const fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }
}

impl<H: ErrorType, C> ErrorType for Checked<H, C> {
    type Error = H::Error;
}

impl<H: Submit, C: Borrow<Contract>> Submit for Checked<H, C> {
    type Payload = H::Payload;

    fn launch(&mut self, cmd: CmdId, payload: &H::Payload, fence: bool) -> Result<(), H::Error> {
        self.contract().launch(cmd);
        self.inner.launch(cmd, payload, fence)
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), H::Error> {
        let launched = self.contract().launched.load(Ordering::Relaxed);
        self.contract().require(upto.0 < launched, Breach::FenceOrder);
        self.inner.fence(upto)
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, H::Error> {
        self.inner.seal(upto)
    }

    crate::pass_on_submit!(inner);
}

impl<H: Retire, C: Borrow<Contract>> Retire for Checked<H, C> {
    const RUNS_ON_THREADS: bool = H::RUNS_ON_THREADS;

    fn poll_retired(&mut self) -> Result<Option<Retired>, H::Error> {
        let retired = self.inner.poll_retired()?;
        if let Some(retired) = &retired {
            self.contract().retire(retired.upto);
        }
        Ok(retired)
    }

    crate::pass_on_retire!(inner);
}

impl<H: Steps, C: Borrow<Contract>> Steps for Checked<H, C> {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        self.contract().step(step);
        let done = self.inner.step(step)?;
        match done {
            StepDone::Now(_) => self.contract().stepped(step),
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
            self.contract().stepped(step);
        }
        done
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        self.inner.is_quiet()
    }
}
