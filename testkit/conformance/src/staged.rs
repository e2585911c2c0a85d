//! Any device, with its steps put off until a commit: what a backend is like where several holds
//! decided together cost one preemption.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, StepDone, Steps};
use xsched_core::id::QueueId;
use xsched_core::level::{Level, Step};

use crate::subject::{Claims, Subject, Work};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each call leaves what is behind the lock as it should be.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A subject whose device stages its steps. The inner one must not.
#[derive(Clone, Copy, Debug)]
pub struct Staged<S>(pub S);

/// The steps of a device that wait for a commit.
type Waiting<P> = Arc<Mutex<Vec<(Weak<Mutex<Slot<P>>>, Step)>>>;

/// A queue's own steps, and how the last one went that was committed.
#[derive(Debug)]
struct Slot<P> {
    steps: P,
    done: Option<Result<StepDone, Fault>>,
}

/// The device of a [`Staged`] subject, and a wrapper for any other.
#[derive(Debug)]
pub struct StagedDevice<B: Backend> {
    inner: B,
    waiting: Waiting<B::Preempt>,
    preemptions: u64,
}

impl<B: Backend> StagedDevice<B> {
    /// Wraps a device that carries out its steps at once.
    pub fn new(inner: B) -> Self {
        Self { inner, waiting: Arc::default(), preemptions: 0 }
    }

    /// Commits so far that had anything to carry out.
    pub const fn preemptions(&self) -> u64 {
        self.preemptions
    }
}

/// The half that preempts.
#[derive(Debug)]
pub struct StagedSteps<P> {
    level: Level,
    slot: Arc<Mutex<Slot<P>>>,
    waiting: Waiting<P>,
}

impl<B: Backend> ErrorType for StagedDevice<B> {
    type Error = B::Error;
}

impl<P: ErrorType> ErrorType for StagedSteps<P> {
    type Error = P::Error;
}

impl<B: Backend> Backend for StagedDevice<B> {
    type Config = B::Config;
    type Submit = B::Submit;
    type Retire = B::Retire;
    type Preempt = StagedSteps<B::Preempt>;

    fn open(
        &mut self,
        queue: QueueId,
        config: B::Config,
    ) -> Result<Halves<B::Submit, B::Retire, Self::Preempt>, B::Error> {
        let Halves { submit, retire, preempt: steps, caps } = self.inner.open(queue, config)?;
        let level = steps.level();
        let slot = Arc::new(Mutex::new(Slot { steps, done: None }));
        let preempt = StagedSteps { level, slot, waiting: Arc::clone(&self.waiting) };
        Ok(Halves { submit, retire, preempt, caps })
    }

    fn stages(&self) -> bool {
        true
    }

    fn commit(&mut self) -> Result<(), B::Error> {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        self.preemptions += u64::from(!waiting.is_empty());
        for (slot, step) in waiting {
            // Queues that have gone need no steps any more.
            if let Some(slot) = slot.upgrade() {
                let mut slot = lock(&slot);
                slot.done = Some(slot.steps.step(step));
            }
        }
        Ok(())
    }

    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }
}

impl<P: Steps> Steps for StagedSteps<P> {
    fn level(&self) -> Level {
        self.level
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        let needed = match step {
            Step::Deactivate | Step::Reactivate => Level::Deactivate,
            Step::Interrupt | Step::Restore => Level::Interrupt,
        };
        if needed > self.level {
            return Err(Fault::NotSupported);
        }
        lock(&self.waiting).push((Arc::downgrade(&self.slot), step));
        Ok(StepDone::Later)
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        let mut slot = lock(&self.slot);
        match slot.done.take() {
            None => Ok(None),
            Some(Ok(StepDone::Later)) => {
                let done = slot.steps.poll_step()?;
                if done.is_none() {
                    slot.done = Some(Ok(StepDone::Later));
                }
                Ok(done)
            }
            Some(done) => done.map(Some),
        }
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        lock(&self.slot).steps.is_quiet()
    }
}

impl<S: Subject> Subject for Staged<S> {
    type Command = S::Command;
    type Backend = StagedDevice<S::Backend>;

    fn claims(&self) -> Claims {
        self.0.claims()
    }

    fn device(&self) -> Result<Self::Backend, String> {
        Ok(StagedDevice::new(self.0.device()?))
    }

    fn config(&self, device: &mut Self::Backend) -> <Self::Backend as Backend>::Config {
        self.0.config(&mut device.inner)
    }

    fn command(&self, work: Work) -> Option<S::Command> {
        self.0.command(work)
    }

    fn preemptions(&self, device: &Self::Backend) -> Option<u64> {
        Some(device.preemptions())
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn settle(&self) -> Duration {
        self.0.settle()
    }

    fn start_lag(&self) -> Duration {
        self.0.start_lag()
    }

    fn rounds(&self) -> u32 {
        self.0.rounds()
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }
}
