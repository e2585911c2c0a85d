//! Steps that wait for a commit, which a thread of its own carries out.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};

use super::board::Board;
use super::{Bench, ID, explore, join, notices, start};
use crate::hub::Member;
use crate::shared::Api;

const HOLD: Order = Order::Hold { epoch: 1, level: Level::Deactivate };
const RUN: Order = Order::Run { epoch: 2 };

fn bench() -> Bench {
    let bench = Bench::with(Board::staged(1), Duration::from_secs(1));
    bench.hub.register(ID, Arc::clone(&bench.queue) as _);
    bench
}

/// The device comes to its end, and then the committer. Nobody is held.
fn finish(
    bench: &Bench,
    device: loom::thread::JoinHandle<()>,
    committer: loom::thread::JoinHandle<()>,
) {
    join(device);
    bench.threads.stop();
    join(committer);
    let report = bench.queue.snapshot().report;
    assert_eq!(report.hold, HoldState::Running, "held for ever");
    bench.end_without_reaper();
    bench.hub.detach(ID);
}

/// A hold of the scheduler and one by hand, each with its end, of a queue whose command is on the
/// device: however what they stage meets the commits, the command completes and nobody is held.
#[test]
fn holds_that_are_staged() {
    explore("commit::holds_that_are_staged", 3, || {
        let bench = bench();
        bench.submit(0);
        let device = bench.start_device(1);
        let committer = bench.start_committer();
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            for order in [HOLD, RUN] {
                if let Some(staged) = hub.deliver(ID, order) {
                    staged.commit();
                }
            }
        });
        bench.queue.hold(Level::Deactivate);
        bench.queue.resume(false);
        join(scheduler);
        finish(&bench, device, committer);
    });
}

const STAGED: &str = "models::commit::holds_that_are_staged";

#[test]
fn what_follows_a_commit_is_staged_and_forgotten() {
    notices(STAGED, "staged and forgotten", "held for ever");
}

#[test]
fn what_is_staged_during_a_commit_is_forgotten() {
    notices(STAGED, "forgotten afterwards", "held for ever");
}

/// A scheduler that ends between its order and having it committed leaves a queue that runs.
#[test]
fn the_scheduler_ends_in_a_round() {
    explore("commit::the_scheduler_ends_in_a_round", 3, || {
        let bench = bench();
        bench.submit(0);
        let device = bench.start_device(1);
        let committer = bench.start_committer();
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            hub.deliver(ID, HOLD);
            hub.set_gone();
        });
        join(scheduler);
        finish(&bench, device, committer);
    });
}

#[test]
fn what_was_staged_waits_for_one_who_has_ended() {
    let model = "models::commit::the_scheduler_ends_in_a_round";
    notices(model, "staged by one who has ended", "held for ever");
}
