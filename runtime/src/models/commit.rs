//! Steps that wait for a commit, which a thread of its own carries out.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};

use super::board::Board;
use super::{Bench, ID, explore, join, start};
use crate::queue::Api;
use crate::scheduler::ScheduledQueue;

const HOLD: Order = Order::Hold { epoch: 1, level: Level::Deactivate };
const RUN: Order = Order::Run { epoch: 2 };

fn bench() -> Bench {
    let bench = Bench::with(Board::staged(1), Duration::from_secs(1));
    bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
    bench
}

/// The device comes to its end, and then the committer. No queue is held.
fn finish(
    bench: &Bench,
    device: loom::thread::JoinHandle<()>,
    committer: loom::thread::JoinHandle<()>,
) {
    join(device);
    bench.workers.stop();
    join(committer);
    let report = bench.queue.snapshot().report;
    assert_eq!(report.hold, HoldState::Running, "held for ever");
    bench.end_without_reaper();
    bench.scheduler.detach(ID);
}

/// A hold of the scheduler and one of the user, each with its end, of a queue whose command is on
/// the device: however what they stage meets the commits, the command completes and no queue is
/// held.
#[test]
fn holds_that_are_staged() {
    explore("commit::holds_that_are_staged", 3, || {
        let bench = bench();
        bench.submit(0);
        let device = bench.start_device(1);
        let committer = bench.start_committer();
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            for order in [HOLD, RUN] {
                if let Ok(Some(staged)) = handle.deliver(ID, order) {
                    staged.commit();
                }
            }
        });
        bench.queue.suspend(Level::Deactivate);
        bench.queue.resume(false);
        join(scheduler);
        finish(&bench, device, committer);
    });
}

/// A scheduler that ends between its order and having it committed leaves a queue that runs.
#[test]
fn the_scheduler_ends_in_a_round() {
    explore("commit::the_scheduler_ends_in_a_round", 3, || {
        let bench = bench();
        bench.submit(0);
        let device = bench.start_device(1);
        let committer = bench.start_committer();
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            let _ = handle.deliver(ID, HOLD);
            handle.set_gone();
        });
        join(scheduler);
        finish(&bench, device, committer);
    });
}
