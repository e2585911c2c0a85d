//! Waiting threads against the device and the reaper.

use std::time::Instant;

use super::{Bench, explore, join, start};
use crate::completion::{Until, wait_until};
use crate::error::WaitError;

/// A wait returns, when the command has completed and not before, whichever thread takes the
/// completion.
#[test]
fn a_wait_returns() {
    explore("waiting::a_wait_returns", 3, || {
        let bench = Bench::new(2);
        let device = bench.start_device(2);
        let reaper = bench.start_reaper();
        bench.submit(0);
        let cmd = bench.submit(1);
        assert_eq!(wait_until(&*bench.queue, Until::Ended(cmd), None), Ok(()));
        assert_eq!(bench.board.lock().completed, 2, "returned too soon");
        // What follows is the model of closing.
        loom::stop_exploring();
        bench.close();
        join(device);
        join(reaper);
    });
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
            assert_eq!(wait_until(&*queue, Until::Ended(cmd), None), Ok(()));
        });
        // Over before it begins: it enlists, may be in front, and leaves at once.
        let result = wait_until(&*bench.queue, Until::Ended(cmd), Some(Instant::now()));
        assert!(matches!(result, Ok(()) | Err(WaitError::Timeout)), "{result:?}");
        join(other);
        loom::stop_exploring();
        bench.close();
        join(device);
        join(reaper);
    });
}
