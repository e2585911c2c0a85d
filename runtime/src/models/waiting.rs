//! Waiting threads against the device and the reaper.

use std::time::Instant;

use super::{Bench, explore, join, notices, start};
use crate::error::WaitError;
use crate::shared::Until;
use crate::waiting::wait_until;

/// A wait returns, when the command has completed and not before, whoever takes the completion.
#[test]
fn a_wait_returns() {
    explore("waiting::a_wait_returns", 3, || {
        let bench = Bench::new(2);
        let device = bench.start_device(2);
        let reaper = bench.start_reaper();
        bench.submit(0);
        let cmd = bench.submit(1);
        assert_eq!(wait_until::<u64>(&*bench.queue, Until::Ended(cmd), None), Ok(()));
        assert_eq!(bench.board.lock().completed, 2, "returned too soon");
        // What follows is the model of closing.
        loom::stop_exploring();
        bench.close();
        join(device);
        join(reaper);
    });
}

const WAIT: &str = "models::waiting::a_wait_returns";

#[test]
fn a_waking_leaves_no_token() {
    notices(WAIT, "a flag alone", "deadlock");
}

#[test]
fn a_thread_in_front_does_not_arm() {
    notices(WAIT, "stand by without arming", "deadlock");
}

#[test]
fn the_outcome_is_not_looked_at_under_the_lock() {
    notices(WAIT, "enlist without a look", "deadlock");
}

#[test]
fn whoever_is_woken_in_front_does_not_look() {
    notices(WAIT, "no look after waking", "maximum number of branches");
}

/// Two wait and one gives up: the other one's wait still returns.
#[test]
fn one_of_two_leaves() {
    explore("waiting::one_of_two_leaves", 2, || {
        let bench = Bench::new(2);
        let device = bench.start_device(1);
        let reaper = bench.start_reaper();
        let cmd = bench.submit(0);
        let queue = bench.queue.clone();
        let other = start(move || {
            assert_eq!(wait_until::<u64>(&*queue, Until::Ended(cmd), None), Ok(()));
        });
        // Over before it begins: it enlists, may be in front, and leaves at once.
        let result = wait_until::<u64>(&*bench.queue, Until::Ended(cmd), Some(Instant::now()));
        assert!(matches!(result, Ok(()) | Err(WaitError::Timeout)), "{result:?}");
        join(other);
        loom::stop_exploring();
        bench.close();
        join(device);
        join(reaper);
    });
}

const LEAVES: &str = "models::waiting::one_of_two_leaves";

#[test]
fn whoever_leaves_does_not_see_to_the_others() {
    notices(LEAVES, "leave without a word", "deadlock");
}

#[test]
fn whoever_leaves_stays_in_front() {
    notices(LEAVES, "stay in front", "deadlock");
}
