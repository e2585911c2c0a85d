//! Launches under way, between the launching thread and the watch.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};

use super::harness::{explore, join, start};
use super::{Flag, flag};
use crate::gate_closure::OwnBit;
use crate::gated_stream::GatedStream;
use crate::launches::{Call, LaunchCounter, UnderWay};

/// Calls that the launches make one after the other, each by a thread of its own.
const CALLS: [[Call; 2]; 2] = [[Call::Gate, Call::Launch], [Call::Event, Call::Query]];

fn is_of(inside: UnderWay, number: usize) -> bool {
    inside.thread == number as u32 + 1 && CALLS[number].contains(&inside.call)
}

/// The watch sees a launch that has begun and not ended, with its own thread and call, and tells
/// two launches apart.
#[test]
fn a_launch_is_seen() {
    explore("launches::a_launch_is_seen", 8, || {
        let launches = Arc::new(LaunchCounter::new());
        // The launch that has certainly begun and not ended, if any.
        let launch = Arc::new(Mutex::new(None));
        let launcher = {
            let (launches, launch) = (Arc::clone(&launches), Arc::clone(&launch));
            start(move || {
                for (number, [first, then]) in CALLS.into_iter().enumerate() {
                    let inside = launches.begin_on(number as u32 + 1, first);
                    *launch.lock().expect("no thread panics") = Some(number);
                    launches.goes_on(then);
                    *launch.lock().expect("no thread panics") = None;
                    drop(inside);
                }
            })
        };
        let mut looks: Vec<(usize, u64)> = Vec::new();
        for _ in 0..3 {
            let number = launch.lock().expect("no thread panics");
            let inside = launches.under_way();
            if let Some(inside) = inside {
                assert!((0..2).any(|n| is_of(inside, n)), "the call of another launch");
            }
            if let Some(number) = *number {
                let inside = inside.expect("a launch under way is not seen");
                assert!(is_of(inside, number), "the call of another launch");
                for (n, i) in &looks {
                    assert!(*n == number || *i != inside.number, "two launches are taken for one");
                    assert!(*n != number || *i == inside.number, "one launch is taken for two");
                }
                looks.push((number, inside.number));
            }
            drop(number);
        }
        join(launcher);
        assert_eq!(launches.under_way(), None, "seen after it has ended");
    });
}

/// A look that finds a closed gate and no launch under way sees all commands that have no gate, and
/// none comes later.
#[test]
fn a_look_behind_a_closed_gate() {
    explore("launches::a_look_behind_a_closed_gate", 8, || {
        let word = flag();
        let queue = Arc::new(GatedStream::<Flag>::new(Arc::clone(&word), String::new()));
        // Commands launched without a gate.
        let ungated = Arc::new(AtomicU32::new(0));
        let launcher = {
            let (queue, ungated) = (Arc::clone(&queue), Arc::clone(&ungated));
            start(move || {
                for _ in 0..2 {
                    let inside = queue.launches.begin_on(1, Call::Launch);
                    if word.load(Ordering::Relaxed) == 0 {
                        // The launching thread is the only one that writes.
                        ungated.store(ungated.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                    drop(inside);
                }
            })
        };
        queue.gate.set_own(OwnBit::Closed);
        let seen = queue.launches.is_between().then(|| ungated.load(Ordering::Relaxed));
        join(launcher);
        let came = ungated.load(Ordering::Relaxed);
        assert!(seen.is_none_or(|seen| seen == came), "a command came that has no gate");
    });
}
