//! Which queues are to be suspended, and which are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::KfdError;
use crate::mechanism::{Answers, Mechanism};
use crate::queue::KfdQueue;

/// What has happened out of the ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that all queues were let go because a call into the driver was blocked.
    pub lifted: u64,
    /// Queues that were suspended again because somebody else had let them go.
    pub reasserted: u64,
}

/// A queue as this device knows it.
#[derive(Debug)]
pub(super) struct Slot {
    key: u64,
    /// The driver's queue, if it is known and may be suspended.
    pub(super) queue: Option<Arc<KfdQueue>>,
    /// How the last step ended that was staged.
    ended: Mutex<Option<Result<(), KfdError>>>,
    /// Launches entered and left: odd while one is under way.
    entries: AtomicU64,
    /// For how long it was suspended, in nanoseconds, up to the last time it was let go.
    stopped_ns: AtomicU64,
}

impl Slot {
    /// Notes that a launch is under way until the answer is dropped.
    pub(super) fn enter(&self) -> Entered<'_> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// The number of the launch that is under way.
    pub(super) fn inside(&self) -> Option<u64> {
        let entries = self.entries.load(Ordering::Relaxed);
        (entries % 2 == 1).then_some(entries)
    }

    pub(super) const fn key(&self) -> u64 {
        self.key
    }

    pub(super) fn stopped_ns(&self) -> u64 {
        self.stopped_ns.load(Ordering::Relaxed)
    }

    pub(super) fn take_end(&self) -> Option<Result<(), KfdError>> {
        lock(&self.ended).take()
    }

    fn end(&self, answer: Result<(), KfdError>) {
        *lock(&self.ended) = Some(answer);
    }
}

/// A launch is under way.
pub(super) struct Entered<'a>(&'a Slot);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.entries.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a queue is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stop,
    Go,
}

/// Queues that are to be suspended, each since when, and whether all are let go for the moment.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) stopped: BTreeMap<u64, (Arc<Slot>, Instant)>,
    pub(super) is_lifted: bool,
}

impl Wanted {
    pub(super) fn queues(&self) -> Vec<Arc<KfdQueue>> {
        self.stopped.values().filter_map(|(slot, _)| slot.queue.clone()).collect()
    }
}

/// Says whether a queue is to be suspended. Apart from the rest, so that whoever waits for it does
/// not keep the device.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rings: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn set(&self, rings: bool) {
        let before = std::mem::replace(&mut *lock(&self.rings), rings);
        if rings && !before {
            self.changed.notify_all();
        }
    }

    /// Waits until a queue is to be suspended, at most for so long. True if one is.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let rings = lock(&self.rings);
        if *rings {
            return true;
        }
        let waited = self.changed.wait_timeout(rings, at_most);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// All queues of a device.
#[derive(Debug)]
pub(super) struct Holds {
    mechanism: Arc<dyn Mechanism>,
    /// Locked while the driver is called, so that one batch comes after the other.
    wanted: Mutex<Wanted>,
    staged: Mutex<Vec<(Arc<Slot>, Wish)>>,
    slots: Mutex<Vec<Weak<Slot>>>,
    next: AtomicU64,
    bell: Arc<Bell>,
    lifted: AtomicU64,
    reasserted: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Holds {
    pub(super) fn new(mechanism: Arc<dyn Mechanism>) -> Self {
        Self {
            mechanism,
            wanted: Mutex::default(),
            staged: Mutex::default(),
            slots: Mutex::default(),
            next: AtomicU64::new(0),
            bell: Arc::default(),
            lifted: AtomicU64::new(0),
            reasserted: AtomicU64::new(0),
        }
    }

    pub(super) fn mechanism(&self) -> &Arc<dyn Mechanism> {
        &self.mechanism
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            lifted: self.lifted.load(Ordering::Relaxed),
            reasserted: self.reasserted.load(Ordering::Relaxed),
        }
    }

    /// A queue was opened.
    pub(super) fn add(&self, queue: Option<Arc<KfdQueue>>) -> Arc<Slot> {
        let slot = Arc::new(Slot {
            key: self.next.fetch_add(1, Ordering::Relaxed),
            queue,
            ended: Mutex::default(),
            entries: AtomicU64::new(0),
            stopped_ns: AtomicU64::new(0),
        });
        let mut slots = lock(&self.slots);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    pub(super) fn slots(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).iter().filter_map(Weak::upgrade).collect()
    }

    /// Carries out a step at once.
    pub(super) fn now(&self, slot: &Arc<Slot>, wish: Wish) -> Result<(), KfdError> {
        let mut wanted = lock(&self.wanted);
        let mut answers = self.carry_out(&mut wanted, &[(Arc::clone(slot), wish)]);
        answers.pop().unwrap_or(Ok(()))
    }

    /// Leaves a step for the next commit.
    pub(super) fn stage(&self, slot: &Arc<Slot>, wish: Wish) {
        lock(&self.staged).push((Arc::clone(slot), wish));
    }

    /// Carries out what was staged.
    pub(super) fn commit(&self) {
        let mut wanted = lock(&self.wanted);
        // Only now, so that what is staged while another batch is under way comes along.
        let batch = std::mem::take(&mut *lock(&self.staged));
        let answers = self.carry_out(&mut wanted, &batch);
        drop(wanted);
        for ((slot, _), answer) in batch.iter().zip(answers) {
            slot.end(answer);
        }
    }

    /// Stops first, then lets go, so that nobody is let go into a device that is still taken.
    fn carry_out(&self, wanted: &mut Wanted, batch: &[(Arc<Slot>, Wish)]) -> Answers {
        let mut answers: Answers = vec![Ok(()); batch.len()];
        for wish in [Wish::Stop, Wish::Go] {
            let of_wish = |at: &usize| batch[*at].1 == wish && batch[*at].0.queue.is_some();
            let places: Vec<usize> = (0..batch.len()).filter(of_wish).collect();
            let queues: Vec<_> =
                places.iter().filter_map(|at| batch[*at].0.queue.clone()).collect();
            if queues.is_empty() {
                continue;
            }
            let came = match wish {
                // All are let go for the moment, and this one with them.
                Wish::Stop if wanted.is_lifted => vec![Ok(()); queues.len()],
                Wish::Stop => self.mechanism.suspend(&queues),
                Wish::Go => self.mechanism.resume(&queues),
            };
            for (at, answer) in places.into_iter().zip(came) {
                self.note(wanted, &batch[at].0, wish, answer.is_ok());
                answers[at] = answer;
            }
        }
        answers
    }

    fn note(&self, wanted: &mut Wanted, slot: &Arc<Slot>, wish: Wish, done: bool) {
        if wish == Wish::Stop && done {
            wanted.stopped.entry(slot.key).or_insert_with(|| (Arc::clone(slot), Instant::now()));
        } else if let Some((_, since)) = wanted.stopped.remove(&slot.key) {
            let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            slot.stopped_ns.fetch_add(ns, Ordering::Relaxed);
        }
        self.bell.set(!wanted.stopped.is_empty());
    }

    /// A queue is closed: it is let go, and what was staged for it is forgotten.
    pub(super) fn close(&self, slot: &Arc<Slot>) {
        let Some(queue) = &slot.queue else { return };
        let mut wanted = lock(&self.wanted);
        lock(&self.staged).retain(|(staged, _)| staged.key != slot.key);
        let answer = self.mechanism.resume(std::slice::from_ref(queue));
        if let Some(Err(error)) = answer.first() {
            tracing::warn!(queue = queue.id(), %error, "a queue could not be let go at its end");
        }
        self.mechanism.forget(queue);
        self.note(&mut wanted, slot, Wish::Go, true);
    }

    pub(super) const fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Lets all go for the moment, or suspends them again.
    pub(super) fn lift(&self, lift: bool) {
        let mut wanted = lock(&self.wanted);
        if wanted.is_lifted == lift {
            return;
        }
        wanted.is_lifted = lift;
        let queues = wanted.queues();
        let answers = if lift {
            self.lifted.fetch_add(1, Ordering::Relaxed);
            self.mechanism.resume(&queues)
        } else {
            self.mechanism.suspend(&queues)
        };
        for (queue, answer) in queues.iter().zip(answers) {
            if let Err(error) = answer {
                tracing::warn!(queue = queue.id(), %error, "a queue could not be lifted or held");
            }
        }
    }

    /// Suspends again what others have let go.
    pub(super) fn reassert(&self) {
        let wanted = lock(&self.wanted);
        if wanted.is_lifted {
            return;
        }
        for queue in wanted.queues() {
            match self.mechanism.reassert(&queue) {
                Ok(false) => {}
                Ok(true) => {
                    // Every time would fill a log: a runtime that does so does it again.
                    if self.reasserted.fetch_add(1, Ordering::Relaxed) == 0 {
                        tracing::warn!(
                            queue = queue.id(),
                            "somebody else has made a suspended queue active, so it was suspended \
                             again; preload libxsched_kfd_watch.so, or set HSA_NO_SCRATCH_RECLAIM=1"
                        );
                    }
                }
                Err(error) => tracing::warn!(queue = queue.id(), %error, "cannot look at a queue"),
            }
        }
    }
}
