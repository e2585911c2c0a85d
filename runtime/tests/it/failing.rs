//! Failures of the library's own parts, or of the device. The process must live, and queues that
//! the scheduler holds must run again; suspended queues stay suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xsched::policies::hpf::Hpf;
use xsched::{Error, Runtime, RuntimeConfig, SubmitError, WaitError, XQueueConfig};
use xsched_core::fault::Fault;
use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::policy::{Changed, Decisions, Event, Needs, Policy, Urgency, Verdict};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

use crate::device::{ByHand, Grenade, Hand, Job};
use crate::{TestQueue, bench, config, soon};

/// Holds every queue, and fails in some way once `now` is set.
pub(crate) struct Failing {
    now: Arc<AtomicBool>,
    how: fn(&AtomicBool),
}

impl Policy for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn observe(&mut self, _: Instant, _: QueueId, _: Event, _: &QueueTable<'_>) {
        if self.now.load(Ordering::Relaxed) {
            (self.how)(&self.now);
        }
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        for queue in queues.iter() {
            out.set(queue.id, Verdict::Hold(Urgency::NOW));
        }
    }
}

pub(crate) fn failing(how: fn(&AtomicBool)) -> (Arc<AtomicBool>, Failing) {
    let now = Arc::new(AtomicBool::new(false));
    (now.clone(), Failing { now, how })
}

#[test]
fn a_policy_that_panics_ends_its_holds_and_nothing_else() {
    let (now, policy) = failing(|_| panic!("as the test wants it"));
    let (runtime, device) = bench(policy);
    let held = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let by_hand = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    by_hand.suspend(Level::Block);
    held.flush().unwrap();
    let tickets = [held.submit(0.into()).unwrap(), by_hand.submit(0.into()).unwrap()];
    now.store(true, Ordering::Relaxed);
    held.set_hints(Default::default());
    assert_eq!(held.wait(tickets[0]), Ok(()));
    let waited = by_hand.wait_timeout(tickets[1], Duration::from_millis(20));
    assert_eq!(waited, Err(WaitError::Timeout));
    assert!(runtime.is_scheduling(), "the policy has gone, the scheduler has not");
    assert_eq!(runtime.times_failed_open(), 1);
    // What comes later runs too, until another policy takes over.
    let later = device.queue(config(-9, Level::Block, 4), Hand::at_once()).unwrap();
    let ticket = later.submit(0.into()).unwrap();
    assert_eq!(later.wait(ticket), Ok(()));
    now.store(false, Ordering::Relaxed);
    runtime.set_policy(Failing { now: now.clone(), how: |_| {} }).unwrap();
    let ticket = later.submit(0.into()).unwrap();
    assert_eq!(later.wait_timeout(ticket, Duration::from_millis(20)), Err(WaitError::Timeout));
    runtime.set_policy(Hpf::default()).unwrap();
    assert_eq!(later.wait(ticket), Ok(()));
    by_hand.resume();
    assert_eq!(by_hand.wait(tickets[1]), Ok(()));
}

/// A policy that panics wherever it can.
struct Touchy;

impl Policy for Touchy {
    fn name(&self) -> &'static str {
        "touchy"
    }
    fn needs(&self) -> Needs {
        panic!("as the test wants it")
    }
    fn configure(&mut self, _: PolicyHint) -> bool {
        panic!("as the test wants it")
    }
    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>) {
        panic!("as the test wants it")
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        panic!("as the test wants it")
    }
}

#[test]
fn no_panic_of_a_policy_gets_out() {
    let (runtime, device) = bench(Touchy);
    let queue = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let ticket = queue.submit(0.into()).unwrap();
    assert_eq!(queue.wait(ticket), Ok(()));
    runtime.set_policy(Touchy).unwrap();
    let timeslice = PolicyHint::Timeslice(xsched_core::time::Duration::from_ms(1));
    assert!(!runtime.hint_policy(timeslice).unwrap());
    let ticket = queue.submit(0.into()).unwrap();
    assert_eq!(queue.wait(ticket), Ok(()));
    assert_eq!(runtime.times_failed_open(), 2);
    assert!(runtime.is_scheduling());
}

#[test]
fn an_untrusted_policy_that_hangs_hangs_no_submitter() {
    let (now, policy) = failing(|now| {
        let start = std::time::Instant::now();
        while now.load(Ordering::Relaxed) {
            std::thread::yield_now();
            if start.elapsed() > Duration::from_secs(5) {
                now.store(false, Ordering::Relaxed);
            }
        }
    });
    let (runtime, device) = bench(policy);
    let queues = [(); 2].map(|()| device.queue(config(0, Level::Block, 4), Hand::at_once()));
    let [one, two] = queues.map(Result::unwrap);
    // The scheduler's thread comes to rest, so that the submitter could run a round.
    one.flush().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    now.store(true, Ordering::Relaxed);
    let tickets = [one.submit(0.into()).unwrap(), two.submit(0.into()).unwrap()];
    assert!(now.load(Ordering::Relaxed), "a submitter had to wait for the policy");
    // Until the lease is over.
    assert_eq!((one.wait(tickets[0]), two.wait(tickets[1])), (Ok(()), Ok(())));
    assert!(now.load(Ordering::Relaxed), "the queues had to wait for the policy");
    assert!(runtime.times_failed_open() > 0);
    now.store(false, Ordering::Relaxed);
}

#[test]
fn a_policy_that_hangs_loses_its_lease() {
    let (now, policy) = failing(|now| {
        while now.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    });
    let (runtime, device) = bench(policy);
    let queue = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    queue.flush().unwrap();
    let ticket = queue.submit(0.into()).unwrap();
    queue.flush().unwrap();
    now.store(true, Ordering::Relaxed);
    queue.set_hints(Default::default());
    assert_eq!(queue.wait(ticket), Ok(()));
    assert!(queue.stats().failed_open);
    assert!(matches!(queue.flush(), Err(Error::SchedulerSilent)));
    now.store(false, Ordering::Relaxed);
    soon("the scheduler is back", || queue.flush().is_ok());
    assert!(runtime.is_scheduling());
}

#[test]
fn losing_the_device_fails_everything_with_a_typed_error() {
    let (_, device) = bench(Hpf::default());
    let hand = Arc::new(Hand::default());
    let queue = device.queue(config(0, Level::Deactivate, 2), hand.clone()).unwrap();
    let tickets: Vec<_> = (0..4).map(|n| queue.submit(n.into()).unwrap()).collect();
    hand.get().lost = true;
    for ticket in tickets {
        assert_eq!(queue.wait(ticket), Err(WaitError::Failed(Fault::DeviceLost)));
    }
    assert!(queue.stats().lost);
    assert!(matches!(queue.submit(9.into()), Err(SubmitError::Lost(job)) if job.number == 9));
}

#[test]
fn shutting_down_with_work_left_hangs_no_thread() {
    for _ in 0..50 {
        let (runtime, device) = bench(Hpf::default());
        let hand = Hand::at_once();
        let queue = device.queue(config(0, Level::Deactivate, 2), hand.clone()).unwrap();
        for n in 0..100 {
            queue.submit(n.into()).unwrap();
        }
        drop((runtime, device, queue));
        soon("all is launched and gone", || Arc::strong_count(&hand) == 1);
        assert_eq!(hand.get().log.len(), 100);
    }
}

#[test]
fn a_backend_that_panics_loses_its_queue_and_no_other() {
    let (_, device) = bench(Hpf::default());
    let hand = Arc::new(Hand::default());
    hand.get().panic = Some(2);
    let queue = device.queue(config(0, Level::Deactivate, 2), hand.clone()).unwrap();
    let other = device.queue(config(0, Level::Deactivate, 2), Hand::at_once()).unwrap();
    // The third is launched by the pump.
    let tickets: Vec<_> = (0..4).map(|n| queue.submit(n.into()).unwrap()).collect();
    hand.complete(2);
    assert_eq!(queue.wait(tickets[3]), Err(WaitError::Failed(Fault::DeviceLost)));
    assert_eq!(queue.wait(tickets[2]), Err(WaitError::Failed(Fault::DeviceLost)));
    for n in 0..10 {
        other.submit(n.into()).unwrap();
    }
    other.wait_all();
    let tickets: Vec<_> = (0..8).map(|n| other.submit(n.into()).unwrap()).collect();
    assert!(tickets.into_iter().all(|ticket| other.wait(ticket).is_ok()));
}

/// A runtime whose policy hangs while `now` is set, with a short lease, and a queue that it holds.
fn hanging(queues: usize) -> (Arc<AtomicBool>, Runtime, xsched::Device<ByHand>, TestQueue) {
    let (now, policy) = failing(|now| {
        while now.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    });
    let lease = Duration::from_millis(5);
    let config = RuntimeConfig::default().with_queues(queues).with_lease(lease);
    let runtime = Runtime::with_config(policy, config).unwrap();
    let device = runtime.device(ByHand).unwrap();
    let queue = device.queue(config_of(0), Hand::at_once()).unwrap();
    queue.flush().unwrap();
    (now, runtime, device, queue)
}

fn config_of(priority: i32) -> XQueueConfig {
    config(priority, Level::Block, 4)
}

#[test]
fn a_queue_that_was_not_made_in_time_leaves_no_place_behind() {
    let (now, _runtime, device, queue) = hanging(4);
    now.store(true, Ordering::Relaxed);
    queue.set_hints(Default::default());
    for _ in 0..8 {
        let late = device.queue(config_of(0), Hand::at_once());
        assert!(matches!(late, Err(Error::SchedulerSilent)), "{late:?}");
    }
    now.store(false, Ordering::Relaxed);
    soon("the scheduler is back", || queue.flush().is_ok());
    let made: Vec<_> = (0..3).map(|_| device.queue(config_of(0), Hand::at_once())).collect();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}

#[test]
fn a_wait_that_was_refused_is_not_enqueued_later() {
    let (now, _runtime, device, queue) = hanging(4);
    let other = device.queue(config_of(0), Hand::at_once()).unwrap();
    other.suspend(Level::Block);
    let ticket = other.submit(0.into()).unwrap();
    now.store(true, Ordering::Relaxed);
    queue.set_hints(Default::default());
    let late = queue.enqueue_wait(ticket);
    assert!(matches!(late, Err(Error::SchedulerSilent)), "{late:?}");
    now.store(false, Ordering::Relaxed);
    soon("the scheduler is back", || queue.flush().is_ok());
    assert_eq!(queue.stats().submitted, 0);
}

#[test]
fn a_device_of_another_runtime_is_refused() {
    let (one, device) = bench(Hpf::default());
    let (other, _) = bench(Hpf::default());
    assert!(one.cost(&device).is_ok());
    assert!(matches!(other.cost(&device), Err(Error::OtherRuntime)));
}

#[test]
fn a_capacity_that_no_memory_holds_is_refused() {
    let (_, device) = bench(Hpf::default());
    for capacity in [XQueueConfig::CAPACITY_MAX + 1, usize::MAX] {
        let config = config_of(0).with_capacity(capacity);
        let refused = device.queue(config, Hand::at_once());
        assert!(matches!(refused, Err(Error::TooMuchCapacity { .. })), "{refused:?}");
    }
}

/// Value whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as the test wants it");
    }
}

#[test]
fn a_command_whose_destructor_panics_stops_no_queue() {
    let (_, device) = bench(Hpf::default());
    let hand = Hand::at_once();
    let queue = device.queue(config_of(0), hand.clone()).unwrap();
    for number in 0..40_u64 {
        let luggage = number.is_multiple_of(2).then(|| Box::new(Bomb) as Box<dyn Send>);
        queue.submit(Job { number, luggage }).unwrap();
    }
    queue.wait_all();
    assert_eq!(hand.get().log.len(), 40);
}

/// Hangs while a queue is added to the table, while `now` is set: in the midst of a request.
struct Hesitant(Arc<AtomicBool>);

impl Policy for Hesitant {
    fn name(&self) -> &'static str {
        "hesitant"
    }

    fn observe(&mut self, _: Instant, _: QueueId, event: Event, _: &QueueTable<'_>) {
        while matches!(event, Event::Attached) && self.0.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }

    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>) {}
}

#[test]
fn a_queue_whose_making_took_too_long_leaves_no_place_behind() {
    let now = Arc::new(AtomicBool::new(false));
    let lease = Duration::from_millis(5);
    let config = RuntimeConfig::default().with_queues(2).with_lease(lease);
    let runtime = Runtime::with_config(Hesitant(now.clone()), config).unwrap();
    let device = runtime.device(ByHand).unwrap();
    let queue = device.queue(config_of(0), Hand::at_once()).unwrap();
    now.store(true, Ordering::Relaxed);
    let late = device.queue(config_of(0), Hand::at_once());
    assert!(matches!(late, Err(Error::SchedulerSilent)), "{late:?}");
    now.store(false, Ordering::Relaxed);
    soon("the scheduler is back", || queue.flush().is_ok());
    let other = device.queue(config_of(0), Hand::at_once());
    assert!(other.is_ok(), "{other:?}");
}

/// Checks that the reaper and the thread of callbacks are there: a command ends without a thread
/// that looks, and its callback is called.
fn assert_callbacks_come(device: &xsched::Device<ByHand>) {
    let hand = Arc::new(Hand::default());
    let queue = device.queue(config_of(0), hand.clone()).unwrap();
    let (sender, called) = std::sync::mpsc::channel();
    let ticket = queue.submit(0.into()).unwrap();
    queue.on_retired(ticket, move |outcome| sender.send(outcome).unwrap()).unwrap();
    hand.complete(1);
    assert_eq!(called.recv_timeout(Duration::from_secs(10)), Ok(Ok(())));
}

#[test]
fn a_panic_that_panics_again_when_dropped_stops_no_thread_of_the_device() {
    let (_, device) = bench(Hpf::default());
    let hand = Hand::at_once();
    let queue = device.queue(config_of(0), hand.clone()).unwrap();
    let ticket = queue.submit(0.into()).unwrap();
    queue.on_retired(ticket, |_| std::panic::panic_any(Grenade)).unwrap();
    assert_callbacks_come(&device);
    let luggage = Some(Box::new(Grenade) as Box<dyn Send>);
    queue.submit(Job { number: 1, luggage }).unwrap();
    queue.wait_all();
    assert_callbacks_come(&device);
}

#[test]
fn hardware_whose_destructor_panics_takes_no_other_queue_with_it() {
    let (_, device) = bench(Hpf::default());
    let hand = Arc::new(Hand::default());
    let queue = device.queue(config_of(0), hand.clone()).unwrap();
    queue.submit(0.into()).unwrap();
    hand.get().panic_in_drop = true;
    // The reaper closes it when its command has retired.
    drop(queue);
    hand.complete(1);
    soon("the hardware queue is closed", || Arc::strong_count(&hand) == 1);
    assert!(!hand.get().panic_in_drop);
    assert_callbacks_come(&device);
}

#[test]
fn a_policy_whose_panic_panics_again_leaves_the_scheduler() {
    let (now, policy) = failing(|_| std::panic::panic_any(Grenade));
    let (runtime, device) = bench(policy);
    let queue = device.queue(config_of(0), Hand::at_once()).unwrap();
    queue.flush().unwrap();
    now.store(true, Ordering::Relaxed);
    let ticket = queue.submit(0.into()).unwrap();
    assert_eq!(queue.wait(ticket), Ok(()));
    assert!(runtime.is_scheduling());
    runtime.set_policy(Hpf::default()).unwrap();
    assert_callbacks_come(&device);
}
