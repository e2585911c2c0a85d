//! A queue with a launcher thread.

use std::time::Duration;

use super::{Bench, Board, LauncherThread, explore, join, long, start};
use crate::workers::launcher_round;

/// What is submitted is launched by the queue's own thread, in order and without a submitter's
/// help, also when the window is full; and that thread ends with the queue.
#[test]
fn a_queue_launches_by_itself() {
    explore("launcher::a_queue_launches_by_itself", 2, || {
        let commands = if long() { 3 } else { 2 };
        let thread = LauncherThread::new();
        let list = std::sync::Arc::clone(thread.list());
        let board = Board::new(1, false);
        let bench = Bench::with_launcher(board, Duration::from_secs(1), Some(thread));
        let launcher = start(move || {
            let mut queues = Vec::new();
            while launcher_round(&list, &mut queues) {}
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
        join(launcher);
        board.assert_launched(submitted);
    });
}
