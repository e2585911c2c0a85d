//! A gate, between whoever holds the queue and those who lift it.

use std::sync::Arc;

use super::harness::{explore, join, start};
use super::{Flag, flag, seen};
use crate::gate::{Gate, OWN};

/// Opens the gate for a while, and looks for as long whether it is open.
fn lift(gate: &Gate<Flag>, word: &Flag) {
    gate.lift();
    assert_eq!(seen(word), 0, "closed while it is lifted");
    assert!(!gate.is_closed(), "closed while it is lifted");
    assert_eq!(seen(word), 0, "closed while it is lifted");
    gate.put_down();
}

/// Holds, lets go and holds while so many threads lift.
fn a_hold_and_lifts(lifters: usize) {
    let word = flag();
    let gate = Arc::new(Gate::new(Arc::clone(&word)));
    let threads: Vec<_> = (0..lifters)
        .map(|_| {
            let (gate, word) = (Arc::clone(&gate), Arc::clone(&word));
            start(move || lift(&gate, &word))
        })
        .collect();
    assert!(gate.want(true), "it was open before");
    assert!(gate.want(false), "it was closed before");
    assert_eq!(seen(&word), 0, "closed while nobody wants that");
    assert!(gate.want(true), "it was open before");
    assert!(!gate.want(true), "that is no news");
    threads.into_iter().for_each(join);
    assert_eq!(seen(&word), OWN, "open in the end");
    assert!(gate.is_closed(), "open in the end");
}

/// Open from when a lift begins until it ends, and afterwards what the holder wants.
#[test]
fn a_lift_during_holds() {
    explore("gate::a_lift_during_holds", 8, || a_hold_and_lifts(1));
}

/// Open until the last of two lifts ends.
#[test]
fn two_lifts_during_holds() {
    explore("gate::two_lifts_during_holds", 4, || a_hold_and_lifts(2));
}

/// Where nobody wants it closed in the end, it is open.
#[test]
fn a_lift_and_the_end_of_a_hold() {
    explore("gate::a_lift_and_the_end_of_a_hold", 8, || {
        let word = flag();
        let gate = Arc::new(Gate::new(Arc::clone(&word)));
        let thread = {
            let (gate, word) = (Arc::clone(&gate), Arc::clone(&word));
            start(move || lift(&gate, &word))
        };
        gate.want(true);
        gate.want(false);
        join(thread);
        assert_eq!(seen(&word), 0, "closed in the end");
        assert!(!gate.is_closed(), "closed in the end");
    });
}
