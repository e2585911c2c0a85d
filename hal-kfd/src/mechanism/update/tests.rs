use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::queue::QueueFacts;
use crate::scripted::{Fake, queue, queue_at, ring};

fn mechanism(fake: &Fake) -> UpdateQueue<Fake> {
    UpdateQueue::new(fake.versioned(), None)
}

#[test]
fn a_queue_is_suspended_and_resumed_with_its_priority() {
    let fake = Fake::with_queues(3);
    fake.state().queues.get_mut(&1).expect("it is there").priority = 11;
    let (update, one) = (mechanism(&fake), queue(1));
    one.note_priority(11).expect("it can be");
    assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
    assert!(fake.is_active(0) && !fake.is_active(1) && fake.is_active(2));
    assert_eq!(update.is_still_suspended(&one), Ok(true));
    assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
    assert!(fake.is_active(1));
    assert_eq!(fake.state().queues[&1].priority, 11);
    assert_eq!(update.is_still_suspended(&one), Ok(false));
    assert_eq!(fake.count(UPDATE_QUEUE.request, None), 2);
}

#[test]
fn repeated_calls_cost_nothing() {
    let fake = Fake::with_queues(1);
    let (update, one) = (mechanism(&fake), queue(0));
    assert_eq!(update.resume(&[Arc::clone(&one)]), [Ok(())]);
    assert_eq!(fake.state().preemptions, 0);
    let twice = [Arc::clone(&one), Arc::clone(&one)];
    assert_eq!(update.suspend(&twice), [Ok(()), Ok(())]);
    assert_eq!(update.suspend(&twice), [Ok(()), Ok(())]);
    assert_eq!((fake.state().preemptions, update.preemptions(3)), (1, 3));
}

#[test]
fn errnos_map_to_errors() {
    let request = UPDATE_QUEUE.request;
    let call = UPDATE_QUEUE.name;
    let cases = [
        (Errno::FAULT, KfdError::UnknownQueue { call, queue: 0 }),
        (Errno::IO, KfdError::ResetInProgress { call }),
        (Errno::TIME, KfdError::PreemptionTimedOut { call }),
        (Errno::ACCESS, KfdError::QueueReset { call, queue: 0 }),
        (Errno::BADF, KfdError::OtherProcess { call }),
    ];
    for (errno, expected) in cases {
        let fake = Fake::with_queues(1);
        let (update, one) = (mechanism(&fake), queue(0));
        fake.fail(request, errno);
        assert_eq!(update.suspend(std::slice::from_ref(&one)), [Err(expected)]);
        // A failed suspension is not noted.
        assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
        assert!(!fake.is_active(0));
    }
}

#[test]
fn a_failure_does_not_keep_others_from_being_suspended() {
    let fake = Fake::with_queues(2);
    let update = mechanism(&fake);
    let answers = update.suspend(&[queue(0), queue(9), queue(1)]);
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    assert!(matches!(answers[1], Err(KfdError::UnknownQueue { queue: 9, .. })));
    assert_eq!(update.resume_all(), [Ok(()), Ok(())]);
    assert!(fake.is_active(0) && fake.is_active(1));
}

#[test]
fn a_destroyed_queue_is_no_longer_suspended() {
    let fake = Fake::with_queues(1);
    let (update, one) = (mechanism(&fake), queue(0));
    assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
    fake.state().queues.clear();
    let gone = update.resume(std::slice::from_ref(&one));
    assert!(matches!(gone[0], Err(KfdError::UnknownQueue { .. })));
    // Another queue has its id now, which must stay as it is.
    fake.state().queues = Fake::with_queues(1).state().queues.clone();
    fake.state().queues.get_mut(&0).expect("it is there").ring_base = 0xdead_0000;
    assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
    let other = update.suspend(std::slice::from_ref(&one));
    assert!(matches!(other[0], Err(KfdError::UnknownQueue { .. })));
    assert!(fake.is_active(0));
    let new = queue_at(0, 0xdead_0000);
    assert_eq!(update.suspend(&[new]), [Ok(())]);
}

#[test]
fn an_owner_that_makes_it_active_is_noticed() {
    let fake = Fake::with_queues(1);
    let (update, one) = (mechanism(&fake), queue(0));
    assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
    assert_eq!(update.reassert(&one), Ok(false));
    fake.state().queues.get_mut(&0).expect("it is there").percentage = 100;
    assert_eq!(update.is_still_suspended(&one), Ok(false));
    assert_eq!(update.reassert(&one), Ok(true));
    assert_eq!(update.is_still_suspended(&one), Ok(true));
    update.forget(&one);
    assert_eq!(update.reassert(&one), Ok(false));
}

#[test]
fn the_drop_resumes_what_is_suspended() {
    let fake = Fake::with_queues(2);
    let update = mechanism(&fake);
    assert_eq!(update.suspend(&[queue(0), queue(1)]), [Ok(()), Ok(())]);
    drop(update);
    assert!(fake.is_active(0) && fake.is_active(1));
}

/// A watch whose record is set by the test.
#[derive(Debug)]
struct Watched {
    record: Mutex<Option<Record>>,
    is_held: AtomicBool,
    /// How often the owner updates the queue just after a release.
    races: AtomicU64,
}

impl Watched {
    fn over(percentage: u32, created: u64) -> Arc<Self> {
        let facts = QueueFacts { created: Some(created), ..*queue(0).facts() };
        let record = Record { facts, percentage, updates: 0, held_back: 0 };
        let (is_held, races) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { record: Mutex::new(Some(record)), is_held, races })
    }

    fn set(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.record.lock().expect("no test panics with it");
        change(record.as_mut().expect("it is there"));
    }
}

impl Watcher for Watched {
    fn record(&self, _: u32) -> Option<Record> {
        let races = self.races.load(Ordering::Relaxed);
        if races > 0 {
            self.races.store(races - 1, Ordering::Relaxed);
            self.set(|record| record.updates += 1);
        }
        *self.record.lock().expect("no test panics with it")
    }

    fn hold(&self, _: u32) -> Option<Record> {
        self.is_held.store(true, Ordering::Relaxed);
        *self.record.lock().expect("no test panics with it")
    }

    fn release(&self, _: u32) -> Option<Record> {
        self.is_held.store(false, Ordering::Relaxed);
        *self.record.lock().expect("no test panics with it")
    }
}

fn watched(fake: &Fake, watch: &Arc<Watched>) -> UpdateQueue<Fake> {
    UpdateQueue::new(fake.versioned(), Some(Arc::clone(watch) as Arc<dyn Watcher>))
}

#[test]
fn a_resume_sets_the_owners_last_update() {
    let fake = Fake::with_queues(1);
    let watch = Watched::over(100, 5);
    let (update, one) = (watched(&fake, &watch), queue(0));
    assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
    assert!(watch.is_held.load(Ordering::Relaxed));
    watch.set(|record| record.facts.priority = 11);
    assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
    assert!(!watch.is_held.load(Ordering::Relaxed));
    assert_eq!(fake.state().queues[&0].priority, 11);
}

#[test]
fn a_queue_that_its_owner_suspended_stays_so() {
    let fake = Fake::with_queues(1);
    let watch = Watched::over(0, 5);
    let (update, one) = (watched(&fake, &watch), queue(0));
    fake.state().queues.get_mut(&0).expect("it is there").percentage = 0;
    assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
    assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
    assert_eq!((fake.is_active(0), fake.state().preemptions), (false, 0));
}

#[test]
fn an_owner_that_updates_all_the_time_does_not_delay_a_resume_for_ever() {
    let fake = Fake::with_queues(1);
    let watch = Watched::over(100, 5);
    let (update, one) = (watched(&fake, &watch), queue(0));
    assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
    watch.races.store(1_000, Ordering::Relaxed);
    assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
    assert_eq!(fake.count(UPDATE_QUEUE.request, None), 1 + RACES_MAX as usize);
    assert!(fake.is_active(0));
}

#[test]
fn another_queue_with_the_same_id_is_not_touched() {
    let fake = Fake::with_queues(1);
    let watch = Watched::over(100, 6);
    let update = watched(&fake, &watch);
    let facts = QueueFacts { created: Some(5), ..*queue(0).facts() };
    let old = Arc::new(KfdQueue::new(facts).expect("it can be"));
    let answer = update.suspend(&[old]);
    assert!(matches!(answer[0], Err(KfdError::UnknownQueue { queue: 0, .. })));
    assert_eq!(fake.state().preemptions, 0);
    assert!(!watch.is_held.load(Ordering::Relaxed));
    assert_eq!(ring(0), queue(0).facts().ring_base);
}

#[test]
fn a_noted_priority_stays_unless_the_owner_sets_another() {
    let fake = Fake::with_queues(1);
    let watch = Watched::over(100, 5);
    let (update, one) = (watched(&fake, &watch), queue(0));
    one.note_priority(3).expect("it can be");
    let round = || {
        assert_eq!(update.suspend(std::slice::from_ref(&one)), [Ok(())]);
        assert_eq!(update.resume(std::slice::from_ref(&one)), [Ok(())]);
        fake.state().queues[&0].priority
    };
    assert_eq!(round(), 3);
    watch.set(|record| record.facts.priority = 11);
    assert_eq!(round(), 11);
}
