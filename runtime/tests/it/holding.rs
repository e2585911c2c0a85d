//! Suspended queues, and settings that change while a queue is held. Each test named after a defect
//! of the C++ XSched (v1.2.0) shows that it is not here.

use std::sync::Arc;
use std::time::Duration;

use xsched::policies::fcfs::Fcfs;
use xsched::{Drain, Quiet, WaitError};
use xsched_core::fault::Fault;
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::window::WindowConfig;

use crate::device::Hand;
use crate::{TestQueue, bench, config, lone, soon};

#[test]
fn nothing_is_launched_into_a_held_queue() {
    let (hand, queue) = lone(4);
    queue.suspend(Level::Block);
    let ticket = queue.submit(1.into()).unwrap();
    assert_eq!(queue.wait_timeout(ticket, Duration::from_millis(20)), Err(WaitError::Timeout));
    assert!(hand.get().log.is_empty());
    assert_eq!(queue.stats().hold, HoldState::Held(Level::Block));
    hand.get().at_once = true;
    queue.resume();
    assert_eq!(queue.wait(ticket), Ok(()));
    assert_eq!(queue.stats().hold, HoldState::Running);
}

#[test]
fn a_deeper_hold_reaches_the_device() {
    let (hand, queue) = lone(4);
    let ticket = queue.submit(1.into()).unwrap();
    queue.suspend(Level::Interrupt);
    assert!(hand.get().deactivated);
    assert_eq!(queue.stats().hold, HoldState::Held(Level::Deactivate));
    hand.complete(1);
    assert_eq!(queue.wait_timeout(ticket, Duration::from_millis(20)), Err(WaitError::Timeout));
    queue.resume();
    assert!(!hand.get().deactivated);
    assert_eq!(queue.wait(ticket), Ok(()));
}

const SECONDS: Option<Duration> = Some(Duration::from_secs(10));

/// The queue has two commands in flight and is suspended at Lv2.
fn suspended(quiet: Option<bool>) -> (Arc<Hand>, TestQueue) {
    let (hand, queue) = lone(4);
    hand.get().quiet = quiet;
    for n in 0..2 {
        queue.submit(n.into()).unwrap();
    }
    queue.suspend(Level::Interrupt);
    assert_eq!(queue.stats().hold, HoldState::Held(Level::Deactivate));
    (hand, queue)
}

#[test]
fn a_suspended_queue_is_quiet_when_the_device_says_so() {
    let (hand, queue) = suspended(Some(false));
    let moment = Some(Duration::from_millis(20));
    assert_eq!(queue.wait_quiet(moment), Err(WaitError::Timeout));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.wait_quiet(SECONDS));
        std::thread::sleep(Duration::from_millis(5));
        assert!(!waiting.is_finished());
        hand.get().quiet = Some(true);
        assert_eq!(waiting.join().unwrap(), Ok(Quiet::Reached));
    });
    assert_eq!(queue.stats().retired, 0, "what is held does not count");
}

#[test]
fn a_device_that_cannot_tell_ends_the_wait() {
    let (_hand, queue) = suspended(None);
    assert_eq!(queue.wait_quiet(SECONDS), Ok(Quiet::Unknown));
}

#[test]
fn a_wait_for_quiet_ends_with_the_hold() {
    let (hand, queue) = suspended(Some(false));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.wait_quiet(SECONDS));
        std::thread::sleep(Duration::from_millis(2));
        queue.resume();
        assert_eq!(waiting.join().unwrap(), Ok(Quiet::Resumed));
    });
    hand.complete(2);
    queue.wait_all();
    assert_eq!(queue.wait_quiet(SECONDS), Ok(Quiet::Resumed));
}

#[test]
fn a_wait_for_quiet_ends_with_the_device() {
    let (hand, queue) = suspended(Some(false));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.wait_quiet(SECONDS));
        std::thread::sleep(Duration::from_millis(2));
        hand.get().lost = true;
        assert_eq!(waiting.join().unwrap(), Ok(Quiet::Lost));
    });
}

#[test]
fn without_a_hold_on_the_device_all_that_was_launched_has_to_retire() {
    let (hand, queue) = lone(2);
    for n in 0..3 {
        queue.submit(n.into()).unwrap();
    }
    queue.suspend(Level::Block);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.wait_quiet(SECONDS));
        hand.complete(1);
        std::thread::sleep(Duration::from_millis(5));
        assert!(!waiting.is_finished());
        hand.complete(2);
        assert_eq!(waiting.join().unwrap(), Ok(Quiet::Reached));
    });
    assert_eq!(hand.get().log, [0, 1]);
    hand.get().at_once = true;
    queue.resume();
    queue.wait_all();
}

/// W-C1: a wait for everything during a hold, overlapped by the resume.
#[test]
fn holds_and_resumes_may_overlap_with_waits() {
    let (_, device) = bench(Fcfs);
    let hand = Hand::at_once();
    let queue = device.queue(config(0, Level::Deactivate, 4), hand.clone()).unwrap();
    for round in 0..200 {
        queue.suspend(Level::Deactivate);
        let waiter = queue.clone();
        let waiting = std::thread::spawn(move || waiter.wait_all());
        queue.submit(round.into()).unwrap();
        let resumer = queue.clone();
        let resuming = std::thread::spawn(move || resumer.resume());
        queue.suspend(Level::Block);
        resuming.join().unwrap();
        queue.resume();
        waiting.join().unwrap();
        queue.wait_all();
    }
    assert_eq!(queue.stats().retired, 200);
    assert_eq!(queue.stats().hold, HoldState::Running);
}

/// W-C2, and the exit on `(4, keep)` of W-C4: the window and the level of a held queue change
/// without draining, and any values are made to fit.
#[test]
fn settings_of_a_held_queue_change_at_once() {
    let (hand, queue) = lone(8);
    for n in 0..12 {
        queue.submit(n.into()).unwrap();
    }
    queue.suspend(Level::Block);
    queue.set_window(WindowConfig::fixed(4, 100));
    assert_eq!((queue.stats().threshold, queue.stats().batch), (4, 4));
    assert_eq!(queue.set_level(Level::Interrupt), Level::Deactivate, "the device's highest");
    queue.set_window(WindowConfig::fixed(12, 1));
    hand.get().at_once = true;
    hand.complete(8);
    queue.resume();
    queue.wait_all();
    assert_eq!(hand.get().log, (0..12).collect::<Vec<_>>());
}

/// W-C4: a level that the device cannot do is not taken for one that it can.
#[test]
fn the_level_of_a_queue_is_one_that_the_device_can_do() {
    let (_, device) = bench(Fcfs);
    let queue = device.queue(config(0, Level::Interrupt, 4), Hand::at_once()).unwrap();
    assert_eq!((queue.level(), queue.caps().level), (Level::Deactivate, Level::Deactivate));
    assert_eq!(queue.set_level(Level::Block), Level::Block);
    assert_eq!(queue.level(), Level::Block);
}

/// W-C4: dropping on resume works at Lv1.
#[test]
fn resuming_can_drop_what_was_not_launched() {
    let (hand, queue) = lone(4);
    let running = queue.submit(0.into()).unwrap();
    queue.suspend(Level::Block);
    let dropped = queue.submit(1.into()).unwrap();
    queue.resume_and_drop();
    let after = queue.submit(2.into()).unwrap();
    hand.complete(3);
    assert_eq!(queue.wait(dropped), Err(WaitError::Failed(Fault::Cancelled)));
    assert_eq!(queue.wait(running), Ok(()));
    assert_eq!(queue.wait(after), Ok(()));
    assert_eq!(hand.get().log, [0, 2]);
}

/// W-C8: a launch that was blocked in the driver does not lead to more after the hold, and neither
/// the hold nor other submitters wait behind it.
#[test]
fn a_launch_that_blocks_in_the_driver_blocks_no_other_thread() {
    let (hand, queue) = lone(8);
    hand.block(true);
    let submitter = queue.clone();
    let stuck = std::thread::spawn(move || submitter.submit(0.into()).unwrap());
    soon("the launch is in the driver", || hand.get().inside);
    let second = queue.submit(1.into()).unwrap();
    queue.suspend(Level::Block);
    assert_eq!(queue.stats().submitted, 2);
    hand.block(false);
    let first = stuck.join().unwrap();
    hand.complete(2);
    assert_eq!(queue.wait(first), Ok(()));
    assert_eq!(queue.wait_timeout(second, Duration::from_millis(20)), Err(WaitError::Timeout));
    assert_eq!(hand.get().log, [0]);
    queue.resume();
    assert_eq!(queue.wait(second), Ok(()));
}

/// W-C3: a suspension that waits first keeps no thread but its caller.
#[test]
fn holding_after_everything_has_retired() {
    let (hand, queue) = lone(4);
    let before = queue.submit(1.into()).unwrap();
    let moment = Some(Duration::from_millis(20));
    assert_eq!(queue.suspend_after(Drain::All, Level::Block, moment), Err(WaitError::Timeout));
    assert!(!queue.stats().suspended);
    let holder = std::thread::spawn({
        let queue = queue.clone();
        move || queue.suspend_after(Drain::All, Level::Block, None)
    });
    hand.complete(1);
    holder.join().unwrap().unwrap();
    assert_eq!(queue.wait(before), Ok(()));
    let after = queue.submit(2.into()).unwrap();
    assert_eq!(queue.wait_timeout(after, Duration::from_millis(20)), Err(WaitError::Timeout));
    // Held already: it does not wait for what cannot run.
    assert_eq!(queue.suspend_after(Drain::All, Level::Block, None), Ok(()));
    hand.get().at_once = true;
    queue.resume();
    assert_eq!(queue.wait(after), Ok(()));
}

#[test]
fn holding_at_a_moment_of_rest() {
    let (hand, queue) = lone(4);
    queue.suspend_after(Drain::Idle, Level::Block, None).unwrap();
    assert!(queue.stats().suspended);
    queue.resume();
    let first = queue.submit(1.into()).unwrap();
    let holder = std::thread::spawn({
        let queue = queue.clone();
        move || queue.suspend_after(Drain::Idle, Level::Block, None)
    });
    std::thread::sleep(Duration::from_millis(5));
    let second = queue.submit(2.into()).unwrap();
    hand.complete(1);
    assert_eq!(queue.wait(first), Ok(()));
    std::thread::sleep(Duration::from_millis(5));
    assert!(!queue.stats().suspended, "it never rested");
    hand.complete(2);
    holder.join().unwrap().unwrap();
    assert_eq!(queue.wait(second), Ok(()));
    assert!(queue.stats().suspended);
}

#[test]
fn a_begun_launch_waits_for_room_behind_what_was_dropped() {
    let (hand, queue) = lone(3);
    // So that nothing retires is no reason to launch more.
    hand.get().held_by_others = true;
    let running: Vec<_> = (0..2).map(|n| queue.submit(n.into()).unwrap()).collect();
    queue.suspend(Level::Block);
    let dropped: Vec<_> = (2..4).map(|n| queue.submit(n.into()).unwrap()).collect();
    // The first that is dropped takes up the rest of the window until those in front retire.
    queue.resume_and_drop();
    std::thread::scope(|scope| {
        let launch = scope.spawn(|| {
            let token = queue.begin_launch(4.into()).unwrap().unwrap();
            let ticket = token.ticket().unwrap();
            token.end(true);
            ticket
        });
        soon("the launch waits", || queue.stats().submitted == 5);
        hand.complete(1);
        assert_eq!(queue.wait(running[0]), Ok(()));
        // The second that is dropped passes now, and the window is full again.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(hand.get().log, [0, 1]);
        hand.complete(2);
        let ticket = launch.join().unwrap();
        assert_eq!(hand.get().log, [0, 1, 4]);
        hand.complete(5);
        assert_eq!(queue.wait(ticket), Ok(()));
    });
    for ticket in dropped {
        assert_eq!(queue.wait(ticket), Err(WaitError::Failed(Fault::Cancelled)));
    }
}

#[test]
fn a_begun_launch_is_made_though_nothing_retires() {
    let (hand, queue) = lone(2);
    // What is in flight waits for the thread that launches.
    let tickets: Vec<_> = (0..100)
        .map(|n| {
            let token = queue.begin_launch(n.into()).unwrap().unwrap();
            let ticket = token.ticket().unwrap();
            token.end(true);
            ticket
        })
        .collect();
    assert!(hand.get().log.iter().copied().eq(0..100));
    hand.complete(100);
    queue.wait_all();
    assert!(tickets.into_iter().all(|ticket| queue.wait(ticket) == Ok(())));
    // Something has retired, so the window is what it was.
    let begin = |n: u64| queue.begin_launch(n.into()).unwrap().unwrap().end(true);
    (100..102).for_each(begin);
    std::thread::scope(|scope| {
        hand.get().held_by_others = true;
        scope.spawn(|| begin(102));
        std::thread::sleep(Duration::from_millis(80));
        assert_eq!(hand.get().log.len(), 102, "held for another one");
        hand.complete(101);
    });
    hand.complete(103);
    queue.wait_all();
}

#[test]
fn a_sealed_queue_is_seen_to_retire_without_a_touch() {
    let (hand, queue) = lone(16);
    assert!(queue.seal(), "nothing was launched");
    let tickets: Vec<_> = (0..5).map(|n| queue.submit(n.into()).unwrap()).collect();
    assert!(queue.seal() && hand.get().sealed);
    let fenced = hand.get().fenced.clone();
    assert_eq!(fenced.last(), Some(&5));
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(hand.get().fenced, fenced);
    hand.complete(5);
    assert!(tickets.into_iter().all(|ticket| queue.wait(ticket) == Ok(())));
    assert!(hand.get().sealed);
    hand.get().at_once = true;
    let next = queue.submit(5.into()).unwrap();
    assert!(!hand.get().sealed);
    assert_eq!(queue.wait(next), Ok(()));
    // What is not launched would be launched later.
    queue.suspend(Level::Block);
    queue.submit(6.into()).unwrap();
    assert!(!queue.seal());
    queue.resume();
    queue.wait_all();
}
