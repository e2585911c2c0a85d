//! Words by which a sleeper and the one that wakes it agree.

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;

use super::harness::{explore, join, long, start};
use crate::wakeup::{
    begin_to_follow, change_for_sleeper, count_queue, has_follower, request_wakeups,
};
use crate::words::PageWord;

type Words = (AtomicU32, AtomicU32, AtomicU32);

fn words() -> Arc<Words> {
    Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)))
}

/// A daemon that says that it wants to be woken, and then sleeps unless it sees work, is woken or
/// sees it, when one of the queues is the first to get work.
#[test]
fn work_that_begins_is_noticed() {
    explore("wakeup::work_that_begins_is_noticed", 6, || {
        let words = words();
        let queues: Vec<_> = (0..if long() { 3 } else { 2 })
            .map(|_| {
                let words = Arc::clone(&words);
                start(move || {
                    let (load, wanted, rung) = &*words;
                    if count_queue(load, wanted, true) {
                        rung.add(1);
                    }
                })
            })
            .collect();
        let (load, wanted, rung) = &*words;
        let seen = request_wakeups(load, wanted);
        queues.into_iter().for_each(join);
        assert!(seen || rung.get() == 1, "the daemon sleeps while there is work");
    });
}

/// A thread of the process that begins to follow a gate, and then sleeps unless it sees the gate
/// closed, sees that or is woken by the daemon that closes it.
#[test]
fn a_hold_is_noticed() {
    explore("wakeup::a_hold_is_noticed", 6, || {
        let words = words();
        let daemon = {
            let words = Arc::clone(&words);
            start(move || {
                let (follower, gate, woken) = &*words;
                gate.put(2);
                if has_follower(follower) {
                    woken.add(1);
                }
            })
        };
        let (follower, gate, woken) = &*words;
        let seen = begin_to_follow(follower, gate);
        join(daemon);
        assert!(seen == 2 || woken.get() == 1, "the thread sleeps through a hold");
    });
}

/// The watch thread looks at holds of the daemon and of the process, and then sleeps on a word of
/// each, unless one has changed meanwhile. What either of them does then is seen before the sleep,
/// or ends it.
#[test]
fn a_hold_beside_the_looks_of_the_watch() {
    explore("wakeup::a_hold_beside_the_looks_of_the_watch", 4, || {
        let [gate, follower, held, sleeps, wakes, woken] =
            [0; 6].map(|_| Arc::new(AtomicU32::new(0)));
        let daemon = {
            let (gate, follower, woken) =
                (Arc::clone(&gate), Arc::clone(&follower), Arc::clone(&woken));
            start(move || {
                gate.put(2);
                if has_follower(&*follower) {
                    woken.set(1);
                }
            })
        };
        let process = {
            let (held, sleeps) = (Arc::clone(&held), Arc::clone(&sleeps));
            let (wakes, woken) = (Arc::clone(&wakes), Arc::clone(&woken));
            start(move || {
                held.put(1);
                if change_for_sleeper(&*sleeps, &*wakes) {
                    woken.set(2);
                }
            })
        };
        let seen = begin_to_follow(&*sleeps, &*wakes);
        let gate_seen = begin_to_follow(&*follower, &*gate);
        let looked = held.get();
        // What Linux does: it sleeps if neither has changed, and who woke it before does not.
        let too_early = woken.get();
        let sleeps_through = gate.get() == gate_seen && wakes.get() == seen;
        join(daemon);
        join(process);
        let woken = woken.get() & !too_early;
        let misses_daemon = gate_seen == 0 && woken & 1 == 0;
        let misses_process = looked == 0 && woken & 2 == 0;
        assert!(
            !sleeps_through || !misses_daemon && !misses_process,
            "the watch sleeps through a hold"
        );
    });
}
