//! The gates of a device, their watch, and queues that are opened and closed.

use std::sync::Arc;
use std::time::Duration;

use super::harness::{explore, join, start};
use super::{Flag, flag, seen};
use crate::gated_stream::GatedStream;
use crate::registry::GateRegistry;
use crate::sync::OWN;

pub(super) fn gates() -> Arc<GateRegistry<Flag>> {
    Arc::new(GateRegistry::new(Duration::from_micros(200), Duration::MAX))
}

pub(super) fn member() -> (Arc<GatedStream<Flag>>, Flag) {
    let word = flag();
    (Arc::new(GatedStream::new(Arc::clone(&word), String::new())), word)
}

/// A watch that begins to wait while a queue becomes held notices the hold. Its wait has no time
/// limit here, so a watch that missed the hold would never end.
#[test]
fn a_watch_that_is_about_to_wait() {
    explore("registry::a_watch_that_is_about_to_wait", 6, || {
        let gates = gates();
        let watch = {
            let held = Arc::clone(&gates.held_signal);
            start(move || assert!(held.wait(|| true), "the registry has gone"))
        };
        let (first, second) = (member().0, member().0);
        gates.add(&first);
        gates.add(&second);
        let other = {
            let gates = Arc::clone(&gates);
            start(move || gates.set_held(&second, true))
        };
        gates.set_held(&first, true);
        join(other);
        join(watch);
    });
}

/// The watch also notices a hold that ended and began again.
#[test]
fn a_hold_that_begins_again() {
    explore("registry::a_hold_that_begins_again", 6, || {
        let gates = gates();
        let watch = {
            let held = Arc::clone(&gates.held_signal);
            start(move || assert!(held.wait(|| true), "the registry has gone"))
        };
        let (member, _) = member();
        gates.add(&member);
        gates.set_held(&member, true);
        gates.set_held(&member, false);
        gates.set_held(&member, true);
        join(watch);
    });
}

/// While all gates are forced open, so is that of a queue that is opened then. Afterwards it is as
/// the scheduler says.
#[test]
fn a_queue_opened_while_all_are_open() {
    explore("registry::a_queue_opened_while_all_are_open", 6, || {
        let gates = gates();
        let (old, old_word) = member();
        let (new, new_word) = member();
        gates.add(&old);
        gates.set_held(&old, true);
        let opener = {
            let (gates, new) = (Arc::clone(&gates), Arc::clone(&new));
            start(move || {
                gates.add(&new);
                gates.set_held(&new, true);
            })
        };
        let open = gates.open_all();
        assert_eq!((seen(&old_word), seen(&new_word)), (0, 0), "closed while all are forced open");
        assert_eq!((seen(&old_word), seen(&new_word)), (0, 0), "closed while all are forced open");
        drop(open);
        join(opener);
        assert_eq!((seen(&old_word), seen(&new_word)), (OWN, OWN), "open in the end");
    });
}

/// A queue that is closed while all gates are forced open leaves nothing behind, and its gate stays
/// open.
#[test]
fn a_queue_closed_while_all_are_open() {
    explore("registry::a_queue_closed_while_all_are_open", 6, || {
        let gates = gates();
        let (member, word) = member();
        gates.add(&member);
        gates.set_held(&member, true);
        let closer = {
            let gates = Arc::clone(&gates);
            start(move || {
                gates.set_held(&member, false);
                drop(member);
            })
        };
        let open = gates.open_all();
        assert_eq!(seen(&word), 0, "closed while all are forced open");
        drop(open);
        join(closer);
        assert_eq!(seen(&word), 0, "closed in the end");
        let (next, next_word) = self::member();
        gates.add(&next);
        gates.set_held(&next, true);
        assert_eq!(seen(&next_word), OWN, "gates are still forced open");
    });
}
