//! Where queues and the scheduler meet: the mailbox, the register of queues, the lease.
//!
//! A queue that has a report notifies the scheduler once and is visited; reports that follow before
//! the visit are merged, since each says everything. Requests that need the scheduler's own state
//! are closures that its thread runs. No lock that another thread waits for is held across a call
//! of a policy, so that a policy that hangs hangs no other thread.
//!
//! One thread at a time runs rounds of the scheduler: its own, or, if the policy is trusted, the
//! thread that notifies it. Other threads leave their reports, and the one that runs looks again
//! before it stops.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::message::Order;
use xsched_core::policy::{MayHold, Policy};
use xsched_core::scheduler::SchedulerError;
use xsched_core::time::Instant;

use super::mailbox::{Inbox, Mail, Phase};
use super::policy::PolicyFailures;
use super::question::{NoAnswer, Question, WhileRunning};
use super::register::Register;
use super::{Busy, ScheduledQueue, Scheduler};
use crate::error::Error;
use crate::panics::caught;
use crate::record::ActiveRecord;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, bound, lock, mpsc};
use crate::urgency;
use crate::workers::Committer;

/// Rounds that a thread which notifies the scheduler runs in a row. The scheduler's thread does the
/// rest.
const INLINE_ROUNDS: u32 = bound(4, 1);

/// The scheduler, and what its rounds need. The thread that has set [`Inbox::running`] has it to
/// itself.
struct RoundState {
    scheduler: Scheduler,
    mail: Mail,
}

/// The scheduler as queues and the runtime see it: mailbox, register and lease.
pub(crate) struct SchedulerHandle {
    pub(super) inbox: Mutex<Inbox>,
    /// Notifies the scheduler's thread.
    notified: Condvar,
    pub(super) register: Mutex<Register>,
    /// A queue has gone.
    pub(super) departed: Condvar,
    /// The scheduler has ended.
    pub(super) ended: Condvar,
    /// When the present round started, in nanoseconds; 0 while the scheduler rests.
    round_started_ns: AtomicU64,
    gone: AtomicBool,
    rounds: Mutex<Option<RoundState>>,
    /// The thread that notifies the scheduler may run a round.
    quick: AtomicBool,
    /// True if the policy may hold a queue, and spares all of the highest priority.
    holds: AtomicBool,
    spares: AtomicBool,
    /// On each device all queues have the same priority.
    equal: AtomicBool,
    policy_name: Mutex<&'static str>,
    /// How long a round may take.
    pub(crate) lease: Duration,
    failed_open: AtomicU64,
    /// Queues that have something to do. Decides what is done first, and nothing else, so models
    /// need not know it.
    load: std::sync::atomic::AtomicU32,
    /// Orders and reports that the last round left to the next. Only threads that wait for the
    /// scheduler to catch up ask, so models need not know it either.
    pub(super) late: std::sync::atomic::AtomicU32,
    /// How urgent the runtime's threads are: they inherit it from the thread that starts them.
    urgency: i16,
    pub(crate) record: ActiveRecord,
    /// Dropped with the handle, to end the watchdog.
    _watchdog: mpsc::Sender<()>,
}

impl std::fmt::Debug for SchedulerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchedulerHandle").field("gone", &self.gone).finish_non_exhaustive()
    }
}

/// The asking end of a question in the mailbox: dropped, it tells the asker that the scheduler has
/// ended.
struct Asked<T>(Arc<Question<T>>);

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.0.drop_unanswered();
    }
}

impl PolicyFailures for SchedulerHandle {
    fn policy_failed(&self) {
        self.count_failed_open();
        // Also if what it panicked about changes no queue.
        self.send(|now, scheduler| scheduler.reconsider_all(now));
    }
}

impl SchedulerHandle {
    pub(crate) fn new(lease: Duration, watchdog: mpsc::Sender<()>) -> Self {
        Self {
            inbox: Mutex::default(),
            notified: Condvar::new(),
            register: Mutex::default(),
            departed: Condvar::new(),
            ended: Condvar::new(),
            round_started_ns: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            rounds: Mutex::new(None),
            quick: AtomicBool::new(false),
            holds: AtomicBool::new(true),
            spares: AtomicBool::new(false),
            equal: AtomicBool::new(true),
            policy_name: Mutex::new(""),
            lease,
            failed_open: AtomicU64::new(0),
            load: std::sync::atomic::AtomicU32::new(0),
            late: std::sync::atomic::AtomicU32::new(0),
            urgency: urgency::of_this_thread(),
            record: ActiveRecord::default(),
            _watchdog: watchdog,
        }
    }

    /// Lets rounds be run, from now until [`SchedulerHandle::end_rounds`].
    pub(crate) fn begin_rounds(&self, scheduler: Scheduler) {
        self.note_policy(&scheduler);
        self.set_policy_name(scheduler.policy().name());
        *lock(&self.rounds) = Some(RoundState { scheduler, mail: Mail::default() });
    }

    /// Reads again what the policy says of itself, which may have changed.
    fn note_policy(&self, scheduler: &Scheduler) {
        let (policy, may_hold) = (scheduler.policy(), scheduler.policy().needs().may_hold);
        self.quick.store(policy.is_trusted(), Ordering::Relaxed);
        self.holds.store(may_hold != MayHold::Nothing, Ordering::Relaxed);
        self.spares.store(may_hold == MayHold::Lower, Ordering::Relaxed);
        self.equal.store(scheduler.are_priorities_equal(), Ordering::Relaxed);
    }

    /// True if the policy may hold a queue while another one has work, and several have.
    pub(crate) fn holds_others(&self) -> bool {
        let are_first = self.equal.load(Ordering::Relaxed);
        self.load.load(Ordering::Relaxed) > 1 && self.policy_holds(are_first)
    }

    /// True if the policy may hold a queue, as it said at the end of the last round. `is_first`: no
    /// queue has a higher priority.
    pub(crate) fn policy_holds(&self, is_first: bool) -> bool {
        self.holds.load(Ordering::Relaxed) && !(is_first && self.spares.load(Ordering::Relaxed))
    }

    /// The name of the policy in charge.
    #[cfg(feature = "metrics")]
    pub(crate) fn policy_name(&self) -> &'static str {
        *lock(&self.policy_name)
    }

    pub(crate) fn set_policy_name(&self, name: &'static str) {
        *lock(&self.policy_name) = name;
    }

    /// The scheduler, of which no thread runs rounds any more.
    pub(crate) fn end_rounds(&self) -> Option<Scheduler> {
        lock(&self.rounds).take().map(|rounds| rounds.scheduler)
    }

    /// A queue has a report. The caller makes sure that it notifies once per report, and holds no
    /// lock.
    pub(crate) fn notify(&self, queue: QueueId) {
        let mut inbox = lock(&self.inbox);
        if inbox.has_ended() {
            return;
        }
        if inbox.running {
            // The thread that runs a round looks again.
            inbox.reports.push(queue);
        } else if self.quick.load(Ordering::Relaxed) && !self.outranks_this_thread() {
            inbox.running = true;
            drop(inbox);
            self.run_rounds_inline(queue);
        } else {
            inbox.reports.push(queue);
            self.wake(inbox);
        }
    }

    /// True if the calling thread is less urgent than the threads of the runtime. It does no work
    /// that more urgent threads would have to wait for.
    pub(crate) fn outranks_this_thread(&self) -> bool {
        urgency::is_below(self.urgency)
    }

    /// Runs rounds on the thread that notifies the scheduler of this queue's report, as long as
    /// there are reports.
    fn run_rounds_inline(&self, queue: QueueId) {
        let mut rounds = 0;
        let (due, mut inbox) = loop {
            let due = caught(|| self.inline_round((rounds == 0).then_some(queue)));
            rounds += 1;
            self.round_started_ns.store(0, Ordering::Release);
            let inbox = lock(&self.inbox);
            if due.is_err() || inbox.reports.is_empty() || rounds == INLINE_ROUNDS {
                break (due, inbox);
            }
        };
        inbox.running = false;
        let before = inbox.sleeps_until;
        match due {
            Ok(due) => inbox.due = due,
            // Its state cannot be known. The scheduler's thread ends, and all holds.
            Err(_) => inbox.advance(Phase::Failed),
        }
        // The scheduler's thread sleeps for as long as it was told before: for ever if it fell
        // asleep while this ran.
        let sooner = inbox.due.is_some_and(|due| before.is_none_or(|before| due < before));
        let left = inbox.has_mail();
        if sooner || left || self.is_over(&inbox) {
            self.wake(inbox);
        }
    }

    /// One round: for the report of this queue, or for those in the mailbox. When the scheduler
    /// wants to be asked again.
    fn inline_round(&self, first: Option<QueueId>) -> Option<Instant> {
        let mut rounds = lock(&self.rounds);
        let RoundState { scheduler, mail } = rounds.as_mut()?;
        match first {
            Some(queue) => mail.reports.push(queue),
            None => std::mem::swap(&mut mail.reports, &mut lock(&self.inbox).reports),
        }
        self.round(scheduler, mail);
        self.note_policy(scheduler);
        self.next_round(scheduler, mail)
    }

    /// One round: takes reports, lets the policy decide, delivers orders. The caller is the one
    /// that runs.
    pub(crate) fn round(&self, scheduler: &mut Scheduler, mail: &mut Mail) {
        let time = crate::clock::now();
        self.round_started_ns.store(time.as_ns(), Ordering::Release);
        for (_, request) in mail.requests.drain(..) {
            request(time, scheduler);
        }
        mail.reports.append(&mut mail.late.reports);
        for id in mail.reports.drain(..) {
            let report = match self.queue(id).map(|queue| queue.take_report()) {
                Some(Ok(Some(report))) => report,
                Some(Err(Busy)) => {
                    mail.late.reports.push(id);
                    continue;
                }
                Some(Ok(None)) | None => continue,
            };
            if let Err(error) = scheduler.handle_report(time, id, &report) {
                tracing::warn!(queue = id.index(), %error, "a report was not taken");
            }
        }
        scheduler.handle_timeout(time);
        self.deliver_late(mail);
        let mut polled = time;
        while let Some((id, order)) = scheduler.poll_order(polled) {
            self.deliver_or_keep(mail, id, order);
            polled = crate::clock::now();
        }
        // What was decided together costs one preemption where the device can.
        mail.staged.drain(..).for_each(|staged| staged.commit());
    }

    /// Waits for mail and answers it, on the scheduler's thread. False if it was the last.
    pub(crate) fn serve(&self) -> bool {
        let over = self.wait();
        let mut rounds = lock(&self.rounds);
        let Some(RoundState { scheduler, mail }) =
            rounds.as_mut().filter(|_| lock(&self.inbox).phase < Phase::Failed)
        else {
            return false;
        };
        self.collect(mail);
        self.round(scheduler, mail);
        self.note_policy(scheduler);
        let due = self.next_round(scheduler, mail);
        drop(rounds);
        let mut inbox = lock(&self.inbox);
        inbox.running = false;
        inbox.due = due;
        self.round_started_ns.store(0, Ordering::Release);
        !over
    }

    /// Takes all mail. The caller is the one that runs.
    pub(crate) fn collect(&self, mail: &mut Mail) {
        let mut inbox = lock(&self.inbox);
        // The buffers change places, so that nothing is allocated after a while.
        std::mem::swap(&mut mail.requests, &mut inbox.requests);
        std::mem::swap(&mut mail.reports, &mut inbox.reports);
    }

    /// Lets the scheduler know of what is in the inbox.
    fn wake(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let asleep = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if asleep {
            self.notified.notify_one();
        }
    }

    /// True if the scheduler's thread sleeps past the time when it wants to be asked, and no
    /// thread is about to wake it.
    #[cfg(all(test, loom))]
    pub(crate) fn is_timer_lost(&self) -> bool {
        let inbox = lock(&self.inbox);
        let late = inbox.due.is_some_and(|due| inbox.sleeps_until.is_none_or(|until| until > due));
        inbox.asleep && !inbox.running && late
    }

    /// Runs a closure on the scheduler's thread, without waiting for it. Returns its number.
    ///
    /// The caller keeps the mailbox bounded: see [`Inbox`].
    pub(crate) fn send(
        &self,
        request: impl FnOnce(Instant, &mut Scheduler) + Send + 'static,
    ) -> u64 {
        let mut inbox = lock(&self.inbox);
        if inbox.has_ended() {
            return u64::MAX;
        }
        inbox.numbered += 1;
        let number = inbox.numbered;
        inbox.requests.push((number, Box::new(request)));
        self.wake(inbox);
        number
    }

    /// Requests in the mailbox.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn requests(&self) -> usize {
        lock(&self.inbox).requests.len()
    }

    /// Takes a request out of the mailbox, if it is still there.
    fn take_back(&self, number: u64) {
        let mut inbox = lock(&self.inbox);
        let at = inbox.requests.iter().position(|(known, _)| *known == number);
        let request = at.map(|at| inbox.requests.remove(at));
        drop(inbox);
        // It may own a policy, whose destructor is the user's.
        drop(request);
    }

    /// Runs a closure on the scheduler's thread and waits for the answer, and no longer than twice
    /// the lease. For requests that are harmless if they still run when the asker has left. A
    /// request that has not begun by then never does.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(Instant, &mut Scheduler) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.question(request, |_, _, _| (), WhileRunning::Leave)
    }

    /// Asks as [`SchedulerHandle::ask`] does. If the answer comes when the asker has left, `undo`
    /// takes it back on the scheduler's thread.
    pub(crate) fn ask_or_undo<T: Send + 'static>(
        &self,
        request: impl FnOnce(Instant, &mut Scheduler) -> T + Send + 'static,
        undo: impl FnOnce(Instant, &mut Scheduler, T) + Send + 'static,
    ) -> Result<T, Error> {
        self.question(request, undo, WhileRunning::Leave)
    }

    /// Asks as [`SchedulerHandle::ask`] does, but waits for the end of a request that has begun:
    /// one that runs none of the policy's code, and whose effect cannot be undone.
    pub(crate) fn ask_to_the_end<T: Send + 'static>(
        &self,
        request: impl FnOnce(Instant, &mut Scheduler) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.question(request, |_, _, _| (), WhileRunning::Wait)
    }

    fn question<T: Send + 'static>(
        &self,
        request: impl FnOnce(Instant, &mut Scheduler) -> T + Send + 'static,
        undo: impl FnOnce(Instant, &mut Scheduler, T) + Send + 'static,
        while_running: WhileRunning,
    ) -> Result<T, Error> {
        let question = Arc::new(Question::new());
        let asked = Asked(Arc::clone(&question));
        let number = self.send(move |now, scheduler| {
            if asked.0.begin() {
                let answer = request(now, scheduler);
                if let Some(late) = asked.0.answer(answer) {
                    undo(now, scheduler, late);
                }
            }
        });
        question.wait(self.lease.saturating_mul(2), while_running).map_err(|none| match none {
            NoAnswer::Gone => Error::SchedulerGone,
            NoAnswer::Withdrawn => {
                self.take_back(number);
                Error::SchedulerSilent
            }
        })
    }

    /// Waits until there is something to do that no other thread does, and is the one that runs
    /// from then on. Called by the scheduler's thread alone. True if it is the last time.
    pub(crate) fn wait(&self) -> bool {
        let mut inbox = lock(&self.inbox);
        let over = loop {
            let over = self.is_over(&inbox);
            let left_ns = inbox.due.map(|due| due.since(crate::clock::now()).as_ns());
            if !inbox.running && (over || inbox.has_mail() || left_ns == Some(0)) {
                break over;
            }
            inbox.asleep = true;
            inbox.sleeps_until = inbox.due.filter(|_| !inbox.running);
            // A thread that runs rounds meanwhile wakes this one if there is anything left.
            inbox = match left_ns.filter(|_| !inbox.running) {
                None => self.notified.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(ns) => {
                    let left = Duration::from_nanos(ns);
                    let woken = self.notified.wait_timeout(inbox, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        inbox.asleep = false;
        inbox.running = true;
        self.round_started_ns.store(crate::clock::now().as_ns(), Ordering::Release);
        over
    }

    /// Ends the scheduler's thread as a defect in it would, by a panic or by returning.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn break_scheduler(&self, panics: bool) {
        if panics {
            self.send(|_, _| panic!("as a test wants it"));
        } else {
            let mut inbox = lock(&self.inbox);
            inbox.advance(Phase::Failed);
            self.wake(inbox);
        }
    }

    /// True if no queue is left and none will come.
    fn is_over(&self, inbox: &Inbox) -> bool {
        match inbox.phase {
            Phase::Open => false,
            Phase::Stopping => lock(&self.register).is_empty(),
            Phase::Failed | Phase::Ended => true,
        }
    }

    /// Ends the scheduler's thread once the last queue has gone.
    pub(crate) fn stop(&self) {
        let mut inbox = lock(&self.inbox);
        inbox.advance(Phase::Stopping);
        self.wake(inbox);
    }

    /// The scheduler has ended. Every hold of it ends.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
        self.round_started_ns.store(0, Ordering::Release);
        let mut inbox = lock(&self.inbox);
        inbox.advance(Phase::Ended);
        let unanswered = std::mem::take(&mut inbox.requests);
        inbox.reports.clear();
        drop(inbox);
        self.ended.notify_all();
        // Askers learn that there will be no answer.
        drop(unanswered);
        if !lock(&self.register).is_empty() {
            self.fail_open();
        }
    }

    /// True if the scheduler has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Since when the scheduler has been busy with one round, if it is.
    pub(crate) fn round_started(&self) -> Option<Instant> {
        let started_ns = self.round_started_ns.load(Ordering::Acquire);
        (started_ns != 0).then(|| Instant::from_ns(started_ns))
    }

    /// Ends all holds of the scheduler, without asking it.
    pub(crate) fn fail_open(&self) {
        self.count_failed_open();
        self.end_holds();
    }

    /// Ends all holds as a part of a failure that was counted already.
    pub(crate) fn end_holds(&self) {
        for (_, queue) in self.queues() {
            queue.fail_open();
        }
    }

    /// All queues.
    pub(crate) fn queues(&self) -> Vec<(QueueId, Arc<dyn ScheduledQueue>)> {
        lock(&self.register).queues()
    }

    pub(crate) fn count_failed_open(&self) {
        self.failed_open.fetch_add(1, Ordering::Relaxed);
    }

    /// A queue got something to do, or has nothing any more. How many other queues have.
    pub(crate) fn count_load(&self, busy: bool) -> u32 {
        if busy {
            self.load.fetch_add(1, Ordering::Relaxed)
        } else {
            self.load.fetch_sub(1, Ordering::Relaxed).saturating_sub(1)
        }
    }

    /// How often all holds were ended because the scheduler could not be trusted.
    pub(crate) fn times_failed_open(&self) -> u64 {
        self.failed_open.load(Ordering::Relaxed)
    }

    /// Enters a queue into the register, and brings it the orders that were given before.
    /// False if the register is closed.
    pub(crate) fn register(&self, id: QueueId, queue: Arc<dyn ScheduledQueue>) -> bool {
        let mut register = lock(&self.register);
        if register.closed {
            return false;
        }
        register.put(id, Some(Arc::clone(&queue)));
        let early: Vec<_> = register.early.extract_if(.., |(of, _)| *of == id).collect();
        drop(register);
        self.record.join(id, |buffer| queue.record(Some(buffer)));
        for (_, order) in early {
            // No other thread knows the queue, so it is not busy.
            if let Ok(Some(staged)) = queue.deliver(order) {
                staged.commit();
            }
        }
        // If the scheduler ended meanwhile, that may have been before this queue could be told.
        if self.is_gone() {
            queue.fail_open();
        }
        true
    }

    /// Makes the queue wait for an event, unless it has been reached. On the scheduler's thread.
    pub(crate) fn enqueue_wait(
        &self,
        scheduler: &mut Scheduler,
        id: QueueId,
        event: EventRef,
    ) -> Result<Option<CmdId>, Error> {
        let queue = self.queue(id).ok_or(SchedulerError::UnknownQueue)?;
        if self.queue(event.queue).is_none() {
            // A queue goes when everything in it has retired.
            return Ok(None);
        }
        queue.enqueue_wait(event, &mut |cmd| {
            scheduler.admit_wait(crate::clock::now(), id, cmd, event)
        })
    }

    /// The queue with this id.
    pub(crate) fn queue(&self, id: QueueId) -> Option<Arc<dyn ScheduledQueue>> {
        lock(&self.register).queue(id)
    }

    /// Orders that wait for their queues to be registered.
    #[cfg(all(test, loom))]
    pub(crate) fn early_orders(&self) -> usize {
        lock(&self.register).early.len()
    }

    /// Brings an order to its queue: see [`ScheduledQueue::deliver`].
    pub(crate) fn deliver(
        &self,
        id: QueueId,
        order: Order,
    ) -> Result<Option<Arc<Committer>>, Busy> {
        let mut register = lock(&self.register);
        let queue = register.queue(id);
        if queue.is_none() && !register.has_gone(id) {
            register.early.push((id, order));
        }
        drop(register);
        queue.map_or(Ok(None), |queue| queue.deliver(order))
    }
}
