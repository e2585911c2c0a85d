//! Queues whose commands a pump of their own launches.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, Board, OwnPump, explore, join, long, start};
use crate::workers::own_pump_round;

/// Commands are launched by the queue's own thread, in order and without a submitter's
/// help, also when the window is full; and that thread ends with the queue.
#[test]
fn a_queue_launches_by_itself() {
    explore("pump::a_queue_launches_by_itself", 2, || {
        let commands = if long() { 3 } else { 2 };
        let own_pump = OwnPump::new();
        let list = Arc::clone(own_pump.list());
        let board = Board::new(1, false);
        let bench = Bench::with_own_pump(board, Duration::from_secs(1), Some(own_pump));
        let pump = start(move || {
            let mut queues = Vec::new();
            while own_pump_round(&list, &mut queues) {}
        });
        let device = bench.start_device(commands);
        let reaper = bench.start_reaper();
        for name in 0..commands {
            bench.submit(name);
        }
        let submitted = bench.submitted();
        let board = bench.close();
        join(device);
        join(reaper);
        join(pump);
        board.assert_launched(submitted);
    });
}
