//! The event list: what happens when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command reaches the head of its stream on the device.
    Arrive { stream: u32 },
    /// The device finishes a command, unless `token` is out of date.
    Finish { device: u32, token: u32 },
    /// The device may start commands again after a stall.
    Kick { device: u32 },
    /// A gate has closed or opened, or a save is over.
    Stepped { stream: u32 },
    /// The host sees a marker.
    Detect { stream: u32 },
    /// A request of an open arrival process arrives.
    Arrival { task: u32 },
    /// A thread goes on.
    Thread { task: u32 },
    /// A thread that waited for its request returns.
    Return { task: u32 },
    /// The pump of a queue may launch again.
    Pump { queue: u32 },
    /// A lost marker may have to be put again.
    QueueTimer { queue: u32 },
    /// Reports reach the scheduler.
    Scheduler,
    /// The policy's timer.
    PolicyTimer,
    /// Orders reach queues.
    Orders,
    /// The watchdog looks at the scheduler's lease.
    Watchdog,
    /// An injected fault or a hold by hand.
    Disturb { index: u32 },
    /// The checkers look at everything.
    Inspect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at_ns: u64,
    /// Keeps events of the same time in the order in which they were scheduled.
    seq: u64,
    event: Event,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.seq).cmp(&(self.at_ns, self.seq))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The simulated time and what is to come.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now_ns: u64,
    seq: u64,
    heap: BinaryHeap<Entry>,
}

impl Clock {
    pub(crate) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Schedules an event; one in the past happens now.
    pub(crate) fn at(&mut self, at_ns: u64, event: Event) {
        self.seq += 1;
        let at_ns = at_ns.max(self.now_ns);
        self.heap.push(Entry { at_ns, seq: self.seq, event });
    }

    pub(crate) fn after(&mut self, span_ns: u64, event: Event) {
        self.at(self.now_ns.saturating_add(span_ns), event);
    }

    /// When the next event is.
    pub(crate) fn peek_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at_ns)
    }

    /// Moves on to the next event.
    pub(crate) fn advance(&mut self) -> Option<Event> {
        let entry = self.heap.pop()?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }

    /// Moves on to a time at which nothing happens.
    pub(crate) fn advance_to(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_scheduling() {
        let mut clock = Clock::default();
        clock.at(5, Event::Scheduler);
        clock.at(3, Event::Watchdog);
        clock.at(5, Event::Orders);
        let order: Vec<_> = std::iter::from_fn(|| clock.advance()).collect();
        assert_eq!(order, [Event::Watchdog, Event::Scheduler, Event::Orders]);
        clock.at(1, Event::Inspect);
        clock.advance();
        assert_eq!(clock.now_ns(), 5, "time does not go back");
    }
}
