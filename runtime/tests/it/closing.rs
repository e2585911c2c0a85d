//! Closing queues, and ending a runtime.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use xsched::policies::fcfs::Fcfs;
use xsched::policies::hpf::Hpf;
use xsched::{Error, SubmitError, WaitError};
use xsched_core::level::Level;

use crate::device::Hand;
use crate::{bench, config, lone, soon};

const MOMENT: Duration = Duration::from_millis(5);

#[test]
fn a_closed_queue_takes_nothing_and_what_it_has_still_runs() {
    let (hand, queue) = lone(4);
    let other = queue.clone();
    queue.suspend(Level::Block);
    let tickets: Vec<_> = (0..8).map(|n| queue.submit(n.into()).unwrap()).collect();
    assert_eq!(other.close_timeout(MOMENT), Err(WaitError::Timeout));
    for handle in [&queue, &other] {
        assert!(
            matches!(handle.try_submit(9.into()), Err(SubmitError::Closed(job)) if job.number == 9)
        );
    }
    hand.complete(8);
    queue.close();
    assert_eq!(queue.stats().retired, 8);
    assert!(tickets.into_iter().all(|ticket| other.wait(ticket).is_ok()));
    queue.close();
}

#[test]
fn a_submitter_that_waits_for_room_learns_that_the_queue_is_closed() {
    let (_, device) = bench(Fcfs);
    let hand = Arc::new(Hand::default());
    let queue = device.queue(config(0, Level::Block, 2).with_capacity(2), hand.clone()).unwrap();
    (0..2).for_each(|n| _ = queue.submit(n.into()).unwrap());
    std::thread::scope(|scope| {
        let submitter = scope.spawn(|| queue.submit(2.into()));
        assert_eq!(queue.close_timeout(MOMENT), Err(WaitError::Timeout));
        hand.complete(2);
        let refused = submitter.join().unwrap();
        // Unless the submitter came before.
        let early = refused.is_ok();
        hand.complete(3);
        assert!(early || matches!(refused, Err(SubmitError::Closed(_))));
    });
}

#[test]
fn a_queue_is_drained_and_closed_as_a_future() {
    let (hand, queue) = lone(4);
    let mut context = Context::from_waker(Waker::noop());
    let mut poll =
        |future: &mut xsched::Completion<_>| std::pin::Pin::new(future).poll(&mut context);
    assert_eq!(poll(&mut queue.wait_all_async()), Poll::Ready(Ok(())), "nothing was submitted");
    queue.submit(0.into()).unwrap();
    let mut drained = queue.wait_all_async();
    queue.submit(1.into()).unwrap();
    let mut closed = queue.close_async();
    assert_eq!((poll(&mut drained), poll(&mut closed)), (Poll::Pending, Poll::Pending));
    hand.complete(1);
    soon("what was submitted before has retired", || poll(&mut drained).is_ready());
    assert_eq!(poll(&mut closed), Poll::Pending);
    hand.complete(2);
    soon("the queue is closed", || poll(&mut closed).is_ready());
}

#[test]
fn a_closed_queue_gives_its_place_back_while_there_are_handles() {
    let (runtime, device) = bench(Fcfs);
    let _ = runtime;
    let queue = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let other = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let ticket = other.submit(0.into()).unwrap();
    queue.submit(0.into()).unwrap();
    queue.close();
    assert!(matches!(queue.enqueue_wait(ticket), Err(Error::Scheduler(_) | Error::QueueClosed)));
    queue.set_hints(Default::default());
    queue.set_level(Level::Block);
    queue.suspend(Level::Block);
    queue.resume();
    queue.flush().unwrap();
    let next = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    next.submit(0.into()).unwrap();
    next.close();
}

#[test]
fn a_runtime_ends_when_its_queues_have_drained() {
    let (runtime, device) = bench(Hpf::default());
    let queue = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    (0..100).for_each(|n| _ = queue.submit(n.into()).unwrap());
    runtime.shutdown(Duration::from_secs(10)).unwrap();
    assert_eq!(queue.stats().retired, 100);
    assert!(!runtime.is_scheduling());
    assert_eq!(runtime.times_failed_open(), 0, "no hold had to be ended");
    assert!(matches!(queue.submit(0.into()), Err(SubmitError::Closed(_))));
    let refused = device.queue(config(0, Level::Block, 4), Hand::at_once());
    assert!(matches!(refused, Err(Error::SchedulerGone)));
    runtime.shutdown(Duration::ZERO).unwrap();
}

#[test]
fn a_shutdown_says_what_has_not_ended() {
    let (runtime, device) = bench(Hpf::default());
    let (stuck_hand, urgent_hand) = (Arc::new(Hand::default()), Arc::new(Hand::default()));
    let stuck = config(-5, Level::Block, 4).with_name("nightly");
    let stuck = device.queue(stuck, stuck_hand.clone()).unwrap();
    let urgent = device.queue(config(5, Level::Block, 4), urgent_hand.clone()).unwrap();
    let idle = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    urgent.submit(0.into()).unwrap();
    urgent.flush().unwrap();
    (0..3).for_each(|n| _ = stuck.submit(n.into()).unwrap());
    stuck.flush().unwrap();
    let error = runtime.shutdown(MOMENT).unwrap_err();
    let text = error.to_string();
    let names: Vec<_> = error.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["nightly", "1-1"], "{text}");
    let left = "queue nightly on device-0 has 3 of 3 commands left and the policy holds it";
    assert!(text.contains(left), "{text}");
    assert!(text.contains("queue 1-1 on device-0 has 1 of 1 commands left and it runs"), "{text}");
    assert!(matches!(idle.submit(0.into()), Err(SubmitError::Closed(_))));
    assert!(device.queue(config(0, Level::Block, 4), Hand::at_once()).is_err());
    urgent_hand.complete(1);
    stuck_hand.complete(3);
    runtime.shutdown(Duration::from_secs(10)).unwrap();
    assert_eq!(stuck.stats().retired, 3);
}
