//! Queues that one thread feeds in turn, and for which the device's launcher threads launch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use xsched::policies::fcfs::Fcfs;
use xsched::{Device, Runtime, RuntimeConfig, WaitError, XQueueConfig};
use xsched_core::fault::Fault;
use xsched_core::level::Level;
use xsched_core::window::WindowConfig;

use crate::device::{ByHand, Hand};
use crate::failing::failing;
use crate::{TestQueue, soon};

fn config() -> XQueueConfig {
    XQueueConfig::default().with_window(WindowConfig::fixed(16, 8)).with_capacity(4_096)
}

/// Queues that one thread feeds.
struct Feed {
    runtime: Runtime,
    device: Device<ByHand>,
    hands: Vec<Arc<Hand>>,
    queues: Vec<TestQueue>,
    /// Commands that each queue has got.
    each: u64,
}

impl Feed {
    /// Queues on a device with so many launcher threads.
    fn new(threads: u8, queues: usize, config: &XQueueConfig) -> Self {
        let runtime_config = RuntimeConfig::default().with_launcher_threads(threads);
        let runtime = Runtime::with_config(Fcfs, runtime_config).unwrap();
        let device = runtime.device(ByHand).unwrap();
        let hands: Vec<_> = (0..queues).map(|_| Hand::at_once()).collect();
        hands.iter().for_each(|hand| hand.get().launch_takes = Duration::from_micros(3));
        let queue = |hand| device.queue(config.clone(), Arc::clone(hand)).unwrap();
        let queues = hands.iter().map(queue).collect();
        Self { runtime, device, hands, queues, each: 0 }
    }

    fn submit(&mut self, each: u64) {
        for _ in 0..each {
            let submit = |queue: &TestQueue| _ = queue.submit(self.each.into()).unwrap();
            self.queues.iter().for_each(submit);
            self.each += 1;
        }
    }

    /// Jobs that launcher threads have launched.
    fn handed_over(&self) -> u64 {
        self.hands.iter().map(|hand| hand.get().handed_over).sum()
    }

    /// Submits until launcher threads launch.
    fn submit_until_handed_over(&mut self) {
        let before = self.handed_over();
        soon("a launcher thread launches", || {
            self.submit(50);
            self.handed_over() > before
        });
    }

    fn assert_launched(&self) {
        let all: Vec<_> = (0..self.each).collect();
        for (hand, queue) in self.hands.iter().zip(&self.queues) {
            queue.wait_all();
            assert_eq!(hand.get().log, all, "launched each once and in order");
            assert!(hand.get().most_in_flight <= 16);
        }
    }
}

#[test]
fn launcher_threads_launch_for_a_thread_that_feeds_queues_in_turn() {
    let mut feed = Feed::new(2, 4, &config());
    feed.submit_until_handed_over();
    feed.submit(1_000);
    feed.assert_launched();
}

#[test]
fn without_launcher_threads_submitters_launch() {
    for (threads, config) in [(0, config()), (2, config().with_shared_launchers(false))] {
        let mut feed = Feed::new(threads, 4, &config);
        feed.submit(1_000);
        feed.assert_launched();
        assert_eq!(feed.handed_over(), 0);
    }
}

#[test]
fn a_thread_that_feeds_one_queue_launches_itself() {
    let mut feed = Feed::new(2, 1, &config());
    feed.submit(1_000);
    feed.assert_launched();
    assert_eq!(feed.handed_over(), 0);
}

/// Nothing is in flight when it submits, so nothing may wait for another thread.
#[test]
fn a_thread_that_waits_for_each_command_launches_itself() {
    let mut feed = Feed::new(2, 2, &config());
    for _ in 0..1_000 {
        for queue in &feed.queues {
            let ticket = queue.submit(feed.each.into()).unwrap();
            queue.wait(ticket).unwrap();
        }
        feed.each += 1;
    }
    feed.assert_launched();
    assert_eq!(feed.handed_over(), 0);
}

/// No wait and no submit comes to the help of what is handed over.
#[test]
fn what_was_handed_over_is_launched_though_no_thread_waits() {
    let mut feed = Feed::new(2, 4, &config());
    for _ in 0..20 {
        feed.submit_until_handed_over();
        let all = feed.each as usize;
        soon("launches", || feed.hands.iter().all(|hand| hand.get().log.len() == all));
    }
    feed.assert_launched();
}

#[test]
fn a_queue_that_is_suspended_meanwhile_launches_nothing_and_goes_on() {
    let mut feed = Feed::new(2, 4, &config());
    for _ in 0..20 {
        feed.submit_until_handed_over();
        feed.queues.iter().for_each(|queue| queue.suspend(Level::Block));
        feed.submit(20);
        // Launches that had begun end.
        let ended = |(hand, queue): (&Arc<Hand>, &TestQueue)| {
            hand.get().log.len() as u64 == queue.stats().launched
        };
        soon("nothing is launched", || feed.hands.iter().zip(&feed.queues).all(ended));
        let launched = || -> Vec<_> { feed.hands.iter().map(|h| h.get().log.len()).collect() };
        let before = launched();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(launched(), before);
        feed.queues.iter().for_each(TestQueue::resume);
        // Room for the next commands, since no queue runs while they are submitted.
        feed.queues.iter().for_each(TestQueue::wait_all);
    }
    feed.assert_launched();
}

/// With the queues go the device and the runtime.
#[test]
fn what_was_handed_over_runs_after_the_last_handles_have_gone() {
    let mut feed = Feed::new(2, 4, &config());
    feed.submit_until_handed_over();
    feed.submit(500);
    let Feed { runtime, device, hands, queues, each } = feed;
    drop((runtime, device, queues));
    for hand in hands {
        soon("the last launches", || hand.get().log.len() as u64 == each);
        assert_eq!(hand.get().log, Vec::from_iter(0..each));
        soon("the end of the queue", || Arc::strong_count(&hand) == 1);
    }
}

#[test]
fn a_launch_that_panics_on_a_launcher_thread_loses_its_queue_alone() {
    let mut feed = Feed::new(1, 3, &config());
    feed.submit_until_handed_over();
    let last = feed.each + 99;
    feed.hands[0].get().panic = Some(last);
    let (panics, hand) = (feed.queues.remove(0), feed.hands.remove(0));
    let mut tickets = Vec::new();
    for number in feed.each..=last {
        tickets.push(panics.submit(number.into()).unwrap());
        feed.submit(1);
    }
    let lost = Err(WaitError::Failed(Fault::DeviceLost));
    assert_eq!(panics.wait(tickets[99]), lost);
    assert_eq!(hand.get().log, Vec::from_iter(0..last));
    feed.submit_until_handed_over();
    feed.assert_launched();
}

/// The policy held them, with what was handed over meanwhile.
#[test]
fn queues_that_are_let_go_without_a_policy_go_on() {
    let mut feed = Feed::new(2, 4, &config());
    let (fails, policy) = failing(|_| panic!("as the test wants it"));
    feed.submit_until_handed_over();
    feed.runtime.set_policy(policy).unwrap();
    feed.submit(100);
    fails.store(true, Ordering::Relaxed);
    feed.queues[0].set_hints(Default::default());
    soon("failing open", || feed.runtime.times_failed_open() > 0);
    feed.submit_until_handed_over();
    feed.assert_launched();
}

/// A thread that waits launches itself what the launcher thread does not come to.
#[test]
fn a_launch_that_blocks_keeps_no_waiter_of_another_queue() {
    let mut feed = Feed::new(1, 2, &config());
    feed.submit_until_handed_over();
    feed.hands[0].block(true);
    std::thread::scope(|scope| {
        let (first, blocked, other) = (feed.each, &feed.queues[0], &feed.queues[1]);
        let feeder = scope.spawn(move || {
            for number in first..first + 100 {
                other.submit(number.into()).unwrap();
                blocked.submit(number.into()).unwrap();
            }
        });
        soon("a launch", || feed.hands[0].get().inside);
        other.wait_all();
        feed.hands[0].block(false);
        feeder.join().unwrap();
    });
    feed.each += 100;
    feed.assert_launched();
}
