//! A hold by hand and one of the scheduler overlap while commands are launched.

use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};

use super::{Bench, explore, join, notices, start};
use crate::device::pump_round;
use crate::hub::Member;
use crate::shared::{Api, Until};

/// Once a hold is in effect nothing starts; after the last one has ended everything retires.
#[test]
fn two_holds() {
    explore("holding::two_holds", 3, || {
        let bench = Bench::new(2);
        let device = bench.start_device(2);
        bench.submit(0);
        let other = bench.clone();
        let submitter = start(move || assert_eq!(other.submit(1).0, 1));
        let other = bench.clone();
        let scheduler = start(move || {
            other.queue.deliver(Order::Hold { epoch: 1, level: Level::Deactivate });
            other.queue.deliver(Order::Run { epoch: 2 });
        });
        bench.queue.hold(Level::Deactivate);
        let report = bench.queue.snapshot().report;
        let held = matches!(report.hold, HoldState::Held(_));
        // With nothing in flight, nothing is being launched either.
        bench.board.watch(held, held && report.launched == report.retired);
        join(submitter);
        bench.board.watch(false, false);
        bench.queue.resume(false);
        join(scheduler);
        bench.threads.stop();
        pump_round(bench.threads.pump_work(), &mut Vec::new());
        join(device);
        bench.queue.poll(Until::Room);
        let report = bench.queue.snapshot().report;
        assert_eq!((report.retired, report.hold), (2, HoldState::Running));
        bench.assert_launched();
        bench.end_without_reaper();
    });
}

const HOLDS: &str = "models::holding::two_holds";

#[test]
fn a_hold_is_acknowledged_too_soon() {
    // Steps that are carried out in the wrong order leave the device held.
    notices(HOLDS, "steps are answered before they are carried out", "deadlock");
}

#[test]
fn what_waited_stays_behind() {
    notices(HOLDS, "nobody launches after a hold", "deadlock");
}
