//! Two handles submit: the ring, the launching half as a baton, and the pump.

use super::{Bench, explore, join, long, start};

/// Commands reach the device once each, in the order of their numbers and as who they are, and none
/// is left behind without the pump being asked.
#[test]
fn two_submitters() {
    explore("baton::two_submitters", 4, || {
        let bench = Bench::new(8);
        let pump = bench.start_pump();
        let other = bench.clone();
        let other = start(move || assert!(other.submit(100).0 < 4));
        for name in 0..if long() { 3 } else { 2 } {
            bench.submit(name);
        }
        join(other);
        bench.end_without_reaper();
        join(pump);
        bench.assert_launched();
    });
}
