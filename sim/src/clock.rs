//! The event list: what happens when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command reaches the head of its stream on the device.
    Arrive {
        stream: u32,
    },
    /// The device finishes a command, unless `token` is out of date.
    Finish {
        device: u16,
        token: u32,
    },
    /// The device may start commands again after a stall.
    Kick {
        device: u32,
    },
    /// An operation of the whole device may begin, has saved what it saves, is over.
    Operate {
        device: u32,
    },
    Saved {
        device: u32,
    },
    Operated {
        device: u32,
    },
    /// A gate has closed or opened, or a save is over.
    Stepped {
        stream: u32,
    },
    /// The host sees a fence.
    Detect {
        stream: u32,
    },
    /// A request of an open arrival process arrives.
    Arrival {
        task: u32,
    },
    /// A thread goes on.
    Thread {
        task: u32,
    },
    /// A thread that waited for its request returns.
    Return {
        task: u32,
    },
    /// Requests that a comparator keeps back may begin.
    Begin,
    /// The pump of a queue may launch again.
    Pump {
        queue: u32,
    },
    /// A lost fence may have to be put again.
    QueueTimer {
        queue: u32,
    },
    /// Reports reach the scheduler.
    Scheduler,
    /// The policy's timer.
    PolicyTimer,
    /// Orders reach queues.
    Orders,
    /// The daemon of the node looks.
    Daemon,
    /// Stores of the daemon into a process's gates reach the device.
    Gates {
        unit: u32,
    },
    /// The watchdog looks at the scheduler's lease.
    Watchdog,
    /// An injected fault or a user hold.
    Disturb {
        index: u32,
    },
    /// The checkers look at everything.
    Inspect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<E> {
    at_ns: u64,
    /// Keeps events of the same time in the order in which they were scheduled.
    seq: u64,
    event: E,
}

impl<E: Eq> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.seq).cmp(&(self.at_ns, self.seq))
    }
}

impl<E: Eq> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events kept in order; later ones are in the heap.
const NEAR_MAX: usize = 32;

/// The simulated time and what is to come.
///
/// A small scenario has few events to come, and most new ones come soon. Finding their place among
/// the next few by looking from the soonest on is faster than what a heap does.
#[derive(Debug)]
pub(crate) struct Clock<E = Event> {
    now_ns: u64,
    seq: u64,
    /// The next events, soonest last. Everything in the heap comes after them.
    near: Vec<Entry<E>>,
    far: BinaryHeap<Entry<E>>,
}

impl<E: Eq> Default for Clock<E> {
    fn default() -> Self {
        Self { now_ns: 0, seq: 0, near: Vec::new(), far: BinaryHeap::new() }
    }
}

impl<E: Copy + Eq> Clock<E> {
    pub(crate) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Schedules an event; one in the past happens now.
    pub(crate) fn at(&mut self, at_ns: u64, event: E) {
        self.seq += 1;
        let at_ns = at_ns.max(self.now_ns);
        let entry = Entry { at_ns, seq: self.seq, event };
        // Of the same time, it is the last.
        let last = self.near.first().is_none_or(|first| first.at_ns <= at_ns);
        if last && !self.far.is_empty() {
            self.far.push(entry);
            return;
        }
        let mut place = self.near.len();
        self.near.push(entry);
        while place > 0 && self.near[place - 1].at_ns <= at_ns {
            self.near.swap(place - 1, place);
            place -= 1;
        }
        if self.near.len() > NEAR_MAX {
            self.far.push(self.near.remove(0));
        }
    }

    pub(crate) fn after(&mut self, span_ns: u64, event: E) {
        self.at(self.now_ns.saturating_add(span_ns), event);
    }

    /// When the next event is.
    pub(crate) fn peek_ns(&self) -> Option<u64> {
        self.near.last().or_else(|| self.far.peek()).map(|entry| entry.at_ns)
    }

    /// Moves on to the next event, unless that is after `end_ns`.
    pub(crate) fn advance(&mut self, end_ns: u64) -> Option<E> {
        if self.near.is_empty() {
            self.refill();
        }
        let entry = self.near.pop_if(|entry| entry.at_ns <= end_ns)?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }

    #[cold]
    fn refill(&mut self) {
        let next = std::iter::from_fn(|| self.far.pop());
        self.near.extend(next.take(NEAR_MAX / 2));
        self.near.reverse();
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
        let order: Vec<_> = std::iter::from_fn(|| clock.advance(u64::MAX)).collect();
        assert_eq!(order, [Event::Watchdog, Event::Scheduler, Event::Orders]);
        clock.at(1, Event::Inspect);
        clock.advance(u64::MAX);
        assert_eq!(clock.now_ns(), 5, "time does not go back");
    }

    #[test]
    fn many_events_come_in_the_same_order_as_few() {
        let mut rng = xsched_core::rng::SplitMix64::new(1);
        for most in [10, 40, 1_000] {
            let mut clock = Clock::default();
            // Times and numbers of what is to come; events of the same time in order of number.
            let mut expected = std::collections::BTreeSet::new();
            for index in 0..20_000 {
                let at_ns = clock.now_ns() + rng.below(most);
                clock.at(at_ns, Event::Disturb { index });
                expected.insert((at_ns, index));
                assert_eq!(clock.peek_ns(), expected.first().map(|(at_ns, _)| *at_ns));
                while expected.len() as u64 > rng.below(2 * most) {
                    let event = expected.pop_first().map(|(_, index)| Event::Disturb { index });
                    assert_eq!(clock.advance(u64::MAX), event);
                }
            }
            assert_eq!(clock.advance(clock.now_ns().saturating_sub(1)), None, "not yet");
            while let Some((at_ns, index)) = expected.pop_first() {
                assert_eq!(clock.advance(at_ns), Some(Event::Disturb { index }));
                assert_eq!(clock.now_ns(), at_ns);
            }
            assert_eq!(clock.advance(u64::MAX), None);
        }
    }
}
