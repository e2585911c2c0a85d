//! The count of queues with work, between the process and a daemon that is about to sleep.

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;

use super::harness::{explore, join, long, start};
use crate::load::{Number, counted, want};

/// A daemon that says that it wants to be woken, and then sleeps unless it sees work, is woken or
/// sees it, when one of the queues is the first to get work.
#[test]
fn work_that_begins_is_noticed() {
    explore("load::work_that_begins_is_noticed", 6, || {
        let numbers = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)));
        let queues: Vec<_> = (0..if long() { 3 } else { 2 })
            .map(|_| {
                let numbers = Arc::clone(&numbers);
                start(move || {
                    let (load, wanted, rung) = &*numbers;
                    if counted(load, wanted, true) {
                        rung.add(1);
                    }
                })
            })
            .collect();
        let (load, wanted, rung) = &*numbers;
        let seen = want(load, wanted);
        queues.into_iter().for_each(join);
        assert!(seen || rung.get() == 1, "the daemon sleeps while there is work");
    });
}
