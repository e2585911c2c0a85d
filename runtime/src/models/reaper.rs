//! Handing a queue to the reaper, for those who do not look themselves.

use std::time::Duration;

use super::board::Board;
use super::{Bench, explore, join, notices};
use crate::parker::Parker;
use crate::shared::{Api, Until};

/// Whoever waits without looking, as a future does, is woken: the reaper neither sleeps through a
/// completion nor lets a queue go that has something in flight.
#[test]
fn a_future_is_woken() {
    explore("reaper::a_future_is_woken", 3, || {
        wait_as_a_future(Bench::new(2));
    });
}

/// The same on a device that cannot wake anybody: the reaper only naps.
#[test]
fn a_future_on_a_silent_device() {
    explore("reaper::a_future_on_a_silent_device", 3, || {
        wait_as_a_future(Bench::with(Board::new(2, true), Duration::from_secs(1)));
    });
}

fn wait_as_a_future(bench: Bench) {
    let device = bench.start_device(2);
    let reaper = bench.start_reaper();
    bench.submit(0);
    let cmd = bench.submit(1);
    let parker = Parker::current();
    while bench.queue.register(Until::Ended(cmd), parker.waker()).is_none() {
        parker.park(None);
        parker.reset();
    }
    assert_eq!(bench.board.lock().completed, 2, "woken too soon");
    loom::stop_exploring();
    bench.close();
    join(device);
    join(reaper);
}

const FUTURE: &str = "models::reaper::a_future_is_woken";

#[test]
fn a_queue_is_let_go_of_late() {
    notices(FUTURE, "let go of late", "deadlock");
}

#[test]
fn the_reaper_seems_awake_while_it_lies_down() {
    notices(FUTURE, "lively while lying down", "deadlock");
}

#[test]
fn the_reaper_sleeps_without_an_alarm() {
    notices(FUTURE, "rest without arming", "deadlock");
}

#[test]
fn an_alarm_without_a_front_is_lost() {
    notices(FUTURE, "alarm without a front", "deadlock");
}

#[test]
fn the_reaper_does_not_look_by_itself() {
    let model = "models::reaper::a_future_on_a_silent_device";
    notices(model, "rest without arming", "deadlock");
}
