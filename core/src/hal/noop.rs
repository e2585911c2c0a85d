//! A device that does nothing, at once.

use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{
    Backend, Deactivate, ErrorType, Halves, Interrupt, LevelAdapter, Lv3, Preempt, Retire,
};
use super::{StepDone, Submit};
use crate::id::{CmdId, QueueId};
use crate::level::{Caps, Level};
use crate::queue::{Outcome, Retired};
use crate::time::Duration;

/// The shared state of one hardware queue of a [`Noop`] device.
// Threads that use neighbours must not be in each other's way.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct NoopQueue {
    /// Commands covered by a fence.
    fenced: AtomicU64,
    held: AtomicBool,
}

impl NoopQueue {
    /// A hardware queue that was not opened yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { fenced: AtomicU64::new(0), held: AtomicBool::new(false) }
    }
}

/// A device on which every command completes as soon as it is launched, unless its queue is held.
/// Commands have no effect and take no time. For benches, fuzzing and as the simplest example of a
/// backend. Opens the queue states it was given, one after the other.
#[derive(Debug)]
pub struct Noop<'a, P: ?Sized = ()> {
    queues: core::slice::Iter<'a, NoopQueue>,
    payload: PhantomData<fn(&P)>,
}

impl<'a, P: ?Sized> Noop<'a, P> {
    /// A device with these hardware queues.
    #[must_use]
    pub fn new(queues: &'a [NoopQueue]) -> Self {
        Self { queues: queues.iter(), payload: PhantomData }
    }
}

/// One half of an open queue.
#[derive(Debug)]
pub struct NoopHalf<'a, P: ?Sized> {
    queue: &'a NoopQueue,
    seen: u64,
    payload: PhantomData<fn(&P)>,
}

/// The device has no more queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMoreQueues;

impl fmt::Display for NoMoreQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device has no more hardware queues")
    }
}

impl core::error::Error for NoMoreQueues {}

impl super::HalError for NoMoreQueues {
    fn kind(&self) -> crate::fault::Fault {
        crate::fault::Fault::NotSupported
    }
}

impl From<Infallible> for NoMoreQueues {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl<P: ?Sized> ErrorType for Noop<'_, P> {
    type Error = NoMoreQueues;
}

impl<P: ?Sized> ErrorType for NoopHalf<'_, P> {
    type Error = NoMoreQueues;
}

impl<P: ?Sized> Submit for NoopHalf<'_, P> {
    type Payload = P;

    fn launch(&mut self, cmd: CmdId, _: &P, fence: bool) -> Result<(), NoMoreQueues> {
        if fence { self.fence(cmd) } else { Ok(()) }
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), NoMoreQueues> {
        // Release: the thread that sees the fence sees everything before the launch.
        self.queue.fenced.store(upto.count(), Ordering::Release);
        Ok(())
    }
}

impl<P: ?Sized> Retire for NoopHalf<'_, P> {
    fn poll_retired(&mut self) -> Result<Option<Retired>, NoMoreQueues> {
        if self.queue.held.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let fenced = self.queue.fenced.load(Ordering::Acquire);
        if fenced <= self.seen {
            return Ok(None);
        }
        self.seen = fenced;
        let upto = CmdId(fenced - 1);
        Ok(Some(Retired { upto, busy: Duration::ZERO, outcome: Outcome::Ok }))
    }
}

impl<P: ?Sized> Preempt for NoopHalf<'_, P> {
    type Top = Lv3;

    /// Commands take no time, and are held only in that nothing is told of them.
    fn is_quiet(&mut self) -> Result<Option<bool>, NoMoreQueues> {
        Ok(Some(self.queue.held.load(Ordering::Relaxed)))
    }
}

impl<P: ?Sized> Deactivate for NoopHalf<'_, P> {
    fn deactivate(&mut self) -> Result<StepDone, NoMoreQueues> {
        self.queue.held.store(true, Ordering::Relaxed);
        Ok(StepDone::Now(None))
    }

    fn reactivate(&mut self) -> Result<StepDone, NoMoreQueues> {
        self.queue.held.store(false, Ordering::Relaxed);
        Ok(StepDone::Now(None))
    }
}

impl<P: ?Sized> Interrupt for NoopHalf<'_, P> {
    fn interrupt(&mut self) -> Result<StepDone, NoMoreQueues> {
        Ok(StepDone::Now(None))
    }

    fn restore(&mut self) -> Result<StepDone, NoMoreQueues> {
        Ok(StepDone::Now(None))
    }
}

impl<'a, P: ?Sized> Backend for Noop<'a, P> {
    type Config = ();
    type Submit = NoopHalf<'a, P>;
    type Retire = NoopHalf<'a, P>;
    type Preempt = LevelAdapter<NoopHalf<'a, P>>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, NoMoreQueues> {
        let queue = self.queues.next().ok_or(NoMoreQueues)?;
        let half = || NoopHalf { queue, seen: 0, payload: PhantomData };
        let caps = Caps::up_to(Level::Interrupt, 1 << 16);
        Ok(Halves { submit: half(), retire: half(), preempt: LevelAdapter(half()), caps })
    }
}
