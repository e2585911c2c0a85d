//! Queues that one thread feeds in turn.

use std::sync::Arc;

use xsched::XQueueConfig;
use xsched::policies::fcfs::Fcfs;
use xsched_core::level::Level;
use xsched_core::window::WindowConfig;

use crate::device::Hand;
use crate::{TestQueue, bench, soon};

const QUEUES: usize = 4;

/// Queues that one thread feeds, with room for every command in the window.
struct Feed {
    hands: Vec<Arc<Hand>>,
    queues: Vec<TestQueue>,
    /// Commands that each queue has got.
    each: u64,
}

impl Feed {
    fn new() -> Self {
        let (_, device) = bench(Fcfs);
        let config = XQueueConfig::default().with_window(WindowConfig::fixed(1_024, 8));
        let hands: Vec<_> = (0..QUEUES).map(|_| Hand::at_once()).collect();
        let queue = |hand| device.queue(config.clone(), Arc::clone(hand)).unwrap();
        let queues = hands.iter().map(queue).collect();
        Self { hands, queues, each: 0 }
    }

    fn submit(&mut self, each: u64) {
        for _ in 0..each {
            self.queues.iter().for_each(|queue| _ = queue.submit(self.each.into()).unwrap());
            self.each += 1;
        }
    }

    fn assert_launched(&self) {
        let all: Vec<_> = (0..self.each).collect();
        for (hand, queue) in self.hands.iter().zip(&self.queues) {
            queue.wait_all();
            assert_eq!(hand.get().log, all, "launched each once and in order");
        }
    }
}

#[test]
fn commands_reach_each_queue_in_order() {
    let mut feed = Feed::new();
    feed.submit(1_000);
    feed.assert_launched();
}

#[test]
fn queues_that_are_suspended_in_turn_launch_nothing_and_go_on() {
    let mut feed = Feed::new();
    for _ in 0..10 {
        feed.submit(50);
        feed.queues.iter().for_each(|queue| queue.suspend(Level::Block));
        let launched = |feed: &Feed| -> Vec<_> {
            feed.hands.iter().map(|hand| hand.get().log.len()).collect()
        };
        let before = launched(&feed);
        feed.submit(20);
        assert_eq!(launched(&feed), before);
        feed.queues.iter().for_each(TestQueue::resume);
        feed.queues.iter().for_each(TestQueue::wait_all);
    }
    feed.assert_launched();
}

#[test]
fn a_launch_that_blocks_keeps_no_waiter_of_another_queue() {
    let mut feed = Feed::new();
    feed.hands[0].block(true);
    std::thread::scope(|scope| {
        let (blocked, other) = (&feed.queues[0], &feed.queues[1]);
        let feeder = scope.spawn(move || {
            for number in 0..100 {
                other.submit(number.into()).unwrap();
                blocked.submit(number.into()).unwrap();
            }
        });
        soon("a launch", || feed.hands[0].get().inside);
        other.wait_all();
        feed.hands[0].block(false);
        feeder.join().unwrap();
    });
    for number in 0..100 {
        feed.queues[2..].iter().for_each(|queue| _ = queue.submit(number.into()).unwrap());
    }
    feed.each = 100;
    feed.assert_launched();
}

/// With the queues go the device and the runtime.
#[test]
fn what_was_fed_runs_after_the_last_handles_have_gone() {
    let mut feed = Feed::new();
    feed.submit(500);
    let Feed { hands, queues, each } = feed;
    drop(queues);
    for hand in hands {
        soon("the last launches", || hand.get().log == Vec::from_iter(0..each));
        soon("the end of the queue", || Arc::strong_count(&hand) == 1);
    }
}
