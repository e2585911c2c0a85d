//! Queues that are scheduled against each other.

use std::sync::Arc;
use std::time::Duration;

use xsched::policies::fcfs::Fcfs;
use xsched::policies::hpf::Hpf;
use xsched::{Runtime, RuntimeConfig, WaitError};
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_core::message::HoldState;

use crate::device::{ByHand, Hand};
use crate::{bench, config, soon};

fn held(queue: &crate::TestQueue) -> bool {
    matches!(queue.stats().hold, HoldState::Held(_))
}

#[test]
fn the_highest_priority_goes_first_and_the_others_go_on_when_it_is_idle() {
    let (_, device) = bench(Hpf::default());
    let (low_hand, high_hand) = (Arc::new(Hand::default()), Arc::new(Hand::default()));
    let low = device.queue(config(-5, Level::Deactivate, 4), low_hand.clone()).unwrap();
    let high = device.queue(config(5, Level::Deactivate, 4), high_hand.clone()).unwrap();
    for round in 0..50 {
        let background = low.submit(0.into()).unwrap();
        let urgent = high.submit(0.into()).unwrap();
        soon("the low queue is held", || held(&low));
        low_hand.complete(round + 1);
        let waited = low.wait_timeout(background, Duration::from_micros(100));
        assert_eq!(waited, Err(WaitError::Timeout));
        high_hand.complete(round + 1);
        assert_eq!(high.wait(urgent), Ok(()));
        assert_eq!(low.wait(background), Ok(()));
    }
}

#[test]
fn a_new_queue_obeys_from_its_first_command_on() {
    let (_, device) = bench(Hpf::default());
    let high_hand = Arc::new(Hand::default());
    let high = device.queue(config(5, Level::Block, 4), high_hand.clone()).unwrap();
    let urgent = high.submit(0.into()).unwrap();
    high.flush().unwrap();
    for _ in 0..50 {
        let hand = Hand::at_once();
        let low = device.queue(config(-5, Level::Block, 4), hand.clone()).unwrap();
        low.submit(0.into()).unwrap();
        assert!(hand.get().log.is_empty(), "launched although something urgent runs");
    }
    high_hand.complete(1);
    assert_eq!(high.wait(urgent), Ok(()));
}

/// W-C7: a change of policy or of hints takes effect without another event, and hints outlive it.
#[test]
fn policies_and_hints_change_at_once() {
    let (runtime, device) = bench(Hpf::default());
    let (low_hand, high_hand) = (Hand::at_once(), Arc::new(Hand::default()));
    let low = device.queue(config(-5, Level::Deactivate, 4), low_hand.clone()).unwrap();
    let high = device.queue(config(5, Level::Deactivate, 4), high_hand).unwrap();
    high.submit(0.into()).unwrap();
    high.flush().unwrap();
    let ticket = low.submit(0.into()).unwrap();
    soon("held", || held(&low));
    runtime.set_policy(Fcfs).unwrap();
    assert_eq!(low.wait(ticket), Ok(()));
    runtime.set_policy(Hpf::default()).unwrap();
    let ticket = low.submit(0.into()).unwrap();
    soon("held again, by the hints of before", || held(&low));
    low.set_hints(Hints::with_priority(Priority::MAX));
    assert_eq!(low.wait(ticket), Ok(()));
}

/// W-C5: a queue that must not execute does not.
#[test]
fn a_queue_that_must_not_execute_does_not() {
    let (_, device) = bench(Hpf::default());
    let hand = Hand::at_once();
    let queue = device.queue(config(-256, Level::Block, 4), hand.clone());
    let queue = queue.unwrap();
    let ticket = queue.submit(0.into()).unwrap();
    queue.flush().unwrap();
    assert_eq!(queue.wait_timeout(ticket, Duration::from_millis(20)), Err(WaitError::Timeout));
    queue.set_hints(Hints::default());
    assert_eq!(queue.wait(ticket), Ok(()));
}

#[test]
fn devices_are_scheduled_apart() {
    let (runtime, device) = bench(Hpf::default());
    let other = runtime.device(ByHand).unwrap();
    let high = device.queue(config(5, Level::Block, 4), Arc::new(Hand::default())).unwrap();
    let low = other.queue(config(-5, Level::Block, 4), Hand::at_once()).unwrap();
    high.submit(0.into()).unwrap();
    high.flush().unwrap();
    let ticket = low.submit(0.into()).unwrap();
    assert_eq!(low.wait(ticket), Ok(()));
}

/// No hints are given; one thread is less urgent to the operating system than the other.
#[cfg(target_os = "linux")]
#[test]
fn the_priority_of_the_submitting_thread_counts() {
    let (_, device) = bench(xsched::policies::chpf::Chpf::default());
    let (low_hand, high_hand) = (Arc::new(Hand::default()), Arc::new(Hand::default()));
    let low = device.queue(config(0, Level::Deactivate, 4), low_hand.clone()).unwrap();
    let high = device.queue(config(0, Level::Deactivate, 4), high_hand.clone()).unwrap();
    let nice = low.clone();
    let background = std::thread::spawn(move || {
        // Of the calling thread only, on Linux.
        rustix::process::setpriority_process(None, 19).unwrap();
        nice.submit(0.into()).unwrap()
    });
    let background = background.join().unwrap();
    let urgent = high.submit(0.into()).unwrap();
    soon("the queue of the nice thread is held", || held(&low));
    assert!(!held(&high));
    // Hints of its own do not make it forget whose queue it is.
    low.set_hints(Hints::with_priority(Priority::MAX));
    low_hand.complete(1);
    let waited = low.wait_timeout(background, Duration::from_millis(5));
    assert_eq!(waited, Err(WaitError::Timeout));
    assert!(held(&low));
    high_hand.complete(1);
    assert_eq!(high.wait(urgent), Ok(()));
    assert_eq!(low.wait(background), Ok(()));
}

#[cfg(target_os = "linux")]
mod low_priority {
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    use xsched_core::policy::{Changed, Decisions, Policy};
    use xsched_core::scheduler::QueueTable;
    use xsched_core::time::Instant;

    use super::*;

    /// Lets every queue run, and writes down on which threads it was asked.
    struct Asked(Arc<Mutex<Vec<ThreadId>>>);

    impl Policy for Asked {
        fn name(&self) -> &'static str {
            "asked"
        }

        fn decide(
            &mut self,
            _: Instant,
            _: Changed<'_>,
            _: &QueueTable<'_>,
            _: &mut Decisions<'_>,
        ) {
            self.0.lock().unwrap().push(thread::current().id());
        }
    }

    #[test]
    fn a_nice_thread_runs_no_round_that_another_thread_would_wait_for() {
        let threads = Arc::default();
        let trusting = RuntimeConfig::default().with_trusts_policy(true);
        let runtime = Runtime::with_config(Asked(Arc::clone(&threads)), trusting).unwrap();
        let device = runtime.device(ByHand).unwrap();
        let queue = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
        let nice = thread::spawn(move || {
            rustix::process::setpriority_process(None, 19).unwrap();
            for n in 0..100 {
                queue.wait(queue.submit(n.into()).unwrap()).unwrap();
            }
            queue.flush().unwrap();
            thread::current().id()
        });
        let nice = nice.join().unwrap();
        let threads = threads.lock().unwrap();
        let own = threads.iter().filter(|thread| **thread == nice).count();
        assert_eq!((own, threads.is_empty()), (0, false), "of {} rounds", threads.len());
    }
}
