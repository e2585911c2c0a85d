//! The end of the scheduler, or its silence, against the orders that it gave before.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::lease::Watchdog;
use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};

use super::board::Board;
use super::{Bench, ID, explore, join, notices, start};
use crate::hub::Member;
use crate::scheduler::look;

const HOLD: Order = Order::Hold { epoch: 1, level: Level::Deactivate };

fn assert_runs(bench: &Bench) {
    let report = bench.queue.snapshot().report;
    assert_eq!(report.hold, HoldState::Running, "held for ever");
}

/// A scheduler that holds a queue and ends, with the watchdog about it at the same time, leaves a
/// queue that runs.
#[test]
fn the_scheduler_ends() {
    explore("fail_open::the_scheduler_ends", 3, || {
        let bench = Bench::new(1);
        bench.hub.register(ID, Arc::clone(&bench.queue) as _);
        let device = bench.start_device(1);
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            hub.deliver(ID, HOLD);
            hub.set_gone();
        });
        let hub = Arc::clone(&bench.hub);
        let watchdog = start(move || hub.fail_open());
        bench.submit(0);
        join(watchdog);
        join(scheduler);
        bench.threads.stop();
        crate::device::pump_round(bench.threads.pump_work(), &mut Vec::new());
        // Only if it was launched.
        join(device);
        assert_runs(&bench);
        bench.end_without_reaper();
        bench.hub.detach(ID);
    });
}

#[test]
fn the_scheduler_ends_without_a_word() {
    let model = "models::fail_open::the_scheduler_ends";
    notices(model, "gone without failing open", "held for ever");
}

/// A queue that was held before it was known here, by a scheduler that ends, runs.
#[test]
fn the_scheduler_ends_while_a_queue_is_made() {
    explore("fail_open::the_scheduler_ends_while_a_queue_is_made", 5, || {
        let bench = Bench::new(1);
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            hub.deliver(ID, HOLD);
            hub.set_gone();
        });
        bench.hub.register(ID, Arc::clone(&bench.queue) as _);
        join(scheduler);
        assert_runs(&bench);
        bench.hub.detach(ID);
    });
}

#[test]
fn early_orders_outlive_the_scheduler() {
    let model = "models::fail_open::the_scheduler_ends_while_a_queue_is_made";
    notices(model, "early orders outlive the scheduler", "held for ever");
}

/// A scheduler that is silent, wakes up, holds a queue and is silent again, all in one round: the
/// next look of the watchdog lets the queue run.
#[test]
fn silent_twice_in_a_round() {
    explore("fail_open::silent_twice_in_a_round", 5, || {
        // A lease of nothing: each round has been too long.
        let bench = Bench::with(Board::new(1, false), Duration::ZERO);
        bench.hub.register(ID, Arc::clone(&bench.queue) as _);
        bench.hub.ring(ID);
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            hub.wait(&mut None);
            hub.deliver(ID, HOLD);
        });
        let hub = Arc::clone(&bench.hub);
        let mut watchdog = Watchdog::new(xsched_core::time::Duration::ZERO);
        look(&mut watchdog, &hub);
        join(scheduler);
        look(&mut watchdog, &hub);
        assert_runs(&bench);
        bench.hub.detach(ID);
    });
}

#[test]
fn the_watchdog_blames_once() {
    notices("models::fail_open::silent_twice_in_a_round", "blamed once", "held for ever");
}

/// Orders for a queue that has gone are dropped, not kept for it.
#[test]
fn orders_for_a_queue_that_goes() {
    explore("fail_open::orders_for_a_queue_that_goes", 5, || {
        let bench = Bench::new(1);
        bench.hub.register(ID, Arc::clone(&bench.queue) as _);
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || drop(hub.deliver(ID, HOLD)));
        bench.hub.detach(ID);
        join(scheduler);
        assert_eq!(bench.hub.early_orders(), 0, "kept for ever");
    });
}

#[test]
fn orders_for_queues_that_have_gone_are_kept() {
    let model = "models::fail_open::orders_for_a_queue_that_goes";
    notices(model, "orders for queues that have gone", "kept for ever");
}
