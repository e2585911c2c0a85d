//! Waiting threads against the device and the reaper.

use std::time::Instant;

use super::{Bench, explore, join, start};
use crate::completion::{Awaited, Until, wait_for_reaper, wait_for_room, wait_until};
use crate::error::WaitError;
use crate::queue::Api;

/// A wait returns, when the command has completed and not before, whichever thread takes the
/// completion.
#[test]
fn a_wait_returns() {
    explore("waiting::a_wait_returns", 2, || {
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

/// A wait of a thread that leaves looking to the reaper returns when the command has completed.
#[test]
fn a_wait_leaves_looking_to_the_reaper() {
    explore("waiting::a_wait_leaves_looking_to_the_reaper", 2, || {
        let bench = Bench::new(2);
        let device = bench.start_device(1);
        let reaper = bench.start_reaper();
        let until = Until::Ended(bench.submit(0));
        let known = bench.queue.request_completion(until, None);
        let waits = || wait_for_reaper(&*bench.queue, until, &mut None, None);
        assert_eq!(known.unwrap_or_else(waits), Ok(()));
        assert_eq!(bench.board.lock().completed, 1, "returned too soon");
        loom::stop_exploring();
        bench.close();
        join(device);
        join(reaper);
    });
}

/// A submitter that passes by while another waits for room takes no place that becomes free, and
/// the one that waits gets it.
#[test]
fn room_goes_to_the_one_in_line() {
    explore("waiting::room_goes_to_the_one_in_line", 2, || {
        let bench = Bench::new(4);
        for name in 0..4 {
            bench.submit(name);
        }
        let mut line = None;
        assert!(bench.queue.submit(4, Some(&mut line)).is_err());
        let device = bench.start_device(1);
        let other = bench.clone();
        let passes = start(move || assert!(other.queue.submit(5, None).is_err()));
        assert!(wait_for_room(&*bench.queue, &mut line).is_ok(), "the queue was closed");
        assert!(bench.queue.submit(4, Some(&mut line)).is_ok(), "its place was kept");
        join(passes);
        join(device);
        bench.end_without_reaper();
    });
}
