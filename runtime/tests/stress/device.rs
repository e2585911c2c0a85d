//! Devices whose every call is held against the contract, with commands that are counted.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, Breach, Checked, Contract, Deactivate, ErrorType, FaultRates};
use xsched_core::hal::{
    Faulty, Halves, Interrupt, LevelAdapter, Lv3, Preempt, Retire, StepDone, Submit,
};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::rng::SplitMix64;
use xsched_core::time::Duration;
use xsched_hal_host::HostCommand;

/// Counters that must be zero in the end.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    alive: AtomicI64,
    breaches: AtomicU64,
    queues: AtomicU64,
    closed: AtomicU64,
    first: Mutex<Option<Breach>>,
}

impl Ledger {
    /// Commands that were made and not dropped.
    pub(crate) fn alive(&self) -> i64 {
        self.alive.load(Ordering::SeqCst)
    }

    /// Hardware queues that were opened and not dropped.
    pub(crate) fn open(&self) -> u64 {
        self.queues.load(Ordering::SeqCst) - self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn breaches(&self) -> u64 {
        self.breaches.load(Ordering::SeqCst)
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.queues.load(Ordering::SeqCst);
        let first = *self.first.lock().unwrap();
        write!(f, "{queues} hardware queues, {} breaches (first {first:?})", self.breaches())
    }
}

/// A command that is counted for as long as it is there.
pub(crate) struct Cargo {
    command: HostCommand,
    ledger: Arc<Ledger>,
}

impl Cargo {
    pub(crate) fn new(command: HostCommand, ledger: &Arc<Ledger>) -> Self {
        ledger.alive.fetch_add(1, Ordering::SeqCst);
        Self { command, ledger: Arc::clone(ledger) }
    }
}

impl Drop for Cargo {
    fn drop(&mut self) {
        self.ledger.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The contract of a hardware queue; settles with the ledger in the end.
struct Tab {
    contract: Contract,
    ledger: Arc<Ledger>,
}

impl Drop for Tab {
    fn drop(&mut self) {
        self.ledger.breaches.fetch_add(self.contract.violations(), Ordering::SeqCst);
        let mut first = self.ledger.first.lock().unwrap();
        *first = first.or(self.contract.first());
        self.ledger.closed.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone)]
pub(crate) struct Kept(Arc<Tab>);

impl Borrow<Contract> for Kept {
    fn borrow(&self) -> &Contract {
        &self.0.contract
    }
}

/// A backend with a contract around each queue.
pub(crate) struct Careful<B> {
    inner: B,
    ledger: Arc<Ledger>,
}

impl<B> Careful<B> {
    pub(crate) fn new(inner: B, ledger: &Arc<Ledger>) -> Self {
        Self { inner, ledger: Arc::clone(ledger) }
    }
}

/// Unpacks commands.
pub(crate) struct Unpack<S>(S);

impl<S: ErrorType> ErrorType for Unpack<S> {
    type Error = S::Error;
}

impl<S: Submit<Payload = HostCommand>> Submit for Unpack<S> {
    type Payload = Cargo;

    fn launch(&mut self, cmd: CmdId, cargo: &Cargo, fence: bool) -> Result<(), S::Error> {
        self.0.launch(cmd, &cargo.command, fence)
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), S::Error> {
        self.0.fence(upto)
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, S::Error> {
        self.0.seal(upto)
    }

    xsched_core::pass_on_submit!(0);
}

impl<B: ErrorType> ErrorType for Careful<B> {
    type Error = B::Error;
}

impl<B: Backend<Submit: Submit<Payload = HostCommand>>> Backend for Careful<B> {
    type Config = B::Config;
    type Submit = Unpack<Checked<B::Submit, Kept>>;
    type Retire = Checked<B::Retire, Kept>;
    type Preempt = Checked<B::Preempt, Kept>;

    fn open(
        &mut self,
        queue: QueueId,
        config: B::Config,
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, B::Error> {
        let Halves { submit, retire, preempt, caps } = self.inner.open(queue, config)?;
        self.ledger.queues.fetch_add(1, Ordering::SeqCst);
        let tab = Tab { contract: Contract::between_threads(), ledger: Arc::clone(&self.ledger) };
        let kept = Kept(Arc::new(tab));
        Ok(Halves {
            submit: Unpack(Checked::new(submit, kept.clone())),
            retire: Checked::new(retire, kept.clone()),
            preempt: Checked::new(preempt, kept),
            caps,
        })
    }
}

/// A device that does nothing with its commands, completes them when it likes, and fails at times.
/// Every other queue wakes its waiters.
pub(crate) struct Moody {
    chance: SplitMix64,
}

impl Moody {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: SplitMix64::new(seed) }
    }
}

#[derive(Default)]
struct Line {
    fences: Mutex<VecDeque<u64>>,
    held: AtomicBool,
    waker: Mutex<Option<Waker>>,
    wakes: bool,
}

pub(crate) struct Half {
    line: Arc<Line>,
    chance: SplitMix64,
}

impl Half {
    fn step(&mut self, held: bool) -> StepDone {
        self.line.held.store(held, Ordering::SeqCst);
        if self.chance.chance(300) { StepDone::Later } else { StepDone::Now(None) }
    }

    fn wake(&self) {
        let waker = self.line.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl ErrorType for Half {
    type Error = Fault;
}

impl Submit for Half {
    type Payload = HostCommand;

    fn launch(&mut self, cmd: CmdId, _: &HostCommand, fence: bool) -> Result<(), Fault> {
        if self.chance.chance(10) {
            std::thread::yield_now();
        }
        if fence { self.fence(cmd) } else { Ok(()) }
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        self.line.fences.lock().unwrap().push_back(upto.count());
        self.wake();
        Ok(())
    }
}

impl Retire for Half {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        if self.line.held.load(Ordering::SeqCst) || self.chance.chance(300) {
            return Ok(None);
        }
        let mut fences = self.line.fences.lock().unwrap();
        let Some(first) = fences.pop_front() else { return Ok(None) };
        let mut last = first;
        while self.chance.chance(500) {
            let Some(next) = fences.pop_front() else { break };
            last = last.max(next);
        }
        drop(fences);
        let upto = CmdId(last - 1);
        Ok(Some(Retired { upto, busy: Duration::from_us(1), outcome: Outcome::Ok }))
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        if !self.line.wakes {
            return false;
        }
        *self.line.waker.lock().unwrap() = Some(waker.clone());
        let held = self.line.held.load(Ordering::SeqCst);
        if !held && !self.line.fences.lock().unwrap().is_empty() {
            self.wake();
        }
        true
    }
}

impl Preempt for Half {
    type Top = Lv3;

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        Ok(self.chance.chance(300).then_some(StepDone::Now(None)))
    }
}

impl Deactivate for Half {
    fn deactivate(&mut self) -> Result<StepDone, Fault> {
        Ok(self.step(true))
    }

    fn reactivate(&mut self) -> Result<StepDone, Fault> {
        let done = self.step(false);
        self.wake();
        Ok(done)
    }
}

impl Interrupt for Half {
    fn interrupt(&mut self) -> Result<StepDone, Fault> {
        Ok(self.step(true))
    }

    fn restore(&mut self) -> Result<StepDone, Fault> {
        // The gate is still closed.
        Ok(self.step(true))
    }
}

impl ErrorType for Moody {
    type Error = <Faulty<Half> as ErrorType>::Error;
}

impl Backend for Moody {
    type Config = ();
    type Submit = Faulty<Half>;
    type Retire = Faulty<Half>;
    type Preempt = Faulty<LevelAdapter<Half>>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, Self::Error> {
        let line = Arc::new(Line { wakes: self.chance.chance(500), ..Line::default() });
        let rates =
            FaultRates { launch: 2, fence: 5, lost_fence: 5, execution: 5, ..Default::default() };
        let mut half = || {
            let seed = self.chance.next_u64();
            (Half { line: Arc::clone(&line), chance: SplitMix64::new(seed) }, seed)
        };
        let ((submit, one), (retire, two), (preempt, three)) = (half(), half(), half());
        Ok(Halves {
            submit: Faulty::new(submit, rates, one),
            retire: Faulty::new(retire, rates, two),
            preempt: Faulty::new(LevelAdapter(preempt), rates, three),
            caps: Caps::up_to(Level::Interrupt, 1 << 10),
        })
    }
}
