//! A stream as programs without XSched use it, for comparison.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use xsched_hal_stream::{StreamApi, StreamCommand};

/// The poll delay of a stream with enough commands in flight.
const POLL_DELAY: Duration = Duration::from_micros(20);

/// A stream that no scheduler knows of.
#[derive(Debug)]
pub struct RawStream<A: StreamApi> {
    api: Arc<A>,
    stream: A::Stream,
    in_flight: VecDeque<A::Event>,
    free: Vec<A::Event>,
}

impl<A: StreamApi> RawStream<A> {
    /// A stream with this priority, or the driver's default.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(api: Arc<A>, priority: Option<i32>) -> Result<Self, A::Error> {
        let entered = api.enter()?;
        let stream = api.create_stream(priority)?;
        drop(entered);
        Ok(Self { api, stream, in_flight: VecDeque::new(), free: Vec::new() })
    }

    /// Launches a command.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn launch(&mut self, command: &StreamCommand<A>) -> Result<(), A::Error> {
        let entered = self.api.enter()?;
        // SAFETY: the stream lives as long as this, and the device is current.
        let launched = unsafe { command.launch_into(&self.api, self.stream) };
        drop(entered);
        launched
    }

    /// Launches a command when fewer than `threshold` of those are in flight that were launched
    /// like this.
    ///
    /// # Errors
    /// If the driver refuses, or a command failed.
    pub fn launch_within(
        &mut self,
        command: &StreamCommand<A>,
        threshold: u32,
    ) -> Result<(), A::Error> {
        while self.in_flight.len() >= threshold as usize {
            let Some(&oldest) = self.in_flight.front() else { break };
            // SAFETY: made below, and destroyed with this.
            if unsafe { self.api.query(oldest)? } {
                self.free.extend(self.in_flight.pop_front());
            } else {
                thread::sleep(POLL_DELAY);
            }
        }
        self.launch(command)?;
        let entered = self.api.enter()?;
        let event = self.free.pop().map_or_else(|| self.api.create_event(), Ok)?;
        // SAFETY: both live as long as this.
        let recorded = unsafe { self.api.record(event, self.stream) };
        drop(entered);
        match recorded {
            Ok(()) => self.in_flight.push_back(event),
            Err(_) => self.free.push(event),
        }
        recorded
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// If a command failed.
    pub fn wait(&mut self) -> Result<(), A::Error> {
        let entered = self.api.enter()?;
        // SAFETY: the stream lives as long as this.
        let ended = unsafe { self.api.synchronize(self.stream) };
        drop(entered);
        ended
    }
}

impl<A: StreamApi> Drop for RawStream<A> {
    fn drop(&mut self) {
        let Ok(_entered) = self.api.enter() else { return };
        for event in self.in_flight.drain(..).chain(self.free.drain(..)) {
            // SAFETY: this made the event, and nothing else refers to it.
            unsafe { self.api.destroy_event(event) };
        }
        // SAFETY: made by this, which is gone. Nothing can be done about an error.
        let _ = unsafe { self.api.destroy_stream(self.stream) };
    }
}
