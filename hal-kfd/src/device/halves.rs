//! The halves of a queue at Lv3, each around a half of the device below.

use std::sync::Arc;

use xsched_core::fault::Fault;
use xsched_core::hal::{ErrorType, HalError, LaunchMode, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Level, Step};
use xsched_core::queue::Retired;
use xsched_core::time::Duration;

use super::DeviceError;
use super::holds::{HoldOp, Holds, Slot};
use crate::error::KfdError;

/// The half that launches, by the device below.
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

impl<S: ErrorType> ErrorType for KfdSubmit<S> {
    type Error = DeviceError<S::Error>;
}

impl<S: Submit> Submit for KfdSubmit<S> {
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

    fn begin_launch(
        &mut self,
        cmd: CmdId,
        payload: &Self::Payload,
        fence: bool,
    ) -> Result<(), Self::Error> {
        let entered = self.slot.enter();
        self.below.begin_launch(cmd, payload, fence).map_err(DeviceError::Below)?;
        // Until its end.
        entered.leave_open();
        Ok(())
    }

    fn end_launch(&mut self, cmd: CmdId, fence: bool, launched: bool) -> Result<(), Self::Error> {
        let _entered = self.slot.launch_left_open();
        self.below.end_launch(cmd, fence, launched).map_err(DeviceError::Below)
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        let _entered = self.slot.enter();
        self.below.fence(upto).map_err(DeviceError::Below)
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, Self::Error> {
        let _entered = self.slot.enter();
        self.below.seal(upto).map_err(DeviceError::Below)
    }

    fn room(&self) -> Option<u32> {
        self.below.room()
    }

    /// Sets the mode of the half below, which sees each launch.
    fn set_launch_mode(&mut self, mode: LaunchMode) {
        let seen = if mode == LaunchMode::Unattended { LaunchMode::Attended } else { mode };
        self.below.set_launch_mode(seen);
    }

    fn is_unattended(&self) -> bool {
        self.below.is_unattended()
    }

    fn is_held(&self) -> bool {
        self.below.is_held()
    }
}

/// The half that watches completions, by the device below.
#[derive(Debug)]
pub struct KfdRetire<R> {
    below: R,
    slot: Arc<Slot>,
    /// The device below leaves the time of its own holds out of what it measures. A suspended queue
    /// is held there too, so nothing is left to subtract.
    gated: bool,
    /// Nanoseconds of suspension that were subtracted so far.
    seen_ns: u64,
}

impl<R> KfdRetire<R> {
    pub(super) fn new(below: R, slot: &Arc<Slot>, gated: bool) -> Self {
        Self { below, slot: Arc::clone(slot), gated, seen_ns: 0 }
    }

    /// A completion whose device time leaves out the time of suspensions.
    fn without_stops(&mut self, mut retired: Retired) -> Retired {
        if !self.gated {
            let suspended_ns = self.slot.suspended_ns();
            let new_ns = suspended_ns.saturating_sub(self.seen_ns);
            self.seen_ns = suspended_ns;
            retired.busy = Duration::from_ns(retired.busy.as_ns().saturating_sub(new_ns));
        }
        retired
    }
}

impl<R: ErrorType> ErrorType for KfdRetire<R> {
    type Error = DeviceError<R::Error>;
}

impl<R: Retire> Retire for KfdRetire<R> {
    const RUNS_ON_THREADS: bool = R::RUNS_ON_THREADS;

    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        let retired = self.below.poll_retired().map_err(DeviceError::Below)?;
        Ok(retired.map(|retired| self.without_stops(retired)))
    }

    xsched_core::pass_on_retire!(below);
}

/// The half that preempts: up to Lv2 by the device below, at Lv3 by the driver.
#[derive(Debug)]
pub struct KfdPreempt<P> {
    below: P,
    slot: Arc<Slot>,
    holds: Arc<Holds>,
    stages: bool,
    /// A step at Lv3 waits for a commit.
    is_staged: bool,
}

impl<P> KfdPreempt<P> {
    pub(super) fn new(below: P, slot: &Arc<Slot>, holds: &Arc<Holds>, stages: bool) -> Self {
        let (slot, holds) = (Arc::clone(slot), Arc::clone(holds));
        Self { below, slot, holds, stages, is_staged: false }
    }

    fn interrupt(&mut self, op: HoldOp) -> Result<StepDone, Fault> {
        if self.slot.queue.is_none() || op == HoldOp::Suspend && self.holds.stopped().is_some() {
            return Err(Fault::NotSupported);
        }
        if self.stages {
            self.holds.stage(&self.slot, op);
            self.is_staged = true;
            return Ok(StepDone::Later);
        }
        done(self.holds.now(&self.slot, op))
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

impl<P: ErrorType> ErrorType for KfdPreempt<P> {
    type Error = DeviceError<P::Error>;
}

impl<P: Steps> Steps for KfdPreempt<P> {
    /// Lv3 if the driver's queue is known and may be suspended, otherwise the level below.
    fn level(&self) -> Level {
        let can = self.slot.queue.is_some() && self.holds.stopped().is_none();
        if can { Level::Interrupt } else { self.below.level() }
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        match step {
            Step::Deactivate | Step::Reactivate => self.below.step(step),
            Step::Interrupt => self.interrupt(HoldOp::Suspend),
            Step::Restore => self.interrupt(HoldOp::Resume),
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

    /// A suspended queue runs nothing; any other one is as the device below says.
    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        if self.holds.is_suspended(&self.slot) { Ok(Some(true)) } else { self.below.is_quiet() }
    }
}

impl<P> Drop for KfdPreempt<P> {
    /// Resumes the queue: after this nothing could, and the device below may wait for its commands.
    fn drop(&mut self) {
        self.holds.close(&self.slot);
    }
}
