//! Launches within a burst, between threads that launch, the one that closes it, and one that
//! closes the gate.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU32, Ordering};

use super::harness::{explore, join, start};
use crate::burst::{Burst, BurstUse};

const KIND: u32 = 1;

/// A burst with a gate, and what a launch of [`KIND`] is predicted to take.
fn burst(ns: u64) -> (Burst, Arc<AtomicU32>) {
    let (burst, gate) = (Burst::take(), Arc::new(AtomicU32::new(0)));
    // SAFETY: the model keeps the word to its end.
    unsafe { burst.set_gate(Arc::as_ptr(&gate)) };
    burst.state().estimate(KIND).store(ns, Ordering::Relaxed);
    (burst, gate)
}

/// Launches once if the burst lets it. `on_device` is one at a time that is launched into.
fn launch(burst: &Burst, on_device: &AtomicU32) -> bool {
    let (state, number) = burst.share();
    let Some(launch) = state.begin(number, KIND, 7) else { return false };
    assert_eq!(on_device.fetch_add(1 << 16, Ordering::Relaxed) >> 16, 0, "two launches at a time");
    on_device.fetch_sub((1 << 16) - 1, Ordering::Relaxed);
    launch.end();
    true
}

/// Each launch within a burst is counted once, one is under way at a time, and none comes after the
/// burst was closed.
#[test]
fn what_was_launched_is_counted() {
    explore("burst::what_was_launched_is_counted", 3, || {
        let (burst, _gate) = burst(10);
        burst.open(2, 100, 100);
        let on_device = Arc::new(AtomicU32::new(0));
        let threads = [0; 2].map(|_| {
            let (burst, on_device) = (burst.clone(), Arc::clone(&on_device));
            start(move || {
                launch(&burst, &on_device);
            })
        });
        let used = burst.close(Duration::MAX).expect("no limit");
        let seen = on_device.load(Ordering::Relaxed);
        assert_eq!(seen >> 16, 0, "closed while a launch is under way");
        let expected = BurstUse {
            launches: seen,
            predicted_ns: u64::from(10 * seen),
            is_drained: false,
            has_pauses: false,
        };
        assert_eq!(used, expected, "a launch was not counted");
        for thread in threads {
            join(thread);
        }
        assert_eq!(on_device.load(Ordering::Relaxed), seen, "a launch in a closed burst");
    });
}

/// A thread that closes the gate and sees no launch under way sees all that did not see it closed.
#[test]
fn none_passes_a_closed_gate_unseen() {
    explore("burst::none_passes_a_closed_gate_unseen", 4, || {
        let (burst, gate) = burst(10);
        burst.open(2, 100, 100);
        let on_device = Arc::new(AtomicU32::new(0));
        let thread = {
            let (burst, on_device) = (burst.clone(), Arc::clone(&on_device));
            start(move || {
                launch(&burst, &on_device);
            })
        };
        gate.fetch_or(1, Ordering::SeqCst);
        let is_between = !burst.state().is_under_way();
        let seen = is_between.then(|| on_device.load(Ordering::Relaxed));
        join(thread);
        let came = on_device.load(Ordering::Relaxed);
        assert!(seen.is_none_or(|seen| seen == came), "a launch passed the closed gate");
    });
}
