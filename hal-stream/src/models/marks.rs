//! Events around gates, which are recorded again while another thread asks for them.

use std::convert::Infallible;
use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};

use super::harness::{explore, join, start};
use crate::marks::{Around, Marks, Place};

/// Which events have completed.
type Completed = Arc<[AtomicBool; 2]>;

/// Retires the command behind the first gate, and puts the second one into the stream with the same
/// events. Then what is in front of it runs, and the stream waits there.
fn next_gate(marks: &Marks<usize>, completed: &Completed, ran: &AtomicBool) {
    marks.retire(1);
    let event = || marks.take_event().expect("the events of the first gate");
    let around = Around { before: event(), after: event() };
    for event in [around.before, around.after] {
        completed[event].store(false, Ordering::SeqCst);
    }
    marks.add(2, Some(around));
    ran.store(true, Ordering::SeqCst);
    completed[around.before].store(true, Ordering::SeqCst);
}

/// A look that finds the stream at a gate is right.
#[test]
fn a_look_while_events_are_used_again() {
    explore("marks::a_look_while_events_are_used_again", 8, || {
        let marks = Arc::new(Marks::new());
        let completed: Completed = Arc::new([AtomicBool::new(true), AtomicBool::new(true)]);
        let ran = Arc::new(AtomicBool::new(false));
        marks.add(1, Some(Around { before: 0, after: 1 }));
        let launcher = {
            let (marks, completed) = (Arc::clone(&marks), Arc::clone(&completed));
            let ran = Arc::clone(&ran);
            start(move || next_gate(&marks, &completed, &ran))
        };
        let query = |event: usize| Ok::<_, Infallible>(completed[event].load(Ordering::SeqCst));
        let Ok(place) = marks.place(query);
        if place == Place::AtGate {
            assert!(ran.load(Ordering::SeqCst), "at a gate before its time");
        }
        join(launcher);
        assert_eq!(marks.place(query), Ok(Place::AtGate), "not at a gate in the end");
    });
}
