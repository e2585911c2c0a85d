//! The half that preempts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_core::hal::{Deactivate, ErrorType, Lv2, Preempt, StepDone};

use crate::api::StreamApi;
use crate::error::StreamError;
use crate::queue::Queue;

/// Holds what is launched into a stream and has not started, by its gates.
#[derive(Debug)]
pub struct StreamPreempt<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
}

impl<A: StreamApi> ErrorType for StreamPreempt<A> {
    type Error = StreamError<A::Error>;
}

impl<A: StreamApi> Preempt for StreamPreempt<A> {
    type Top = Lv2;

    /// By events around the gates. Without commands behind a gate, by what has been seen to retire,
    /// or by the end of a stream that is the queue's own. `None` where a gate is without events,
    /// because the driver refused them, and some time after the hold where a graph may wait at a
    /// gate of its own.
    fn is_quiet(&mut self) -> Result<Option<bool>, Self::Error> {
        self.queue.is_quiet()
    }
}

impl<A: StreamApi> Deactivate for StreamPreempt<A> {
    /// Closes the gate, which takes one store, and waits out the microseconds for which a device
    /// that looked just before may still start a command.
    fn deactivate(&mut self) -> Result<StepDone, Self::Error> {
        let queue = &self.queue;
        queue.device.gates.set_held(&queue.member, true);
        let now = Instant::now();
        queue.hold(now);
        let settled = now + Duration::from_nanos(queue.device.api.settle_ns());
        while Instant::now() < settled {
            std::hint::spin_loop();
        }
        Ok(StepDone::Now(None))
    }

    fn reactivate(&mut self) -> Result<StepDone, Self::Error> {
        let queue = &self.queue;
        queue.device.occupancy.release(&queue.occupant, Instant::now(), queue.is_idle());
        queue.device.gates.set_held(&queue.member, false);
        Ok(StepDone::Now(None))
    }
}
