//! Events around the gates of a stream, by which it is known where a held stream waits.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard, lock};

/// The gates that the stream may not have passed yet, the oldest first.
#[derive(Debug)]
pub(crate) struct Marks<E>(Mutex<State<E>>);

#[derive(Debug)]
struct State<E> {
    gates: VecDeque<Mark<E>>,
    /// Events to be recorded again. Bounded by how many gates were in the stream at a time.
    free: Vec<E>,
}

#[derive(Debug)]
struct Mark<E> {
    /// One past the command behind the gate.
    upto: u64,
    around: Option<Around<E>>,
}

/// Events recorded around a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<E> {
    /// Completes when everything in front of the gate has run.
    pub(crate) before: E,
    /// Completes when the stream has passed the gate.
    pub(crate) after: E,
}

/// Where a stream is whose gates are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It waits at a gate, and what is in front of that has run.
    AtGate,
    /// Something in front of a gate has not run.
    BeforeGate,
    /// It has passed all gates.
    PastAll,
    /// It may wait at a gate without events.
    Unknown,
}

impl<E: Copy> Marks<E> {
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

    /// A gate was put in front of a command. `around` is `None` if an event was not recorded.
    pub(crate) fn add(&self, upto: u64, around: Option<Around<E>>) {
        self.lock().gates.push_back(Mark { upto, around });
    }

    /// So many commands have retired, and the stream has passed the gates in front of them.
    pub(crate) fn retire(&self, upto: u64) {
        let state = &mut *self.lock();
        while let Some(mark) = state.gates.pop_front_if(|mark| mark.upto <= upto) {
            state.free.extend(mark.around.into_iter().flat_map(Around::into_events));
        }
    }

    /// Where the stream is, if its gates are closed meanwhile. `query` tells whether an event has
    /// completed.
    pub(crate) fn place<X>(&self, query: impl Fn(E) -> Result<bool, X>) -> Result<Place, X> {
        // With the lock, so that no event is recorded again meanwhile.
        let state = self.lock();
        let mut unmarked = false;
        for mark in &state.gates {
            let Some(Around { before, after }) = mark.around else {
                unmarked = true;
                continue;
            };
            if query(after)? {
                unmarked = false;
            } else if query(before)? {
                return Ok(Place::AtGate);
            } else {
                return Ok(if unmarked { Place::Unknown } else { Place::BeforeGate });
            }
        }
        Ok(if unmarked { Place::Unknown } else { Place::PastAll })
    }

    /// All events, for their end.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = E> {
        let State { gates, free } = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let around = gates.drain(..).filter_map(|mark| mark.around);
        around.flat_map(Around::into_events).chain(free.drain(..))
    }
}

impl<E> Around<E> {
    fn into_events(self) -> [E; 2] {
        [self.before, self.after]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Where the stream is when the events below this have completed. Gate `n` has 2n and 2n + 1.
    fn place(marks: &Marks<u32>, completed: u32) -> Place {
        let Ok(place) = marks.place(|event| Ok::<_, Infallible>(event < completed));
        place
    }

    fn gate(n: u32) -> Option<Around<u32>> {
        Some(Around { before: 2 * n, after: 2 * n + 1 })
    }

    #[test]
    fn a_stream_waits_at_the_first_gate_that_it_has_not_passed() {
        let marks = Marks::new();
        (0..2).for_each(|n| marks.add(u64::from(n), gate(n)));
        let places = [0, 1, 2, 3, 4].map(|completed| place(&marks, completed));
        use Place::{AtGate, BeforeGate, PastAll};
        assert_eq!(places, [BeforeGate, AtGate, BeforeGate, AtGate, PastAll]);
    }

    #[test]
    fn a_gate_without_events_may_be_where_it_waits() {
        let marks = Marks::new();
        marks.add(0, None);
        assert_eq!(place(&marks, 0), Place::Unknown);
        marks.add(1, gate(0));
        let places = [0, 1, 2].map(|completed| place(&marks, completed));
        assert_eq!(places, [Place::Unknown, Place::AtGate, Place::PastAll]);
        marks.add(2, None);
        assert_eq!((place(&marks, 1), place(&marks, 2)), (Place::AtGate, Place::Unknown));
    }

    #[test]
    fn events_are_used_again_once_the_command_behind_the_gate_has_retired() {
        let mut marks = Marks::new();
        marks.add(3, gate(0));
        marks.add(5, gate(1));
        marks.retire(4);
        assert_eq!(
            [marks.take_event(), marks.take_event(), marks.take_event()],
            [Some(1), Some(0), None]
        );
        marks.keep_event(0);
        let mut left: Vec<u32> = marks.drain().collect();
        left.sort_unstable();
        assert_eq!(left, [0, 2, 3]);
    }
}
