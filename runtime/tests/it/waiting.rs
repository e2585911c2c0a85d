//! Submitting and waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use xsched::policies::fcfs::Fcfs;
use xsched::{SubmitError, WaitError};
use xsched_core::fault::Fault;
use xsched_core::level::Level;

use crate::device::{Hand, Job};
use crate::{TestQueue, bench, config, lone, soon};

#[test]
fn commands_of_many_handles_arrive_once_each_and_in_order_of_their_tickets() {
    let (_, device) = bench(Fcfs);
    let hand = Hand::at_once();
    let queue = device.queue(config(0, Level::Block, 8), hand.clone()).unwrap();
    let mut submitted: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let submit = |thread: u64| {
            let queue = queue.clone();
            scope.spawn(move || {
                let one = |n: u64| {
                    let job = thread * 10_000 + n;
                    (queue.submit(job.into()).unwrap().number(), job)
                };
                (0..2_000).map(one).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..4).map(submit).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    queue.wait_all();
    submitted.sort_unstable();
    let expected: Vec<u64> = submitted.iter().map(|s| s.1).collect();
    assert_eq!(hand.get().log, expected);
    assert!(hand.get().most_in_flight <= 8);
    assert_eq!(queue.stats().retired, 8_000);
}

#[test]
fn a_wait_ends_when_its_command_has_retired_and_not_before() {
    let (hand, queue) = lone(8);
    let first = queue.submit(1.into()).unwrap();
    let second = queue.submit(2.into()).unwrap();
    assert_eq!(queue.wait_timeout(second, Duration::from_millis(20)), Err(WaitError::Timeout));
    hand.complete(1);
    assert_eq!(queue.wait(first), Ok(()));
    assert_eq!(queue.wait_timeout(second, Duration::from_millis(20)), Err(WaitError::Timeout));
    let waiter = queue.clone();
    let waiting = std::thread::spawn(move || waiter.wait(second));
    std::thread::sleep(Duration::from_millis(20));
    hand.complete(2);
    assert_eq!(waiting.join().unwrap(), Ok(()));
    assert_eq!(queue.wait(second), Ok(()), "waiting again is fine");
}

#[test]
fn the_in_flight_threshold_is_kept_and_the_pump_goes_on() {
    let (hand, queue) = lone(4);
    for n in 0..20 {
        queue.submit(n.into()).unwrap();
    }
    assert_eq!(hand.get().log.len(), 4);
    for done in 1..=20 {
        hand.complete(done);
        let expected = (done + 2).clamp(4, 20) as usize;
        soon("more is launched", || hand.get().log.len() >= expected);
        let line = hand.get();
        assert!(line.log.len() as u64 <= done + 4, "{} after {done}", line.log.len());
    }
    queue.wait_all();
    assert!(hand.get().most_in_flight <= 4);
}

#[test]
fn commands_from_the_failed_one_on_give_the_error_to_every_waiter() {
    let (hand, queue) = lone(8);
    hand.get().fail = Some(1);
    let tickets: Vec<_> = (0..3).map(|n| queue.submit(n.into()).unwrap()).collect();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (queue, ticket) = (queue.clone(), tickets[1]);
            std::thread::spawn(move || queue.wait(ticket))
        })
        .collect();
    // The fence that their waits asked for stands behind everything launched.
    hand.complete(3);
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Err(WaitError::Failed(Fault::Execution)));
    }
    assert_eq!(queue.wait(tickets[0]), Ok(()));
    assert_eq!(queue.wait(tickets[2]), Err(WaitError::Failed(Fault::Execution)));
}

#[test]
fn a_refused_launch_fails_that_command_alone() {
    let (hand, queue) = lone(8);
    hand.get().refuse = Some(1);
    hand.get().at_once = true;
    let tickets: Vec<_> = (0..3).map(|n| queue.submit(n.into()).unwrap()).collect();
    assert_eq!(queue.wait(tickets[1]), Err(WaitError::Failed(Fault::Launch)));
    assert_eq!(queue.wait(tickets[0]), Ok(()));
    assert_eq!(queue.wait(tickets[2]), Ok(()));
    assert_eq!(hand.get().log, [0, 2]);
}

#[test]
fn a_full_queue_gives_the_command_back_and_a_submit_waits_for_room() {
    let (_, device) = bench(Fcfs);
    let hand = Arc::new(Hand::default());
    let config = config(0, Level::Block, 2).with_capacity(4);
    let queue = device.queue(config, hand.clone()).unwrap();
    for n in 0..4 {
        queue.submit(n.into()).unwrap();
    }
    match queue.try_submit(9.into()) {
        Err(SubmitError::Full(job)) => assert_eq!(job.number, 9),
        other => panic!("{other:?}"),
    }
    let submitter = queue.clone();
    let submitting = std::thread::spawn(move || submitter.submit(4.into()).map(|t| t.number()));
    std::thread::sleep(Duration::from_millis(10));
    assert!(!submitting.is_finished());
    hand.get().at_once = true;
    hand.complete(2);
    assert!(matches!(submitting.join().unwrap(), Ok(4)));
    queue.wait_all();
    assert_eq!(hand.get().log, [0, 1, 2, 3, 4]);
}

struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_completion_is_a_future() {
    let (hand, queue) = lone(8);
    let ticket = queue.submit(1.into()).unwrap();
    let count = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(queue.completion(ticket));
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert!(future.as_mut().poll(&mut context).is_pending());
    hand.complete(1);
    soon("the waker is woken", || count.0.load(Ordering::SeqCst) > 0);
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(Ok(())));
}

#[test]
fn what_was_not_launched_can_be_cancelled() {
    let (hand, queue) = lone(1);
    let running = queue.submit(0.into()).unwrap();
    let waiting = queue.submit(1.into()).unwrap();
    let last = queue.submit(2.into()).unwrap();
    assert!(!queue.cancel(running));
    assert!(queue.cancel(waiting));
    assert!(!queue.cancel(waiting), "once is enough");
    hand.get().at_once = true;
    hand.complete(1);
    assert_eq!(queue.wait(last), Ok(()));
    assert_eq!(queue.wait(waiting), Err(WaitError::Failed(Fault::Cancelled)));
    assert_eq!(hand.get().log, [0, 2]);
}

#[test]
fn a_ticket_of_another_queue_is_refused() {
    let (_, device) = bench(Fcfs);
    let make = || device.queue(config(0, Level::Block, 8), Hand::at_once()).unwrap();
    let (one, other) = (make(), make());
    let ticket = one.submit(1.into()).unwrap();
    assert_eq!(other.wait(ticket), Err(WaitError::WrongQueue));
    assert!(!other.cancel(ticket));
    assert_eq!(one.wait(ticket), Ok(()));
}

#[test]
fn dropping_the_last_handle_lets_everything_run_and_frees_the_hardware_queue() {
    let (hand, queue) = lone(2);
    for n in 0..6 {
        queue.submit(n.into()).unwrap();
    }
    queue.suspend(Level::Block);
    drop(queue);
    hand.get().at_once = true;
    hand.complete(2);
    soon("all six are launched", || hand.get().log.len() == 6);
    soon("the queue is gone", || Arc::strong_count(&hand) == 1);
}

#[test]
fn a_handle_may_be_dropped_by_the_command_that_holds_it() {
    let (_, device) = bench(Fcfs);
    let hand = Hand::at_once();
    let queue = device.queue(config(0, Level::Block, 4), hand.clone()).unwrap();
    let other_hand = Hand::at_once();
    let other = device.queue(config(0, Level::Block, 4), other_hand.clone()).unwrap();
    let own = queue.clone();
    queue.suspend(Level::Block);
    // One is dropped by the launch, one with what is dropped, one by a launch on another queue.
    for (n, luggage) in [(0, Some(own)), (1, None), (2, Some(queue.clone()))] {
        let luggage = luggage.map(|queue| Box::new(queue) as Box<dyn Send>);
        queue.submit(Job { number: n, luggage }).unwrap();
    }
    other.submit(Job { number: 3, luggage: Some(Box::new(queue.clone())) }).unwrap();
    queue.resume_and_drop();
    drop(queue);
    soon("the queue is gone", || Arc::strong_count(&hand) == 1);
    other.wait_all();
    assert_eq!(other_hand.get().log, [3]);
}

#[test]
fn a_submission_is_a_future_that_waits_for_room() {
    let (_, device) = bench(Fcfs);
    let hand = Arc::new(Hand::default());
    let small = config(0, Level::Block, 2).with_capacity(2);
    let queue = device.queue(small, hand.clone()).unwrap();
    let mut last = None;
    for n in 0..2 {
        last = Some(block_on(queue.submit_async(n.into())).unwrap());
    }
    let finisher = std::thread::spawn({
        let hand = hand.clone();
        move || {
            std::thread::sleep(Duration::from_millis(5));
            hand.get().at_once = true;
            hand.complete(2);
        }
    });
    for n in 2..50 {
        last = Some(block_on(queue.submit_async(n.into())).unwrap());
    }
    finisher.join().unwrap();
    assert_eq!(queue.wait(last.unwrap()), Ok(()));
    assert_eq!(hand.get().log, (0..50).collect::<Vec<_>>());
}

#[test]
fn callbacks_come_once_and_may_drop_the_last_handle() {
    let (hand, queue) = lone(4);
    let (sender, outcomes) = std::sync::mpsc::channel();
    let good = queue.submit(1.into()).unwrap();
    let bad = queue.submit(2.into()).unwrap();
    hand.get().fail = Some(bad.number());
    let (say, other, handle) = (sender.clone(), sender.clone(), queue.clone());
    queue
        .on_retired(good, move |outcome| {
            drop(handle);
            say.send((1, outcome)).unwrap();
        })
        .unwrap();
    queue
        .on_retired(bad, move |outcome| {
            other.send((2, outcome)).unwrap();
            panic!("as the test wants it");
        })
        .unwrap();
    let (_, stranger) = lone(1);
    let third = sender.clone();
    stranger.on_retired(good, move |outcome| third.send((3, outcome)).unwrap()).unwrap();
    assert_eq!(outcomes.recv(), Ok((3, Err(WaitError::WrongQueue))));
    assert!(outcomes.try_recv().is_err());
    drop(queue);
    hand.complete(2);
    assert_eq!(outcomes.recv(), Ok((1, Ok(()))));
    assert_eq!(outcomes.recv(), Ok((2, Err(WaitError::Failed(Fault::Execution)))));
    soon("the queue closes", || Arc::strong_count(&hand) == 1);
    drop(sender);
    assert!(outcomes.recv().is_err(), "once each");
}

#[test]
fn a_callback_for_what_has_retired_comes_at_once() {
    let (_, device) = bench(Fcfs);
    let queue = device.queue(config(0, Level::Block, 2), Hand::at_once()).unwrap();
    let ticket = queue.submit(1.into()).unwrap();
    queue.wait(ticket).unwrap();
    let (sender, outcomes) = std::sync::mpsc::channel();
    queue.on_retired(ticket, move |outcome| sender.send(outcome).unwrap()).unwrap();
    assert_eq!(outcomes.recv(), Ok(Ok(())));
}

#[test]
fn a_cancelled_command_makes_no_room_before_it_retires() {
    let (_, device) = bench(Fcfs);
    let hand = Arc::new(Hand::default());
    let small = config(0, Level::Block, 1).with_capacity(2);
    let queue = device.queue(small, hand.clone()).unwrap();
    queue.suspend(Level::Block);
    let first = queue.submit(0.into()).unwrap();
    let second = queue.submit(1.into()).unwrap();
    assert!(queue.cancel(first) && queue.cancel(second));
    assert_eq!(queue.wait(second), Err(WaitError::Failed(Fault::Cancelled)));
    assert_eq!(queue.wait_all_timeout(Duration::from_millis(5)), Err(WaitError::Timeout));
    let mut third = std::pin::pin!(queue.submit_async(2.into()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(third.as_mut().poll(&mut context).is_pending());
    queue.resume();
    hand.get().at_once = true;
    let third = block_on(third).unwrap();
    assert_eq!(queue.wait(third), Ok(()));
    assert_eq!(hand.get().log, [2]);
}

#[test]
fn a_completion_that_is_dropped_leaves_no_waker() {
    let (_hand, queue) = lone(8);
    let ticket = queue.submit(1.into()).unwrap();
    let count = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(count.clone());
    let mut future = Box::pin(queue.completion(ticket));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(Arc::strong_count(&count), 3);
    drop(future);
    assert_eq!(Arc::strong_count(&count), 2);
}

#[test]
fn completions_that_are_awaited_late_keep_their_outcomes() {
    let (_, device) = bench(Fcfs);
    let small = config(0, Level::Block, 2).with_capacity(4);
    let queue = device.queue(small, Hand::at_once()).unwrap();
    let completion = |n: u64| queue.completion(queue.submit(n.into()).unwrap());
    let completions: Vec<_> = (0..200).map(completion).collect();
    queue.wait_all();
    for completion in completions {
        assert_eq!(block_on(completion), Ok(()));
    }
}

#[test]
fn waiters_do_not_make_a_submit_slower() {
    let (_, device) = bench(Fcfs);
    let large = config(0, Level::Block, 1).with_capacity(32_768);
    let hand = Arc::new(Hand::default());
    let queue = device.queue(large, hand.clone()).unwrap();
    let submit_1_000 = || {
        let start = std::time::Instant::now();
        for n in 0..1_000 {
            queue.submit(n.into()).unwrap();
        }
        start.elapsed()
    };
    let alone = (0..5).map(|_| submit_1_000()).min().unwrap();
    let count = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(count);
    let mut waiting: Vec<_> = (0..10_000)
        .map(|n| Box::pin(queue.completion(queue.ticket_of(n % 5_000).unwrap())))
        .collect();
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let beside = (0..5).map(|_| submit_1_000()).min().unwrap();
    assert!(beside < alone * 20 + Duration::from_millis(2), "{beside:?}, alone {alone:?}");
    hand.get().at_once = true;
    hand.complete(1);
    queue.wait_all();
}

#[test]
fn callbacks_come_on_a_thread_of_their_own_also_for_a_wrong_ticket() {
    let (_, queue) = lone(1);
    let (_hand, stranger) = lone(1);
    let ticket = stranger.submit(0.into()).unwrap();
    let (sender, threads) = std::sync::mpsc::channel();
    let say = move |outcome| sender.send((outcome, std::thread::current().id())).unwrap();
    queue.on_retired(ticket, say).unwrap();
    let (outcome, thread) = threads.recv().unwrap();
    assert_eq!(outcome, Err(WaitError::WrongQueue));
    assert_ne!(thread, std::thread::current().id());
}

/// Panics when it is woken.
struct Alarmed;

impl Wake for Alarmed {
    fn wake(self: Arc<Self>) {
        panic!("as the test wants it");
    }
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() {
    let (hand, queue) = lone(8);
    let ticket = queue.submit(1.into()).unwrap();
    let count = Arc::new(Count(AtomicU64::new(0)));
    let (bad, good) = (Waker::from(Arc::new(Alarmed)), Waker::from(count.clone()));
    let mut futures: Vec<_> = (0..20).map(|_| Box::pin(queue.completion(ticket))).collect();
    for (n, future) in futures.iter_mut().enumerate() {
        let waker = if n.is_multiple_of(4) { &bad } else { &good };
        assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    hand.complete(1);
    soon("the other fifteen are woken", || count.0.load(Ordering::SeqCst) == 15);
}

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn a_wait_knows_the_outcome_however_late_it_begins() {
    for capacity in [1, 3, 4, 16] {
        let (_, device) = bench(Fcfs);
        let hand = Hand::at_once();
        hand.get().refuse = Some(7);
        let small = config(0, Level::Block, 2).with_capacity(capacity);
        let queue = device.queue(small, hand).unwrap();
        let tickets: Vec<_> = (0..200).map(|n| queue.submit(n.into()).unwrap()).collect();
        queue.wait_all();
        for (n, &ticket) in tickets.iter().enumerate() {
            let failed = n == 7;
            let expected = if failed { Err(WaitError::Failed(Fault::Launch)) } else { Ok(()) };
            assert_eq!(queue.wait(ticket), expected, "command {n}, capacity {capacity}");
            assert_eq!(block_on(queue.completion(ticket)), expected);
        }
    }
}

/// A full queue with room for two commands, and its device.
fn full() -> (Arc<Hand>, TestQueue) {
    let (_, device) = bench(Fcfs);
    let hand = Arc::new(Hand::default());
    let small = config(0, Level::Block, 1).with_capacity(2);
    let queue = device.queue(small, hand.clone()).unwrap();
    for n in 0..2 {
        queue.submit(n.into()).unwrap();
    }
    (hand, queue)
}

#[test]
fn room_goes_to_the_submitter_that_waits_for_it_longest() {
    let (hand, queue) = full();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(queue.submit_async(9.into()))).collect();
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    let late = |queue: &TestQueue| matches!(queue.try_submit(7.into()), Err(SubmitError::Full(_)));
    for place in 0..2 {
        hand.complete(place + 1);
        soon("a command has retired", || queue.stats().retired == place + 1);
        assert!(late(&queue), "the place is kept for one that came sooner");
    }
    // The second may take its place before the first does.
    let mut last = waiting.pop().unwrap();
    assert!(last.as_mut().poll(&mut context).is_ready());
    assert!(late(&queue));
    assert!(waiting[0].as_mut().poll(&mut context).is_ready());
    hand.get().at_once = true;
    hand.complete(3);
    queue.wait_all();
    queue.try_submit(7.into()).unwrap();
}

#[test]
fn a_place_that_a_submission_leaves_is_the_next_ones() {
    let (hand, queue) = full();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(queue.submit_async(9.into()));
    let count = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(count.clone());
    let mut second = Box::pin(queue.submit_async(9.into()));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    hand.complete(1);
    soon("a command has retired", || queue.stats().retired == 1);
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(first);
    soon("the second is woken", || count.0.load(Ordering::SeqCst) == 1);
    assert!(second.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_submission_that_waits_for_room_learns_that_the_device_is_lost() {
    let (hand, queue) = full();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting = Box::pin(queue.submit_async(9.into()));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    hand.get().lost = true;
    soon("the device is lost", || queue.stats().lost);
    let lost = waiting.as_mut().poll(&mut context);
    assert!(matches!(lost, Poll::Ready(Err(SubmitError::Lost(_)))), "{lost:?}");
}
