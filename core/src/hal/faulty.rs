//! Injects seeded faults between a queue and its device.

use core::fmt;

use super::{ErrorType, HalError, Retire, StepDone, Steps, Submit};
use crate::fault::Fault;
use crate::id::CmdId;
use crate::level::{Level, Step};
use crate::queue::{Outcome, Retired};
use crate::rng::SplitMix64;
use crate::time::Duration;

/// How often each fault happens, in permille of the calls it can happen to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// A launch is refused.
    pub launch: u32,
    /// A fence on demand is refused.
    pub fence: u32,
    /// A completion is never seen. A later one tells of it.
    pub lost_fence: u32,
    /// The last command of a completed batch failed.
    pub execution: u32,
    /// A hold step is refused.
    pub step: u32,
}

/// A half of a backend that goes wrong now and then. The same seed gives the same faults.
#[derive(Debug)]
pub struct Faulty<H> {
    inner: H,
    rates: FaultRates,
    rng: SplitMix64,
    swallowed: Duration,
    injected: u64,
}

/// An injected fault or one of the device.
#[derive(Debug)]
pub enum FaultyError<E> {
    /// Injected.
    Injected(Fault),
    /// The device's own.
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for FaultyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Injected(fault) => write!(f, "injected: {fault}"),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for FaultyError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Injected(_) => None,
            Self::Inner(error) => error.source(),
        }
    }
}

impl<E: HalError> HalError for FaultyError<E> {
    fn kind(&self) -> Fault {
        match self {
            Self::Injected(fault) => *fault,
            Self::Inner(error) => error.kind(),
        }
    }
}

impl<H> Faulty<H> {
    /// Wraps a half.
    pub const fn new(inner: H, rates: FaultRates, seed: u64) -> Self {
        let rng = SplitMix64::new(seed);
        Self { inner, rates, rng, swallowed: Duration::ZERO, injected: 0 }
    }

    /// From now on, faults happen this often.
    pub fn set_rates(&mut self, rates: FaultRates) {
        self.rates = rates;
    }

    /// Faults injected so far.
    #[must_use]
    pub const fn injected(&self) -> u64 {
        self.injected
    }

    /// The wrapped half.
    pub const fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }

    fn strikes(&mut self, permille: u32) -> bool {
        let strikes = permille > 0 && self.rng.chance(permille);
        self.injected += u64::from(strikes);
        strikes
    }
}

impl<H: ErrorType> ErrorType for Faulty<H> {
    type Error = FaultyError<H::Error>;
}

impl<H: Submit> Submit for Faulty<H> {
    type Payload = H::Payload;

    fn launch(&mut self, cmd: CmdId, payload: &H::Payload, fence: bool) -> Result<(), Self::Error> {
        if self.strikes(self.rates.launch) {
            return Err(FaultyError::Injected(Fault::Launch));
        }
        self.inner.launch(cmd, payload, fence).map_err(FaultyError::Inner)
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        if self.strikes(self.rates.fence) {
            return Err(FaultyError::Injected(Fault::Launch));
        }
        self.inner.fence(upto).map_err(FaultyError::Inner)
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, Self::Error> {
        self.inner.seal(upto).map_err(FaultyError::Inner)
    }

    crate::pass_on_submit!(inner);
}

impl<H: Retire> Retire for Faulty<H> {
    const RUNS_ON_THREADS: bool = H::RUNS_ON_THREADS;

    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        let Some(mut retired) = self.inner.poll_retired().map_err(FaultyError::Inner)? else {
            return Ok(None);
        };
        // An error does not go away because one completion was not seen.
        if retired.outcome == Outcome::Ok && self.strikes(self.rates.lost_fence) {
            self.swallowed += retired.busy;
            return Ok(None);
        }
        retired.busy += core::mem::take(&mut self.swallowed);
        if retired.outcome == Outcome::Ok && self.strikes(self.rates.execution) {
            retired.outcome = Outcome::Failed { from: retired.upto, fault: Fault::Execution };
        }
        Ok(Some(retired))
    }

    crate::pass_on_retire!(inner);
}

impl<H: Steps> Steps for Faulty<H> {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        if step.is_hold() && self.strikes(self.rates.step) {
            return Err(Fault::Timeout);
        }
        self.inner.step(step)
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        self.inner.poll_step()
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        self.inner.is_quiet()
    }
}
