//! The half that sees completions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};
use xsched_core::hal::{ErrorType, Retire};
use xsched_core::id::CmdId;
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use crate::api::StreamApi;
use crate::error::StreamError;
use crate::queue::{Marker, Queue};

/// Sees the completions of a stream.
#[derive(Debug)]
pub struct StreamRetire<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
    pub(crate) markers: Consumer<Marker<A::Event>>,
    pub(crate) back: Producer<A::Event>,
    /// The event of the last marker that completed.
    pub(crate) last: Option<A::Event>,
    pub(crate) held: Held,
}

/// Time for which the gate was closed, taken out of what was measured.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// As the gate counts it.
    seen_ns: u64,
    /// Of that, what no measurement has contained yet.
    open_ns: u64,
    /// Measurements since the gate was last seen to have been closed.
    age: u32,
}

/// Measurements after a hold that may still contain it: completions are seen late and together.
const HELD_AGE_MAX: u32 = 64;

impl Held {
    /// Device time of commands between two events that are `elapsed_ns` apart. A gate that was
    /// closed stopped them at some time in between, but nothing says when and for how much of it;
    /// so they took what was predicted, if that fits.
    fn used_ns(&mut self, elapsed_ns: u64, held_ns: u64, expected_ns: Option<u64>) -> u64 {
        let news_ns = held_ns.saturating_sub(self.seen_ns);
        self.open_ns += news_ns;
        self.seen_ns += news_ns;
        self.age = if news_ns > 0 { 0 } else { self.age.saturating_add(1) };
        let surplus = elapsed_ns.saturating_sub(expected_ns.unwrap_or(0));
        let held = surplus.min(self.open_ns);
        self.open_ns -= held;
        // What is left was no time of waiting: the command that ran at the hold went on for it.
        if held > self.open_ns || self.age >= HELD_AGE_MAX {
            self.open_ns = 0;
        }
        elapsed_ns - held
    }

    /// The queue was idle: a hold before that stopped nothing that comes.
    const fn forget(&mut self) {
        self.open_ns = 0;
    }
}

impl<A: StreamApi> ErrorType for StreamRetire<A> {
    type Error = StreamError<A::Error>;
}

impl<A: StreamApi> Retire for StreamRetire<A> {
    /// Looks at the oldest marker first. One answer covers all that have completed.
    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        let (mut upto, mut busy_ns) = (None, 0_u64);
        while let Ok(marker) = self.markers.peek() {
            let marker = *marker;
            // SAFETY: events live until they are given back below.
            match unsafe { self.queue.device.api.query(marker.event) } {
                Ok(true) => {}
                Ok(false) => break,
                // What completed before is told first.
                Err(_) if upto.is_some() => break,
                Err(source) => {
                    return Err(StreamError::Driver { during: "asking for completions", source });
                }
            }
            let _ = self.markers.pop();
            busy_ns = busy_ns.saturating_add(self.used_ns(&marker));
            upto = Some(marker.upto);
        }
        let Some(count) = upto else { return Ok(None) };
        // Release: whoever sees it finds the events that came back.
        self.queue.retired.store(count, Ordering::Release);
        let busy = Duration::from_ns(busy_ns);
        Ok(Some(Retired { upto: CmdId(count - 1), busy, outcome: Outcome::Ok }))
    }
}

impl<A: StreamApi> StreamRetire<A> {
    /// Device time of the commands that a completed marker covers, in nanoseconds. What cannot be
    /// measured counts as predicted.
    fn used_ns(&mut self, marker: &Marker<A::Event>) -> u64 {
        let queue = &self.queue;
        let held_ns = if queue.word.is_some() { queue.member.gate.held_ns() } else { 0 };
        let from = marker.start.or(self.last);
        let elapsed = from.map(|from| {
            // SAFETY: both have completed, and live until they are given back.
            unsafe { queue.device.api.elapsed_ns(from, marker.event) }
        });
        if marker.start.is_some() {
            self.held.forget();
        }
        let was_open = self.held.open_ns;
        let used = match elapsed {
            Some(Ok(elapsed)) => self.held.used_ns(elapsed, held_ns, marker.expected_ns),
            _ => marker.expected_ns.unwrap_or(0),
        };
        let undisturbed = was_open == 0 && self.held.open_ns == 0;
        if undisturbed
            && let Some(kind) = marker.kind
            && let Some(mean) = used.checked_div(u64::from(marker.commands))
        {
            queue.predictor.measured(kind, mean);
        }
        self.give_back(marker.start);
        let last = self.last.replace(marker.event);
        self.give_back(last);
        used
    }

    fn give_back(&mut self, event: Option<A::Event>) {
        let Some(event) = event else { return };
        if self.back.push(event).is_err() {
            self.destroy(event);
        }
    }

    fn destroy(&self, event: A::Event) {
        // SAFETY: made by the queue, and nobody else knows it any more.
        unsafe { self.queue.device.api.destroy_event(event) };
    }
}

impl<A: StreamApi> Drop for StreamRetire<A> {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        let entered = queue.device.api.enter();
        while let Ok(marker) = self.markers.pop() {
            self.destroy(marker.event);
            marker.start.into_iter().for_each(|event| self.destroy(event));
        }
        self.last.take().into_iter().for_each(|event| self.destroy(event));
        drop(entered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_behind_a_closed_gate_is_not_device_time() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(100, 0, Some(100)), 100);
        // A hold of 1,000, of which 950 lie in this measurement, and 50 while the command before
        // was still running.
        assert_eq!(held.used_ns(1_050, 1_000, Some(100)), 100);
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
    }

    #[test]
    fn a_hold_that_is_seen_too_early_is_taken_out_later() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
        assert_eq!(held.used_ns(1_100, 1_000, Some(100)), 100);
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
    }

    #[test]
    fn no_more_is_taken_out_than_was_held() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(5_000, 300, Some(100)), 4_700);
        assert_eq!(held.used_ns(5_000, 300, None), 5_000);
    }
}
