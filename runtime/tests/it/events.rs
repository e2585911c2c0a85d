//! Queues that wait for commands of other queues.

use std::time::Duration;

use xsched::policies::{fcfs::Fcfs, hpf::Hpf};
use xsched::{Error, WaitError};
use xsched_core::fault::Fault;
use xsched_core::level::Level;
use xsched_core::scheduler::SchedulerError;

use crate::device::Hand;
use crate::{bench, config, lone, soon};

const MOMENT: Duration = Duration::from_millis(20);

#[test]
fn what_follows_a_wait_is_launched_after_the_event() {
    let (_, device) = bench(Fcfs);
    let (one, two) = (std::sync::Arc::new(Hand::default()), Hand::at_once());
    let first = device.queue(config(0, Level::Block, 4), one.clone()).unwrap();
    let second = device.queue(config(0, Level::Block, 4), two.clone()).unwrap();
    let before = second.submit(1.into()).unwrap();
    let event = first.submit(1.into()).unwrap();
    let waits = second.enqueue_wait(event).unwrap().expect("it has not retired");
    let after = second.submit(2.into()).unwrap();
    assert_eq!(second.wait(before), Ok(()));
    assert_eq!(second.wait_timeout(after, MOMENT), Err(WaitError::Timeout));
    assert_eq!(two.get().log, [1]);
    one.complete(1);
    assert_eq!(second.wait(after), Ok(()));
    assert_eq!(second.wait(waits), Ok(()));
    assert_eq!(two.get().log, [1, 2]);
    // Now there is nothing to wait for.
    assert_eq!(second.enqueue_wait(event).unwrap(), None);
    assert_eq!(second.enqueue_wait(after).unwrap(), None);
}

/// W-C6: the urgent queue waits for one that the policy holds; under plain priority both stop.
#[test]
fn who_is_waited_for_may_run() {
    let (_, device) = bench(Hpf::default());
    let (low_hand, high_hand) = (Hand::at_once(), std::sync::Arc::new(Hand::default()));
    let low = device.queue(config(-5, Level::Block, 4), low_hand).unwrap();
    let high = device.queue(config(5, Level::Block, 4), high_hand.clone()).unwrap();
    let busy = high.submit(1.into()).unwrap();
    high.flush().unwrap();
    let event = low.submit(1.into()).unwrap();
    assert_eq!(low.wait_timeout(event, MOMENT), Err(WaitError::Timeout), "it is held");
    assert!(high.enqueue_wait(event).unwrap().is_some());
    let last = high.submit(2.into()).unwrap();
    high_hand.get().at_once = true;
    // The last one too: it may have been launched just before.
    high_hand.complete(3);
    assert_eq!(high.wait(busy), Ok(()));
    assert_eq!(high.wait(last), Ok(()));
    assert_eq!(low.wait(event), Ok(()));
}

#[test]
fn queues_may_wait_for_each_other_back_and_forth() {
    let (_, device) = bench(Hpf::default());
    let one = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let two = device.queue(config(3, Level::Block, 4), Hand::at_once()).unwrap();
    let mut last = one.submit(0.into()).unwrap();
    for n in 0..100 {
        let (from, to) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        to.enqueue_wait(last).unwrap();
        last = to.submit(n.into()).unwrap();
        from.submit(n.into()).unwrap();
    }
    one.wait_all();
    two.wait_all();
    assert_eq!(one.stats().failed + two.stats().failed, 0);
}

#[test]
fn waiting_for_a_command_that_does_not_exist_cannot_be_asked_for() {
    let (_, device) = bench(Fcfs);
    let first = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let (_, stranger) = lone(4);
    let ticket = stranger.submit(1.into()).unwrap();
    assert!(matches!(first.enqueue_wait(ticket), Err(Error::OtherRuntime)));
    assert_eq!(first.wait(ticket), Err(WaitError::WrongQueue));
}

#[test]
fn a_wait_for_a_queue_that_is_lost_fails_and_the_next_command_runs() {
    let (_, device) = bench(Fcfs);
    let one = std::sync::Arc::new(Hand::default());
    let first = device.queue(config(0, Level::Block, 4), one.clone()).unwrap();
    let second = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let event = first.submit(1.into()).unwrap();
    let waits = second.enqueue_wait(event).unwrap().unwrap();
    let after = second.submit(1.into()).unwrap();
    one.get().lost = true;
    assert_eq!(second.wait(after), Ok(()));
    let answer = second.wait(waits);
    // What the loss failed has retired too, so either is true to the matter.
    assert!(matches!(answer, Ok(()) | Err(WaitError::Failed(Fault::Abandoned))), "{answer:?}");
}

#[test]
fn an_event_of_a_queue_that_has_gone_is_reached() {
    let (_, device) = bench(Fcfs);
    let first = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let second = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let event = first.submit(1.into()).unwrap();
    drop(first);
    soon("the queue has gone", || second.enqueue_wait(event).unwrap().is_none());
    let last = second.submit(1.into()).unwrap();
    assert_eq!(second.wait(last), Ok(()));
}

#[test]
fn the_table_of_waits_has_an_end() {
    let config_one = xsched::RuntimeConfig::default().with_waits(1);
    let runtime = xsched::Runtime::with_config(Fcfs, config_one).unwrap();
    let device = runtime.device(crate::device::ByHand).unwrap();
    let one = std::sync::Arc::new(Hand::default());
    let first = device.queue(config(0, Level::Block, 4), one.clone()).unwrap();
    let second = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let third = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let event = first.submit(1.into()).unwrap();
    assert!(second.enqueue_wait(event).unwrap().is_some());
    let refused = third.enqueue_wait(event);
    assert!(matches!(refused, Err(Error::Scheduler(SchedulerError::WaitTableFull))));
    one.complete(1);
    soon("there is room again", || third.enqueue_wait(event).is_ok());
}
