//! The half that launches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};
use xsched_core::hal::{ErrorType, Submit};
use xsched_core::id::CmdId;

use crate::api::StreamApi;
use crate::command::StreamCommand;
use crate::error::StreamError;
use crate::predict::Placement;
use crate::queue::{Marker, Queue};

/// Launches into a stream.
#[derive(Debug)]
pub struct StreamSubmit<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
    pub(crate) markers: Producer<Marker<A::Event>>,
    pub(crate) events: Events<A>,
    pub(crate) placement: Placement,
    pub(crate) batch: Batch<A::Event>,
}

/// Commands since the last marker.
#[derive(Debug)]
pub(crate) struct Batch<E> {
    start: Option<E>,
    commands: u32,
    expected_ns: Option<u64>,
    kind: Option<u32>,
}

impl<E> Default for Batch<E> {
    fn default() -> Self {
        Self { start: None, commands: 0, expected_ns: Some(0), kind: None }
    }
}

impl<E> Batch<E> {
    fn add(&mut self, kind: u32, expected_ns: Option<u64>) {
        let same = self.commands == 0 || self.kind == Some(kind);
        self.kind = same.then_some(kind);
        self.commands = self.commands.saturating_add(1);
        let sum = self.expected_ns.zip(expected_ns);
        self.expected_ns = sum.map(|(before, ns)| before.saturating_add(ns));
    }
}

/// Events that are used again and again.
#[derive(Debug)]
pub(crate) struct Events<A: StreamApi> {
    queue: Arc<Queue<A>>,
    back: Consumer<A::Event>,
}

impl<A: StreamApi> Events<A> {
    pub(crate) const fn new(queue: Arc<Queue<A>>, back: Consumer<A::Event>) -> Self {
        Self { queue, back }
    }

    /// Records an event in the stream.
    fn record(&mut self) -> Result<A::Event, StreamError<A::Error>> {
        let api = &self.queue.device.api;
        let event = match self.back.pop() {
            Ok(event) => event,
            Err(_) => api.create_event().map_err(StreamError::during("making an event"))?,
        };
        // SAFETY: both live as long as the queue.
        let recorded = unsafe { api.record(event, self.queue.stream) };
        if let Err(source) = recorded {
            // SAFETY: made by us, and known to nobody else.
            unsafe { api.destroy_event(event) };
            return Err(StreamError::Driver { during: "recording an event", source });
        }
        Ok(event)
    }
}

impl<A: StreamApi> Drop for Events<A> {
    fn drop(&mut self) {
        let api = &self.queue.device.api;
        let entered = api.enter();
        while let Ok(event) = self.back.pop() {
            // SAFETY: made by us, and nobody else knows it any more.
            unsafe { api.destroy_event(event) };
        }
        drop(entered);
    }
}

impl<A: StreamApi> ErrorType for StreamSubmit<A> {
    type Error = StreamError<A::Error>;
}

impl<A: StreamApi> Submit for StreamSubmit<A> {
    type Payload = StreamCommand<A>;

    /// Puts a gate in front if it is time for one. A marker that cannot be put is left out: it is
    /// missed and put again later, while the command has been launched.
    fn launch(
        &mut self,
        cmd: CmdId,
        payload: &StreamCommand<A>,
        marker: bool,
    ) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        let api = &queue.device.api;
        let entered = api.enter().map_err(StreamError::during("choosing the device"))?;
        let inside = queue.member.entries.enter();
        self.prepare(payload)?;
        // SAFETY: the stream lives as long as the queue, and the device is current.
        let launched = unsafe { payload.launch(api, queue.stream) };
        launched.map_err(StreamError::during("launching a command"))?;
        queue.launched.store(cmd.count(), Ordering::Relaxed);
        if marker {
            let marked = self.put_marker(cmd);
            if let Err(error) = marked {
                tracing::debug!(%error, "a marker was not put");
            }
        }
        drop(inside);
        drop(entered);
        Ok(())
    }

    fn mark(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        let entered = queue.device.api.enter();
        let entered = entered.map_err(StreamError::during("choosing the device"))?;
        let inside = queue.member.entries.enter();
        let marked = self.put_marker(upto);
        drop(inside);
        drop(entered);
        marked
    }
}

impl<A: StreamApi> StreamSubmit<A> {
    /// What goes into the stream before a command: a gate, or where nothing is in flight an event
    /// from which the command's time counts.
    fn prepare(&mut self, payload: &StreamCommand<A>) -> Result<(), StreamError<A::Error>> {
        let queue = &self.queue;
        let idle = queue.is_idle();
        let expected_ns = payload.expected_ns.or_else(|| queue.predictor.expected_ns(payload.kind));
        if idle && self.batch.start.is_none() {
            // Without it the first commands count from the marker before, which is put right by
            // what was predicted.
            self.batch.start = self.events.record().ok();
        }
        if let Some(word) = queue.word
            && self.placement.gate(idle, expected_ns, queue.spacing.ns())
        {
            // SAFETY: the word is given back only after the stream got past all that is in it.
            let gated = unsafe { queue.device.api.wait_zero(queue.stream, word.device) };
            gated.map_err(StreamError::during("placing a gate"))?;
        }
        self.batch.add(payload.kind, expected_ns);
        Ok(())
    }

    fn put_marker(&mut self, last: CmdId) -> Result<(), StreamError<A::Error>> {
        if self.markers.is_full() {
            return Err(StreamError::MarkersFull { markers: self.markers.buffer().capacity() });
        }
        let event = self.events.record()?;
        let Batch { start, commands, expected_ns, kind } = std::mem::take(&mut self.batch);
        let upto = last.count();
        let marker = Marker { upto, event, start, commands, expected_ns, kind };
        // It has room: only this half fills it.
        let _ = self.markers.push(marker);
        Ok(())
    }
}
