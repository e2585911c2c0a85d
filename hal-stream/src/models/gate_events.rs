//! Events around gates, which are recorded again while another thread asks for them.

use std::convert::Infallible;
use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};

use super::harness::{explore, join, start};
use crate::gate_events::{EventPair, GateEvents, Position};

/// Set, for each event, once it has completed.
type Completed = Arc<[AtomicBool; 2]>;

/// Retires the command behind the first gate, and puts the second one into the stream with the same
/// events. Then what is in front of it runs, and the stream waits there.
fn next_gate(gates: &GateEvents<usize>, completed: &Completed, ran: &AtomicBool) {
    gates.retire(1);
    let event = || gates.take_event().expect("the events of the first gate");
    let events = EventPair { before: event(), after: event() };
    for event in [events.before, events.after] {
        completed[event].store(false, Ordering::SeqCst);
    }
    gates.add(2, Some(events));
    ran.store(true, Ordering::SeqCst);
    completed[events.before].store(true, Ordering::SeqCst);
}

/// A look that finds the stream at a gate is right.
#[test]
fn a_look_while_events_are_used_again() {
    explore("gate_events::a_look_while_events_are_used_again", 8, || {
        let gates = Arc::new(GateEvents::new());
        let completed: Completed = Arc::new([AtomicBool::new(true), AtomicBool::new(true)]);
        let ran = Arc::new(AtomicBool::new(false));
        gates.add(1, Some(EventPair { before: 0, after: 1 }));
        let launcher = {
            let (gates, completed) = (Arc::clone(&gates), Arc::clone(&completed));
            let ran = Arc::clone(&ran);
            start(move || next_gate(&gates, &completed, &ran))
        };
        let query = |event: usize| Ok::<_, Infallible>(completed[event].load(Ordering::SeqCst));
        let Ok(position) = gates.position(query);
        if position == Position::AtGate {
            assert!(ran.load(Ordering::SeqCst), "at a gate before its time");
        }
        join(launcher);
        assert_eq!(gates.position(query), Ok(Position::AtGate), "not at a gate in the end");
    });
}
