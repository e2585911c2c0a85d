//! Queues with a launcher thread.

use std::sync::Arc;

use xsched::XQueueConfig;
use xsched::policies::fcfs::Fcfs;
use xsched_core::level::Level;

use crate::device::Hand;
use crate::{TestQueue, bench, config, soon};

fn queue(hand: &Arc<Hand>, config: XQueueConfig) -> TestQueue {
    let (_, device) = bench(Fcfs);
    device.queue(config.with_launcher_thread(true), Arc::clone(hand)).unwrap()
}

fn submit(queue: &TestQueue, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| _ = queue.submit(number.into()).unwrap());
}

#[test]
fn a_launch_that_blocks_keeps_no_submitter() {
    let hand = Hand::at_once();
    let queue = queue(&hand, config(0, Level::Block, 4));
    hand.block(true);
    submit(&queue, 0..100);
    soon("a launch", || hand.get().inside);
    assert!(hand.get().log.is_empty());
    hand.block(false);
    queue.wait_all();
    assert_eq!(hand.get().log, (0..100).collect::<Vec<_>>());
}

/// No completion and no submit comes to its help.
#[test]
fn the_launcher_thread_finds_room_in_the_window() {
    let hand = Arc::new(Hand::default());
    let queue = queue(&hand, config(0, Level::Block, 2));
    submit(&queue, 0..50);
    for done in 0..50 {
        soon("launches", || hand.get().log.len() as u64 == 50.min(done + 2));
        hand.complete(done + 1);
    }
    queue.wait_all();
    assert!(hand.get().most_in_flight <= 2);
    assert_eq!(hand.get().log, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_held_queue_launches_nothing_and_goes_on() {
    let hand = Hand::at_once();
    let queue = queue(&hand, config(0, Level::Block, 4));
    queue.suspend(Level::Block);
    submit(&queue, 0..20);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(hand.get().log.is_empty());
    queue.resume();
    queue.wait_all();
    assert_eq!(hand.get().log.len(), 20);
}

/// The last handle goes while the launcher thread waits for room.
#[test]
fn what_was_submitted_runs_after_the_last_handle_has_gone() {
    let hand = Arc::new(Hand::default());
    let queue = queue(&hand, config(0, Level::Block, 2));
    submit(&queue, 0..10);
    drop(queue);
    for done in 0..10 {
        soon("launches", || hand.get().log.len() as u64 == 10.min(done + 2));
        hand.complete(done + 1);
    }
}
