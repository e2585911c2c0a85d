//! A queue that launches while the last of its commands is seen to retire.

use std::sync::Arc;
use std::time::Instant;

use loom::sync::atomic::{AtomicU64, Ordering};

use super::harness::{explore, join, start};
use crate::device_time::{Occupancy, Occupant};

/// A queue with work counts as occupied and one without does not, in every order.
#[test]
fn a_launch_at_the_end() {
    explore("occupancy::a_launch_at_the_end", 6, || {
        let now = Instant::now();
        let device = Arc::new(Occupancy::default());
        let queue = Arc::new(Occupant::default());
        device.enter(&queue, now);
        let launched = Arc::new(AtomicU64::new(1));
        let reaper = {
            let (device, queue) = (Arc::clone(&device), Arc::clone(&queue));
            let launched = Arc::clone(&launched);
            start(move || {
                let is_idle = || launched.load(Ordering::Relaxed) <= 1;
                if is_idle() {
                    device.leave(&queue, now, is_idle);
                }
            })
        };
        launched.store(2, Ordering::Relaxed);
        if queue.has_left() {
            device.enter(&queue, now);
        }
        join(reaper);
        assert!(!queue.has_left(), "it has work and does not count");
        assert_eq!(device.inside(), 1, "it counts wrongly");
    });
}
