//! Gates that may stop more than their queue, while others launch.

use std::sync::Arc;
use std::time::Duration;

use super::harness::{explore, join, start};
use super::{Flag, flag, seen};
use crate::gate_closure::{Ring, Role};
use crate::gated_stream::{Coupling, GatedStream};
use crate::reach::Reach;
use crate::registry::GateRegistry;
use crate::sync::OWN;

const IN_RING: Coupling = Coupling { ring: Ring::Shared(1), ..Coupling::NONE };

/// Two queues in a registry, and the word of the first one's gate.
type Two = (Arc<GateRegistry<Flag>>, [Arc<GatedStream<Flag>>; 2], Flag);

fn two(ties: [Coupling; 2]) -> Two {
    two_with(usize::MAX, ties)
}

/// Two queues on a device on which `most` queues with work share no connection.
fn two_with(most: usize, ties: [Coupling; 2]) -> Two {
    let gates = GateRegistry::limited(Duration::from_micros(200), Duration::MAX, most);
    let gates = Arc::new(gates);
    let word = flag();
    let words = [Arc::clone(&word), flag()];
    let [first, second] = [0, 1].map(|at| {
        let member = GatedStream::coupled(ties[at], Arc::clone(&words[at]), String::new());
        let member = Arc::new(member);
        gates.add(&member);
        member
    });
    (gates, [first, second], word)
}

/// A stream launches, and is done with it, while another one becomes held.
fn launch_beside_a_hold(ties: [Coupling; 2], reach: Reach) {
    hold_beside_a_launch(two(ties), reach);
}

fn hold_beside_a_launch((gates, [held, other], word): Two, reach: Reach) {
    gates.begin(&held, 1, reach);
    let launcher = {
        let (gates, other, word) = (Arc::clone(&gates), Arc::clone(&other), Arc::clone(&word));
        start(move || {
            gates.begin(&other, 1, reach);
            assert_eq!(seen(&word), 0, "closed in front of a stream that is not held");
            gates.end(&other, 1);
        })
    };
    gates.set_held(&held, true);
    join(launcher);
    assert_eq!(seen(&word), OWN, "open in the end");
}

/// Work in the ring of a stream that is held has an open gate in front of it.
#[test]
fn a_launch_into_a_ring_that_is_held() {
    explore("gate_updates::a_launch_into_a_ring_that_is_held", 6, || {
        launch_beside_a_hold([IN_RING; 2], Reach::Ring);
    });
}

/// Work in the legacy default stream has no closed gate of a blocking stream in front of it.
#[test]
fn work_in_the_legacy_default_stream() {
    let blocking = Coupling { role: Role::Blocking, ..Coupling::NONE };
    let legacy = Coupling { role: Role::Legacy, ..Coupling::NONE };
    explore("gate_updates::work_in_the_legacy_default_stream", 6, move || {
        launch_beside_a_hold([blocking, legacy], Reach::Ring);
    });
}

/// A copy has no closed gate in front of it that another one waits at.
#[test]
fn a_copy_beside_a_hold() {
    let own = Coupling { may_spread: true, ..Coupling::NONE };
    explore("gate_updates::a_copy_beside_a_hold", 6, move || {
        launch_beside_a_hold([own; 2], Reach::Copies);
    });
}

/// Work that may share a connection with a stream that is held has an open gate in front of it.
#[test]
fn more_streams_than_connections() {
    explore("gate_updates::more_streams_than_connections", 6, || {
        hold_beside_a_launch(two_with(1, [Coupling::NONE; 2]), Reach::Ring);
    });
}

/// A stream launches while a queue comes with which there are too few connections: both count.
#[test]
fn a_launch_beside_a_queue_that_comes() {
    explore("gate_updates::a_launch_beside_a_queue_that_comes", 4, || {
        let gates = GateRegistry::limited(Duration::from_micros(200), Duration::MAX, 1);
        let gates: Arc<GateRegistry<Flag>> = Arc::new(gates);
        let word = flag();
        let [first, second] = [Arc::clone(&word), flag()]
            .map(|word| Arc::new(GatedStream::coupled(Coupling::NONE, word, String::new())));
        gates.add(&first);
        let launcher = {
            let (gates, first) = (Arc::clone(&gates), Arc::clone(&first));
            start(move || _ = gates.begin(&first, 1, Reach::Ring))
        };
        gates.add(&second);
        join(launcher);
        gates.begin(&second, 1, Reach::Ring);
        gates.set_held(&first, true);
        assert_eq!(seen(&word), 0, "closed in front of a stream that is not held");
    });
}

/// A stream launches while an earlier command of it is seen to have retired.
#[test]
fn launches_while_others_retire() {
    explore("gate_updates::launches_while_others_retire", 6, || {
        let (gates, [held, other], word) = two([IN_RING; 2]);
        gates.set_held(&held, true);
        gates.begin(&other, 1, Reach::Ring);
        let poller = {
            let (gates, other) = (Arc::clone(&gates), Arc::clone(&other));
            start(move || gates.end(&other, 1))
        };
        gates.begin(&other, 2, Reach::Ring);
        assert_eq!(seen(&word), 0, "closed in front of a stream that is not held");
        join(poller);
        assert_eq!(seen(&word), 0, "closed in front of a stream that is not held");
        gates.end(&other, 2);
        assert_eq!(seen(&word), OWN, "open in the end");
    });
}
