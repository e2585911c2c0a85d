//! A gate, between the scheduler that holds the queue and calls that force the gate open.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::AtomicBool;

use super::harness::{explore, join, start};
use super::registry::{gates, member};
use super::{Flag, flag, seen};
use crate::gate::Gate;
use crate::gate_closure::OwnBit;
use crate::registry::GateRegistry;
use crate::sync::{OWN, Word};

/// Has all gates open for a while, and checks that this one is open meanwhile.
fn open_for_a_while(gates: &GateRegistry<Flag>, word: &Flag) {
    let open = gates.open_all();
    assert_eq!(seen(word), 0, "closed while it is forced open");
    assert_eq!(seen(word), 0, "closed while it is forced open");
    drop(open);
}

/// Holds, resumes and holds a queue while `callers` threads force its gate open.
fn a_hold_and_openings(callers: usize) {
    let (gates, (queue, word)) = (gates(), member());
    gates.add(&queue);
    let threads: Vec<_> = (0..callers)
        .map(|_| {
            let (gates, word) = (Arc::clone(&gates), Arc::clone(&word));
            start(move || open_for_a_while(&gates, &word))
        })
        .collect();
    gates.set_held(&queue, true);
    gates.set_held(&queue, false);
    assert_eq!(seen(&word), 0, "closed while the queue is not held");
    gates.set_held(&queue, true);
    gates.set_held(&queue, true);
    threads.into_iter().for_each(join);
    assert_eq!(seen(&word), OWN, "open in the end");
    assert!(queue.gate.is_closed(), "open in the end");
}

/// The gate is open until the forced opening ends, and afterwards as the scheduler says.
#[test]
fn an_opening_during_holds() {
    explore("gate::an_opening_during_holds", 8, || a_hold_and_openings(1));
}

/// The gate is open until the last of two forced openings ends.
#[test]
fn two_openings_during_holds() {
    explore("gate::two_openings_during_holds", 4, || a_hold_and_openings(2));
}

/// A word that is given back at some time, and must not be touched after that.
#[derive(Clone)]
struct Lent {
    word: Flag,
    is_back: Arc<AtomicBool>,
}

impl Lent {
    fn word(&self) -> &Flag {
        assert!(!self.is_back.load(Ordering::SeqCst), "touched when it was given back");
        &self.word
    }
}

impl Word for Lent {
    fn set(&self, bits: u32) {
        self.word().set(bits);
    }
    fn clear(&self, bits: u32) {
        self.word().clear(bits);
    }
    fn foreign_heartbeat(&self) -> Option<u32> {
        Some(seen(self.word()))
    }
}

/// The watch, which still has the gate of a queue that goes, does not touch its word.
#[test]
fn a_queue_that_goes_under_the_watch() {
    explore("gate::a_queue_that_goes_under_the_watch", 8, || {
        let lent = Lent { word: flag(), is_back: Arc::new(AtomicBool::new(false)) };
        let gate = Arc::new(Gate::new(lent.clone()));
        gate.set_own(OwnBit::Closed);
        let watch = {
            let gate = Arc::clone(&gate);
            start(move || {
                if gate.foreign_heartbeat().is_some() {
                    gate.set_overdue();
                    gate.open_foreign(true);
                }
                gate.set_own(OwnBit::OpenForCalls);
                gate.set_own(OwnBit::Closed);
            })
        };
        gate.leave();
        lent.is_back.store(true, Ordering::SeqCst);
        join(watch);
        assert_eq!(seen(&lent.word), 0, "closed when the queue has gone");
    });
}

/// A gate whose queue is not held in the end is open.
#[test]
fn an_opening_and_the_end_of_a_hold() {
    explore("gate::an_opening_and_the_end_of_a_hold", 8, || {
        let (gates, (queue, word)) = (gates(), member());
        gates.add(&queue);
        let thread = {
            let (gates, word) = (Arc::clone(&gates), Arc::clone(&word));
            start(move || open_for_a_while(&gates, &word))
        };
        gates.set_held(&queue, true);
        gates.set_held(&queue, false);
        join(thread);
        assert_eq!(seen(&word), 0, "closed in the end");
        assert!(!queue.gate.is_closed(), "closed in the end");
    });
}
