//! The halves of a queue.

use std::sync::Arc;
use std::task::Waker;

use xsched_core::fault::Fault;
use xsched_core::hal::{ErrorType, Forecast, HalError, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Level, Step};
use xsched_core::queue::Retired;
use xsched_core::time::Duration;

use super::DeviceError;
use super::holds::{Holds, Slot, Wish};
use crate::error::KfdError;

/// Launches as the device below does.
#[derive(Debug)]
pub struct KfdSubmit<S> {
    below: S,
    slot: Arc<Slot>,
}

impl<S> KfdSubmit<S> {
    pub(super) fn new(below: S, slot: &Arc<Slot>) -> Self {
        Self { below, slot: Arc::clone(slot) }
    }
}

impl<S: ErrorType> ErrorType for KfdSubmit<S>
where
    S::Error: std::error::Error + 'static,
{
    type Error = DeviceError<S::Error>;
}

impl<S: Submit> Submit for KfdSubmit<S>
where
    S::Error: std::error::Error + 'static,
{
    type Payload = S::Payload;

    fn launch(
        &mut self,
        cmd: CmdId,
        payload: &Self::Payload,
        fence: bool,
    ) -> Result<(), Self::Error> {
        let _entered = self.slot.enter();
        self.below.launch(cmd, payload, fence).map_err(DeviceError::Below)
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        let _entered = self.slot.enter();
        self.below.fence(upto).map_err(DeviceError::Below)
    }
}

/// Watches completions as the device below does.
#[derive(Debug)]
pub struct KfdRetire<R> {
    below: R,
    slot: Arc<Slot>,
    /// The device below takes time for which it held the queue out of what it measures, and a
    /// suspended queue is held there too.
    gated: bool,
    /// Time suspended that has been taken out of what was measured.
    seen_ns: u64,
}

impl<R> KfdRetire<R> {
    pub(super) fn new(below: R, slot: &Arc<Slot>, gated: bool) -> Self {
        Self { below, slot: Arc::clone(slot), gated, seen_ns: 0 }
    }

    /// Device time without that for which the queue was suspended.
    fn without_stops(&mut self, mut retired: Retired) -> Retired {
        if !self.gated {
            let stopped = self.slot.stopped_ns();
            let news = Duration::from_ns(stopped.saturating_sub(self.seen_ns));
            self.seen_ns = stopped;
            retired.busy = Duration::from_ns(retired.busy.as_ns().saturating_sub(news.as_ns()));
        }
        retired
    }
}

impl<R: ErrorType> ErrorType for KfdRetire<R>
where
    R::Error: std::error::Error + 'static,
{
    type Error = DeviceError<R::Error>;
}

impl<R: Retire> Retire for KfdRetire<R>
where
    R::Error: std::error::Error + 'static,
{
    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        let retired = self.below.poll_retired().map_err(DeviceError::Below)?;
        Ok(retired.map(|retired| self.without_stops(retired)))
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        self.below.wake_on_retire(waker)
    }

    fn forecast(&mut self, cmd: CmdId) -> Option<Forecast> {
        self.below.forecast(cmd)
    }
}

/// Preempts: up to Lv2 as the device below does, at Lv3 by the driver.
#[derive(Debug)]
pub struct KfdPreempt<P> {
    below: P,
    slot: Arc<Slot>,
    holds: Arc<Holds>,
    stages: bool,
    /// A step of ours waits for a commit.
    is_staged: bool,
}

impl<P> KfdPreempt<P> {
    pub(super) fn new(below: P, slot: &Arc<Slot>, holds: &Arc<Holds>, stages: bool) -> Self {
        let (slot, holds) = (Arc::clone(slot), Arc::clone(holds));
        Self { below, slot, holds, stages, is_staged: false }
    }

    fn interrupt(&mut self, wish: Wish) -> Result<StepDone, Fault> {
        if self.slot.queue.is_none() {
            return Err(Fault::NotSupported);
        }
        if self.stages {
            self.holds.stage(&self.slot, wish);
            self.is_staged = true;
            return Ok(StepDone::Later);
        }
        done(self.holds.now(&self.slot, wish))
    }
}

fn done(answer: Result<(), KfdError>) -> Result<StepDone, Fault> {
    match answer {
        Ok(()) => Ok(StepDone::Now(None)),
        Err(error) => {
            tracing::warn!(%error, "a step at Lv3 failed");
            Err(error.kind())
        }
    }
}

impl<P: ErrorType> ErrorType for KfdPreempt<P>
where
    P::Error: std::error::Error + 'static,
{
    type Error = DeviceError<P::Error>;
}

impl<P: Steps> Steps for KfdPreempt<P>
where
    P::Error: std::error::Error + 'static,
{
    /// Lv3 if it is known which of the driver's queues this is.
    fn level(&self) -> Level {
        if self.slot.queue.is_some() { Level::Interrupt } else { self.below.level() }
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        match step {
            Step::Deactivate | Step::Reactivate => self.below.step(step),
            Step::Interrupt => self.interrupt(Wish::Stop),
            Step::Restore => self.interrupt(Wish::Go),
        }
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        if !self.is_staged {
            return self.below.poll_step();
        }
        let Some(ended) = self.slot.take_end() else { return Ok(None) };
        self.is_staged = false;
        done(ended).map(Some)
    }
}

impl<P> Drop for KfdPreempt<P> {
    /// Nobody could let it go later, and the device below may wait for what was launched.
    fn drop(&mut self) {
        self.holds.close(&self.slot);
    }
}
