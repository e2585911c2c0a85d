//! Handing a queue to the reaper, for those who do not look themselves.

use std::time::Duration;

use super::board::Board;
use super::{Bench, explore, join};
use crate::completion::{Awaited, Notify, Parker, Until};

/// A waiter that does not look, as a future, is woken: the reaper neither sleeps through a
/// completion nor lets a queue go that has something in flight.
#[test]
fn a_future_is_woken() {
    explore("reaper::a_future_is_woken", 3, || {
        wait_as_a_future(Bench::new(2));
    });
}

/// A future on a device that cannot notify: the reaper polls.
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
    let (until, mut id) = (Until::Ended(cmd), None);
    let notify = || Notify::Wake(parker.waker().clone());
    while bench.queue.register(until, &mut id, notify()).is_none() {
        parker.park(None);
        parker.reset();
    }
    assert_eq!(bench.board.lock().completed, 2, "woken too soon");
    loom::stop_exploring();
    bench.close();
    join(device);
    join(reaper);
}
