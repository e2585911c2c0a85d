//! Events of a queue's stream, which are recorded again and again.

use std::sync::Arc;

use crate::api::StreamApi;
use crate::error::StreamError;
use crate::growing_ring::RingReader;
use crate::launches::Call;
use crate::queue::Queue;

/// Events that are used again and again.
#[derive(Debug)]
pub(crate) struct Events<A: StreamApi> {
    queue: Arc<Queue<A>>,
    back: RingReader<A::Event>,
    /// Events that take no time.
    plain_back: RingReader<A::Event>,
    /// One that was recorded for a command that was not launched then.
    spare: Option<A::Event>,
}

impl<A: StreamApi> Events<A> {
    pub(crate) const fn new(
        queue: Arc<Queue<A>>,
        back: RingReader<A::Event>,
        plain_back: RingReader<A::Event>,
    ) -> Self {
        Self { queue, back, plain_back, spare: None }
    }

    /// Records an event that takes the time in the stream.
    pub(crate) fn record(&mut self) -> Result<A::Event, StreamError<A::Error>> {
        self.queue.member.launches.goes_on(Call::Event);
        let event = match self.spare.take().or_else(|| self.back.pop()) {
            Some(event) => Ok(event),
            None => self.queue.device.api.create_event(),
        };
        self.recorded(event)
    }

    /// Records an event that takes no time.
    pub(crate) fn record_plain(&mut self) -> Result<A::Event, StreamError<A::Error>> {
        self.queue.member.launches.goes_on(Call::Event);
        let event = match self.plain_back.pop() {
            Some(event) => Ok(event),
            None => self.queue.device.api.create_plain_event(),
        };
        self.recorded(event)
    }

    /// Records an event beside a gate, if the driver has one.
    pub(crate) fn record_beside_gate(&self) -> Option<A::Event> {
        let event = match self.queue.gate_events.take_event() {
            Some(event) => Ok(event),
            None => self.queue.device.api.create_plain_event(),
        };
        let recorded = self.recorded(event);
        recorded.inspect_err(|error| tracing::debug!(%error, "a gate has no events")).ok()
    }

    /// Keeps the event of a command that was not launched.
    pub(crate) fn keep(&mut self, event: Option<A::Event>) {
        self.spare = event.or(self.spare);
    }

    fn recorded(
        &self,
        event: Result<A::Event, A::Error>,
    ) -> Result<A::Event, StreamError<A::Error>> {
        let api = &self.queue.device.api;
        let event = event.map_err(StreamError::during("making an event"))?;
        // SAFETY: both live as long as the queue.
        let recorded = unsafe { api.record(event, self.queue.stream) };
        if let Err(source) = recorded {
            // SAFETY: made by us, and nothing else refers to it.
            unsafe { api.destroy_event(event) };
            return Err(StreamError::Driver { during: "recording an event", source });
        }
        self.queue.note_entry();
        Ok(event)
    }
}

impl<A: StreamApi> Drop for Events<A> {
    fn drop(&mut self) {
        let api = &self.queue.device.api;
        let entered = api.enter();
        while let Some(event) =
            self.spare.take().or_else(|| self.back.pop()).or_else(|| self.plain_back.pop())
        {
            // SAFETY: made by us, and nothing else refers to it any more.
            unsafe { api.destroy_event(event) };
        }
        drop(entered);
    }
}
