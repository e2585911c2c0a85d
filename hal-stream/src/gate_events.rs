//! Events around the gates of a stream, which tell where a held stream waits.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard, lock};

/// The gates that the stream may not have passed yet, the oldest first.
#[derive(Debug)]
pub(crate) struct GateEvents<E>(Mutex<State<E>>);

#[derive(Debug)]
struct State<E> {
    gates: VecDeque<Gate<E>>,
    /// Events to be recorded again. Bounded by how many gates were in the stream at a time.
    free: Vec<E>,
}

#[derive(Debug)]
struct Gate<E> {
    /// One past the command behind the gate.
    upto: u64,
    events: Option<EventPair<E>>,
}

/// Events recorded around a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPair<E> {
    /// Completes when everything in front of the gate has run.
    pub(crate) before: E,
    /// Completes when the stream has passed the gate.
    pub(crate) after: E,
}

/// Where a stream is whose gates are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// At a gate, and what is in front of that has run.
    AtGate,
    /// Something in front of a gate has not run.
    BeforeGate,
    /// Past all gates.
    PastAll,
    /// Perhaps at a gate without events.
    Unknown,
}

impl<E: Copy> GateEvents<E> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { gates: VecDeque::new(), free: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        lock(&self.0)
    }

    /// An event that was used before.
    pub(crate) fn take_event(&self) -> Option<E> {
        self.lock().free.pop()
    }

    /// Keeps an event that nothing asks for any more.
    pub(crate) fn keep_event(&self, event: E) {
        self.lock().free.push(event);
    }

    /// A gate was put in front of a command. `events` is `None` if an event was not recorded.
    pub(crate) fn add(&self, upto: u64, events: Option<EventPair<E>>) {
        self.lock().gates.push_back(Gate { upto, events });
    }

    /// `upto` commands have retired, and the stream has passed the gates in front of them.
    pub(crate) fn retire(&self, upto: u64) {
        let state = &mut *self.lock();
        while let Some(gate) = state.gates.pop_front_if(|gate| gate.upto <= upto) {
            state.free.extend(gate.events.into_iter().flat_map(EventPair::into_events));
        }
    }

    /// Where the stream is, if its gates are closed meanwhile. `query` tells whether an event has
    /// completed.
    pub(crate) fn position<X>(&self, query: impl Fn(E) -> Result<bool, X>) -> Result<Position, X> {
        // With the lock, so that no event is recorded again meanwhile.
        let state = self.lock();
        let mut without_events = false;
        for gate in &state.gates {
            let Some(EventPair { before, after }) = gate.events else {
                without_events = true;
                continue;
            };
            if query(after)? {
                without_events = false;
            } else if query(before)? {
                return Ok(Position::AtGate);
            } else {
                return Ok(if without_events { Position::Unknown } else { Position::BeforeGate });
            }
        }
        Ok(if without_events { Position::Unknown } else { Position::PastAll })
    }

    /// All events, for their end.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = E> {
        let State { gates, free } = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let events = gates.drain(..).filter_map(|gate| gate.events);
        events.flat_map(EventPair::into_events).chain(free.drain(..))
    }
}

impl<E> EventPair<E> {
    fn into_events(self) -> [E; 2] {
        [self.before, self.after]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Where the stream is when the events below this have completed. Gate `n` has 2n and 2n + 1.
    fn position(gates: &GateEvents<u32>, completed: u32) -> Position {
        let Ok(position) = gates.position(|event| Ok::<_, Infallible>(event < completed));
        position
    }

    fn gate(n: u32) -> Option<EventPair<u32>> {
        Some(EventPair { before: 2 * n, after: 2 * n + 1 })
    }

    #[test]
    fn a_stream_waits_at_the_first_gate_that_it_has_not_passed() {
        let gates = GateEvents::new();
        (0..2).for_each(|n| gates.add(u64::from(n), gate(n)));
        let positions = [0, 1, 2, 3, 4].map(|completed| position(&gates, completed));
        use Position::{AtGate, BeforeGate, PastAll};
        assert_eq!(positions, [BeforeGate, AtGate, BeforeGate, AtGate, PastAll]);
    }

    #[test]
    fn a_gate_without_events_may_be_where_it_waits() {
        let gates = GateEvents::new();
        gates.add(0, None);
        assert_eq!(position(&gates, 0), Position::Unknown);
        gates.add(1, gate(0));
        let positions = [0, 1, 2].map(|completed| position(&gates, completed));
        assert_eq!(positions, [Position::Unknown, Position::AtGate, Position::PastAll]);
        gates.add(2, None);
        assert_eq!(
            (position(&gates, 1), position(&gates, 2)),
            (Position::AtGate, Position::Unknown)
        );
    }

    #[test]
    fn events_are_used_again_once_the_command_behind_the_gate_has_retired() {
        let mut gates = GateEvents::new();
        gates.add(3, gate(0));
        gates.add(5, gate(1));
        gates.retire(4);
        assert_eq!(
            [gates.take_event(), gates.take_event(), gates.take_event()],
            [Some(1), Some(0), None]
        );
        gates.keep_event(0);
        let mut left: Vec<u32> = gates.drain().collect();
        left.sort_unstable();
        assert_eq!(left, [0, 2, 3]);
    }
}
