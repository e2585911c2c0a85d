//! Shows every call to an observer.

use core::task::Waker;

use super::{ErrorType, Forecast, Kept, LaunchMode, Retire, StepDone, Steps, Submit};
use crate::fault::Fault;
use crate::id::CmdId;
use crate::level::{Level, Step};
use crate::queue::Retired;

/// A call that crossed the device boundary, after the fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A launch.
    Launch {
        /// The command.
        cmd: CmdId,
        /// With a fence behind it.
        fence: bool,
        /// True if the device took the launch.
        ok: bool,
    },
    /// A fence on demand.
    Fence {
        /// The last command before it.
        upto: CmdId,
        /// True if the device took the fence.
        ok: bool,
    },
    /// A completion.
    Retired(Retired),
    /// A step that was asked for.
    Step {
        /// The step.
        step: Step,
        /// Answer of the device.
        done: Result<StepDone, Fault>,
    },
}

/// Sees the calls. Implemented by closures.
pub trait Sink {
    /// A call was made.
    fn call(&mut self, call: Call);
}

impl<F: FnMut(Call)> Sink for F {
    fn call(&mut self, call: Call) {
        self(call);
    }
}

/// A half (or any other part) of a backend whose calls go to a [`Sink`].
#[derive(Debug)]
pub struct Traced<H, T> {
    inner: H,
    sink: T,
}

impl<H, T> Traced<H, T> {
    /// Wraps a half.
    pub const fn new(inner: H, sink: T) -> Self {
        Self { inner, sink }
    }
}

impl<H: ErrorType, T> ErrorType for Traced<H, T> {
    type Error = H::Error;
}

impl<H: Submit, T: Sink> Submit for Traced<H, T> {
    type Payload = H::Payload;

    fn launch(&mut self, cmd: CmdId, payload: &H::Payload, fence: bool) -> Result<(), H::Error> {
        let result = self.inner.launch(cmd, payload, fence);
        self.sink.call(Call::Launch { cmd, fence, ok: result.is_ok() });
        result
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), H::Error> {
        let result = self.inner.fence(upto);
        self.sink.call(Call::Fence { upto, ok: result.is_ok() });
        result
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, H::Error> {
        self.inner.seal(upto)
    }

    fn room(&self) -> Option<u32> {
        self.inner.room()
    }

    fn set_launch_mode(&mut self, mode: LaunchMode) {
        self.inner.set_launch_mode(mode);
    }

    fn is_in_burst(&self) -> bool {
        self.inner.is_in_burst()
    }

    fn end_burst(&mut self) {
        self.inner.end_burst();
    }

    fn is_unattended(&self) -> bool {
        self.inner.is_unattended()
    }

    fn is_held(&self) -> bool {
        self.inner.is_held()
    }
}

impl<H: Retire, T: Sink> Retire for Traced<H, T> {
    const RUNS_ON_THREADS: bool = H::RUNS_ON_THREADS;

    fn poll_retired(&mut self) -> Result<Option<Retired>, H::Error> {
        let result = self.inner.poll_retired();
        if let Ok(Some(retired)) = result {
            self.sink.call(Call::Retired(retired));
        }
        result
    }

    fn kept_by_caller(&self) -> Kept {
        self.inner.kept_by_caller()
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        self.inner.wake_on_retire(waker)
    }

    fn forecast(&mut self, cmd: CmdId) -> Option<Forecast> {
        self.inner.forecast(cmd)
    }
}

impl<H: Steps, T: Sink> Steps for Traced<H, T> {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        let done = self.inner.step(step);
        self.sink.call(Call::Step { step, done });
        done
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        self.inner.poll_step()
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        self.inner.is_quiet()
    }
}
