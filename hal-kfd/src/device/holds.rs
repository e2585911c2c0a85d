//! The queues of a device: which are to be suspended, and which are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::{Reason, Together};
use crate::error::KfdError;
use crate::guard::Guard;
use crate::mechanism::{Answers, Mechanism};
use crate::queue::KfdQueue;

/// Counts of events that a healthy program rarely causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that all queues were resumed because a call into the driver was blocked.
    pub released: u64,
    /// Queues that were suspended again because their owner had made them active.
    pub reasserted: u64,
}

/// A queue as this device knows it.
#[derive(Debug)]
pub(super) struct Slot {
    key: u64,
    /// The driver's queue; `None` if it is unknown, and then it is never suspended.
    pub(super) queue: Option<Arc<KfdQueue>>,
    /// Test that all in the driver's queue is held, if others may be in it.
    together: Together,
    /// Where it is said why it has no Lv3 any more.
    reason: Option<Reason>,
    /// The result of the last staged step.
    ended: Mutex<Option<Result<(), KfdError>>>,
    /// Starts and ends of launches, counted together: odd while a launch is under way.
    entries: AtomicU64,
    /// Nanoseconds for which it was suspended, up to the last time it was resumed.
    suspended_ns: AtomicU64,
}

impl Slot {
    /// Notes that a launch is under way until the guard is dropped.
    pub(super) fn enter(&self) -> LaunchGuard<'_> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        LaunchGuard(self)
    }

    /// The launch that was [left open](LaunchGuard::leave_open), until the guard is dropped.
    pub(super) fn launch_left_open(&self) -> LaunchGuard<'_> {
        LaunchGuard(self)
    }

    /// The number of the launch that is under way, if one is.
    pub(super) fn launch_under_way(&self) -> Option<u64> {
        let entries = self.entries.load(Ordering::Relaxed);
        (entries % 2 == 1).then_some(entries)
    }

    /// True if the driver's queue may be suspended, as far as others in it go.
    fn may_stop(&self) -> bool {
        self.together.is_held() != Some(false)
    }

    fn is_in_same_queue(&self, other: &Self) -> bool {
        let both = self.queue.as_ref().zip(other.queue.as_ref());
        both.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    pub(super) const fn key(&self) -> u64 {
        self.key
    }

    pub(super) fn suspended_ns(&self) -> u64 {
        self.suspended_ns.load(Ordering::Relaxed)
    }

    pub(super) fn take_end(&self) -> Option<Result<(), KfdError>> {
        lock(&self.ended).take()
    }

    fn end(&self, answer: Result<(), KfdError>) {
        *lock(&self.ended) = Some(answer);
    }
}

/// Marks a launch as under way for as long as it exists.
pub(super) struct LaunchGuard<'a>(&'a Slot);

impl LaunchGuard<'_> {
    /// The launch goes on after this: see [`Slot::launch_left_open`].
    pub(super) fn leave_open(self) {
        std::mem::forget(self);
    }
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        self.0.entries.fetch_add(1, Ordering::Relaxed);
    }
}

/// Request of a step at Lv3 to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldOp {
    Suspend,
    Resume,
}

/// A queue that is to be suspended.
#[derive(Debug)]
struct Suspended {
    slot: Arc<Slot>,
    /// When that was requested.
    since: Instant,
    /// True unless all are released. If false, others in the driver's queue go on.
    is_stopped: bool,
}

/// The suspensions that were requested.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// Queues that are to be suspended, by key.
    suspended: BTreeMap<u64, Suspended>,
    /// All queues run for the moment, because a call into the driver is blocked.
    is_released: bool,
}

impl Requested {
    /// The queues that are stopped.
    fn queues(&self) -> Vec<Arc<KfdQueue>> {
        let stopped = self.suspended.values().filter(|suspended| suspended.is_stopped);
        stopped.filter_map(|suspended| suspended.slot.queue.clone()).collect()
    }

    /// True if another queue keeps the driver's queue of this one stopped.
    fn is_kept(&self, slot: &Slot) -> bool {
        let mut others = self.suspended.values().filter(|other| other.slot.key != slot.key);
        others.any(|other| other.is_stopped && other.slot.is_in_same_queue(slot))
    }
}

/// Flag, set if any queue is to be suspended. The watchdog thread waits for it, and owns it apart
/// from [`Holds`], so that the wait does not keep the device alive.
#[derive(Debug, Default)]
pub(super) struct HeldFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl HeldFlag {
    fn set(&self, is_set: bool) {
        let before = std::mem::replace(&mut *lock(&self.is_set), is_set);
        if is_set && !before {
            self.changed.notify_all();
        }
    }

    /// Waits until a queue is to be suspended, for `at_most` at most. True if one is.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let is_set = lock(&self.is_set);
        if *is_set {
            return true;
        }
        let waited = self.changed.wait_timeout(is_set, at_most);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// All queues of a device.
#[derive(Debug)]
pub(super) struct Holds {
    /// Mechanism, once a queue at Lv3 was wanted. Before that no slot has a queue.
    mechanism: OnceLock<Arc<dyn Mechanism>>,
    guard: Mutex<Option<Guard>>,
    /// Why nothing is suspended any more, if so.
    stopped: OnceLock<String>,
    /// Locked while the driver is called, so that batches follow each other.
    requested: Mutex<Requested>,
    staged: Mutex<Vec<(Arc<Slot>, HoldOp)>>,
    slots: Mutex<Vec<Weak<Slot>>>,
    next: AtomicU64,
    held_flag: Arc<HeldFlag>,
    released: AtomicU64,
    reasserted: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Holds {
    pub(super) fn new() -> Self {
        Self {
            mechanism: OnceLock::new(),
            guard: Mutex::default(),
            stopped: OnceLock::new(),
            requested: Mutex::default(),
            staged: Mutex::default(),
            slots: Mutex::default(),
            next: AtomicU64::new(0),
            held_flag: Arc::default(),
            released: AtomicU64::new(0),
            reasserted: AtomicU64::new(0),
        }
    }

    pub(super) fn mechanism(&self) -> Option<&Arc<dyn Mechanism>> {
        self.mechanism.get()
    }

    /// From now on queues are suspended by this, until the guard stops it. The first call counts.
    pub(super) fn arm(&self, mechanism: Arc<dyn Mechanism>, guard: Option<Guard>) {
        if self.mechanism.set(mechanism).is_ok() {
            *lock(&self.guard) = guard;
        }
    }

    /// Why nothing is suspended any more, if so.
    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Asks the guard. If nothing may be suspended any more, all queues are resumed, and stay so.
    pub(super) fn look(&self) {
        let mut requested = lock(&self.requested);
        // What is left of the queues is at the level below.
        let _ = self.check(&mut requested);
    }

    /// As [`Holds::look`], with the error of a suspension that is not made.
    fn check(&self, requested: &mut Requested) -> Result<(), KfdError> {
        let stopped = |why: &str| Err(KfdError::Stopped { why: why.to_owned() });
        if let Some(why) = self.stopped.get() {
            return stopped(why);
        }
        let why = lock(&self.guard).as_mut().and_then(Guard::why_stop);
        let Some(why) = why else { return Ok(()) };
        tracing::warn!("queues have no Lv3 any more, and what was suspended is resumed: {why}");
        let why = self.stopped.get_or_init(|| why);
        if let Some(mechanism) = self.mechanism() {
            for error in mechanism.resume_all().into_iter().filter_map(Result::err) {
                tracing::warn!(%error, "a queue could not be resumed");
            }
        }
        let held = requested.suspended.values().map(|suspended| Arc::clone(&suspended.slot));
        for slot in held.collect::<Vec<_>>() {
            self.note(requested, &slot, HoldOp::Resume, true);
        }
        for reason in self.slots().iter().filter_map(|slot| slot.reason.as_ref()) {
            *lock(reason) = Some(why.clone());
        }
        stopped(why)
    }

    fn carry_out(&self, op: HoldOp, queues: &[Arc<KfdQueue>]) -> Answers {
        match (self.mechanism(), op) {
            (Some(mechanism), HoldOp::Suspend) => mechanism.suspend(queues),
            (Some(mechanism), HoldOp::Resume) => mechanism.resume(queues),
            // Queues are known only once there is a mechanism.
            (None, _) => vec![Err(KfdError::SessionEnded); queues.len()],
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            released: self.released.load(Ordering::Relaxed),
            reasserted: self.reasserted.load(Ordering::Relaxed),
        }
    }

    /// Adds a queue that was opened, with what says whether others in it are held.
    pub(super) fn add(
        &self,
        found: Option<(Arc<KfdQueue>, Together)>,
        reason: Option<Reason>,
    ) -> Arc<Slot> {
        let (queue, together) = found.unzip();
        // Mechanisms know a queue by what stands for it, so streams that share one have the same.
        let mut known = self.slots().into_iter().filter_map(|slot| slot.queue.clone());
        let queue =
            queue.map(|queue| known.find(|known| known.facts() == queue.facts()).unwrap_or(queue));
        let slot = Arc::new(Slot {
            key: self.next.fetch_add(1, Ordering::Relaxed),
            queue,
            together: together.unwrap_or_default(),
            reason,
            ended: Mutex::default(),
            entries: AtomicU64::new(0),
            suspended_ns: AtomicU64::new(0),
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
    pub(super) fn now(&self, slot: &Arc<Slot>, op: HoldOp) -> Result<(), KfdError> {
        let mut requested = lock(&self.requested);
        let mut answers = self.apply(&mut requested, &[(Arc::clone(slot), op)]);
        answers.pop().unwrap_or(Ok(()))
    }

    /// Leaves a step for the next commit.
    pub(super) fn stage(&self, slot: &Arc<Slot>, op: HoldOp) {
        lock(&self.staged).push((Arc::clone(slot), op));
    }

    /// Carries out what was staged.
    pub(super) fn commit(&self) {
        let mut requested = lock(&self.requested);
        // Taken under the lock, so that steps staged while the batch before was under way are in
        // this one.
        let batch = std::mem::take(&mut *lock(&self.staged));
        let answers = self.apply(&mut requested, &batch);
        drop(requested);
        for ((slot, _), answer) in batch.iter().zip(answers) {
            slot.end(answer);
        }
    }

    /// Suspends first, then resumes, so that no queue is resumed on a device that is still in use.
    fn apply(&self, requested: &mut Requested, batch: &[(Arc<Slot>, HoldOp)]) -> Answers {
        let mut answers: Answers = vec![Ok(()); batch.len()];
        for op in [HoldOp::Suspend, HoldOp::Resume] {
            let of_op = |at: &usize| batch[*at].1 == op && batch[*at].0.queue.is_some();
            let (places, rest): (Vec<usize>, Vec<usize>) =
                (0..batch.len()).filter(of_op).partition(|at| match op {
                    HoldOp::Suspend => batch[*at].0.may_stop(),
                    HoldOp::Resume => !requested.is_kept(&batch[*at].0),
                });
            // Others in the driver's queue go on, or stay as they are.
            for at in rest {
                self.note_stopped(requested, &batch[at].0, op, false);
            }
            let queues: Vec<_> =
                places.iter().filter_map(|at| batch[*at].0.queue.clone()).collect();
            if queues.is_empty() {
                continue;
            }
            let came = match op {
                // All queues run for the moment. This one is suspended with them afterwards.
                HoldOp::Suspend if requested.is_released => vec![Ok(()); queues.len()],
                HoldOp::Suspend => match self.check(requested) {
                    Ok(()) => self.carry_out(op, &queues),
                    Err(error) => vec![Err(error); queues.len()],
                },
                HoldOp::Resume => self.carry_out(op, &queues),
            };
            for (at, answer) in places.into_iter().zip(came) {
                self.note(requested, &batch[at].0, op, answer.is_ok());
                answers[at] = answer;
            }
        }
        answers
    }

    fn note(&self, requested: &mut Requested, slot: &Arc<Slot>, op: HoldOp, done: bool) {
        let op = if done { op } else { HoldOp::Resume };
        self.note_stopped(requested, slot, op, true);
    }

    /// Notes that a queue is to be suspended, and whether it is, or that it is not to be.
    fn note_stopped(
        &self,
        requested: &mut Requested,
        slot: &Arc<Slot>,
        op: HoldOp,
        is_stopped: bool,
    ) {
        if op == HoldOp::Suspend {
            let made = || Suspended { slot: Arc::clone(slot), since: Instant::now(), is_stopped };
            requested.suspended.entry(slot.key).or_insert_with(made);
        } else if let Some(Suspended { since, .. }) = requested.suspended.remove(&slot.key) {
            let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            slot.suspended_ns.fetch_add(ns, Ordering::Relaxed);
        }
        self.held_flag.set(!requested.suspended.is_empty());
    }

    /// True if a queue is suspended now. False as well while another thread is about it.
    pub(super) fn is_suspended(&self, slot: &Slot) -> bool {
        let Ok(requested) = self.requested.try_lock() else { return false };
        let stopped = requested.suspended.get(&slot.key).is_some_and(|one| one.is_stopped);
        !requested.is_released && stopped
    }

    /// Closes a queue: resumes it, and drops the steps that were staged for it.
    pub(super) fn close(&self, slot: &Arc<Slot>) {
        let Some(queue) = &slot.queue else { return };
        let mut requested = lock(&self.requested);
        lock(&self.staged).retain(|(staged, _)| staged.key != slot.key);
        if requested.is_kept(slot) {
            self.note(&mut requested, slot, HoldOp::Resume, true);
            return;
        }
        let answer = self.carry_out(HoldOp::Resume, std::slice::from_ref(queue));
        if let Some(Err(error)) = answer.first() {
            tracing::warn!(queue = queue.id(), %error, "a queue could not be resumed at its end");
        }
        if let Some(mechanism) = self.mechanism() {
            mechanism.forget(queue);
        }
        self.note(&mut requested, slot, HoldOp::Resume, true);
    }

    pub(super) const fn held_flag(&self) -> &Arc<HeldFlag> {
        &self.held_flag
    }

    /// Resumes the queues in which others go on that are not held, and suspends them again once all
    /// that is in them is held.
    pub(super) fn follow(&self) {
        let mut requested = lock(&self.requested);
        if requested.is_released || self.stopped().is_some() {
            return;
        }
        for op in [HoldOp::Resume, HoldOp::Suspend] {
            let stops = op == HoldOp::Suspend;
            let changes =
                |one: &&mut Suspended| one.is_stopped != stops && one.slot.may_stop() == stops;
            let mut queues: Vec<Arc<KfdQueue>> = Vec::new();
            for one in requested.suspended.values_mut().filter(changes) {
                one.is_stopped = stops;
                queues.extend(one.slot.queue.clone());
            }
            queues.sort_by_key(|queue| queue.id());
            queues.dedup_by(|one, other| Arc::ptr_eq(one, other));
            if queues.is_empty() {
                continue;
            }
            for (queue, answer) in queues.iter().zip(self.carry_out(op, &queues)) {
                if let Err(error) = answer {
                    tracing::warn!(queue = queue.id(), %error, "a shared queue was not changed");
                }
            }
        }
    }

    /// Resumes all queues for the moment (true), or suspends them again (false).
    pub(super) fn set_released(&self, release: bool) {
        let mut requested = lock(&self.requested);
        if requested.is_released == release {
            return;
        }
        requested.is_released = release;
        if !release {
            let all = requested.suspended.values_mut();
            all.for_each(|one| one.is_stopped = one.slot.may_stop());
        }
        let queues = requested.queues();
        let answers = if release {
            self.released.fetch_add(1, Ordering::Relaxed);
            self.carry_out(HoldOp::Resume, &queues)
        } else if self.check(&mut requested).is_err() {
            return;
        } else {
            self.carry_out(HoldOp::Suspend, &queues)
        };
        for (queue, answer) in queues.iter().zip(answers) {
            if let Err(error) = answer {
                let step = if release { "resumed" } else { "suspended again" };
                tracing::warn!(queue = queue.id(), %error, "a queue could not be {step}");
            }
        }
    }

    /// Suspends again the queues that their owner has made active.
    pub(super) fn reassert(&self) {
        let requested = lock(&self.requested);
        let Some(mechanism) = self.mechanism().filter(|_| !requested.is_released) else { return };
        for queue in requested.queues() {
            match mechanism.reassert(&queue) {
                Ok(false) => {}
                Ok(true) => {
                    // One warning is enough: a runtime that does so does it again and again.
                    if self.reasserted.fetch_add(1, Ordering::Relaxed) == 0 {
                        tracing::warn!(
                            queue = queue.id(),
                            "the queue's owner has made it active while it was suspended, so it \
                             was suspended again; preload libxsched_kfd_watch.so, or set \
                             HSA_NO_SCRATCH_RECLAIM=1"
                        );
                    }
                }
                Err(error) => {
                    tracing::warn!(queue = queue.id(), %error, "the queue's state is unknown");
                }
            }
        }
    }
}
