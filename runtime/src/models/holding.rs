//! A hold of the user and one of the scheduler overlap while commands are launched.

use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};

use super::board::Forbidden;
use super::{Bench, explore, join, start};
use crate::completion::{Awaited, Until};
use crate::queue::Api;
use crate::scheduler::ScheduledQueue;
use crate::workers::pump_round;

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
            let _ = other.queue.deliver(Order::Hold { epoch: 1, level: Level::Deactivate });
            let _ = other.queue.deliver(Order::Run { epoch: 2 });
        });
        bench.queue.suspend(Level::Deactivate);
        let report = bench.queue.snapshot().report;
        let held = matches!(report.hold, HoldState::Held(_));
        // With nothing in flight, nothing is being launched either.
        bench.board.forbid(match held {
            false => Forbidden::Nothing,
            true if report.launched == report.retired => Forbidden::Launches,
            true => Forbidden::Starts,
        });
        join(submitter);
        bench.board.forbid(Forbidden::Nothing);
        bench.queue.resume(false);
        join(scheduler);
        bench.workers.stop();
        pump_round(bench.workers.pump_list(), &mut Vec::new());
        join(device);
        bench.queue.poll(Until::Room, None);
        let report = bench.queue.snapshot().report;
        assert_eq!((report.retired, report.hold), (2, HoldState::Running));
        bench.assert_launched();
        bench.end_without_reaper();
    });
}

/// A scheduler above that holds a queue on one thread and lets it go on another, while a command is
/// launched: what was said last counts, and after the hold the command retires.
#[test]
fn from_above() {
    explore("holding::from_above", 3, || {
        let bench = Bench::new(1);
        let device = bench.start_device(1);
        let other = bench.clone();
        let holder = start(move || {
            other.workers.set_held(true);
            other.queue.follow_device();
        });
        bench.submit(0);
        bench.workers.set_held(false);
        bench.queue.follow_device();
        join(holder);
        let is_running = bench.queue.snapshot().report.hold == HoldState::Running;
        assert_eq!(is_running, !bench.workers.is_held(), "not what was said last");
        bench.workers.set_held(false);
        bench.queue.follow_device();
        bench.workers.stop();
        pump_round(bench.workers.pump_list(), &mut Vec::new());
        join(device);
        bench.queue.poll(Until::Room, None);
        let report = bench.queue.snapshot().report;
        assert_eq!((report.retired, report.hold), (1, HoldState::Running));
        bench.assert_launched();
        bench.end_without_reaper();
    });
}

/// The ring grows under commands that a hold keeps in it, while another thread ends the hold: each
/// is launched once and in order.
#[test]
fn a_ring_grows_while_it_is_held() {
    explore("holding::a_ring_grows_while_it_is_held", 2, || {
        let bench = Bench::new(4);
        bench.queue.suspend(Level::Block);
        bench.submit(0);
        let other = bench.clone();
        let user = start(move || other.queue.resume(false));
        for name in 1..4 {
            bench.submit(name);
        }
        join(user);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
        bench.assert_launched();
    });
}
