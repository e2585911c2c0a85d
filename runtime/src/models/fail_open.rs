//! The end of the scheduler, or its silence, against the orders that it gave before.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::lease::Watchdog;
use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};

use super::board::Board;
use super::{Bench, ID, explore, join, start};
use crate::scheduler::{ScheduledQueue, look};

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
        bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
        let device = bench.start_device(1);
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            let _ = handle.deliver(ID, HOLD);
            handle.set_gone();
        });
        let handle = Arc::clone(&bench.scheduler);
        let watchdog = start(move || handle.fail_open());
        bench.submit(0);
        join(watchdog);
        join(scheduler);
        bench.workers.stop();
        crate::workers::pump_round(bench.workers.pump_list(), &mut Vec::new());
        // Only if it was launched.
        join(device);
        assert_runs(&bench);
        bench.end_without_reaper();
        bench.scheduler.detach(ID);
    });
}

/// A queue that was held before it was known here, by a scheduler that ends, runs.
#[test]
fn the_scheduler_ends_while_a_queue_is_made() {
    explore("fail_open::the_scheduler_ends_while_a_queue_is_made", 5, || {
        let bench = Bench::new(1);
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            let _ = handle.deliver(ID, HOLD);
            handle.set_gone();
        });
        bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
        join(scheduler);
        assert_runs(&bench);
        bench.scheduler.detach(ID);
    });
}

/// A scheduler that is silent, wakes up, holds a queue and is silent again, all in one round: the
/// next look of the watchdog lets the queue run.
#[test]
fn silent_twice_in_a_round() {
    explore("fail_open::silent_twice_in_a_round", 5, || {
        // A lease of nothing: each round has been too long.
        let bench = Bench::with(Board::new(1, false), Duration::ZERO);
        bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
        bench.scheduler.notify(ID);
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            handle.wait();
            let _ = handle.deliver(ID, HOLD);
        });
        let handle = Arc::clone(&bench.scheduler);
        let mut watchdog = Watchdog::new(xsched_core::time::Duration::ZERO);
        look(&mut watchdog, &handle);
        join(scheduler);
        look(&mut watchdog, &handle);
        assert_runs(&bench);
        bench.scheduler.detach(ID);
    });
}

/// Orders for a queue that has gone are dropped, not kept for it.
#[test]
fn orders_for_a_queue_that_goes() {
    explore("fail_open::orders_for_a_queue_that_goes", 5, || {
        let bench = Bench::new(1);
        bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || drop(handle.deliver(ID, HOLD)));
        bench.scheduler.detach(ID);
        join(scheduler);
        assert_eq!(bench.scheduler.early_orders(), 0, "kept for ever");
    });
}
