//! A hold, between the daemon and the process's thread that is about to sleep.

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;

use super::harness::{explore, join, start};
use crate::follow::{begin_to_follow, is_followed};
use crate::load::Number;

/// A thread of the process that begins to follow a gate, and then sleeps unless it sees the gate
/// closed, sees that or is woken by the daemon that closes it.
#[test]
fn a_hold_is_noticed() {
    explore("follow::a_hold_is_noticed", 6, || {
        let numbers = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)));
        let daemon = {
            let numbers = Arc::clone(&numbers);
            start(move || {
                let (followed, gate, woken) = &*numbers;
                gate.put(2);
                if is_followed(followed) {
                    woken.add(1);
                }
            })
        };
        let (followed, gate, woken) = &*numbers;
        let seen = begin_to_follow(followed, gate);
        join(daemon);
        assert!(seen == 2 || woken.get() == 1, "the thread sleeps through a hold");
    });
}
