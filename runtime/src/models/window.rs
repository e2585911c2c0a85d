//! A submitter against completions.

use super::{Bench, explore, join, long};

/// No more commands are in flight than the window allows, and none is stuck.
#[test]
fn a_full_window() {
    explore("window::a_full_window", 2, || {
        let commands = if long() { 4 } else { 3 };
        let bench = Bench::new(1);
        let device = bench.start_device(commands);
        let reaper = bench.start_reaper();
        let pump = bench.start_pump();
        for name in 0..commands {
            bench.submit(name);
        }
        let submitted = bench.submitted();
        let board = bench.close();
        join(device);
        join(pump);
        join(reaper);
        board.assert_launched(submitted);
    });
}
