//! Shows every call to an observer.

use super::{ErrorType, Retire, StepDone, Steps, Submit};
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

    crate::pass_on_submit!(inner);
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

    crate::pass_on_retire!(inner);
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
