//! Where queues and the scheduler meet: the mailbox, the register of queues, the lease.
//!
//! A queue that has a report rings once and is visited; reports that follow before the visit are
//! merged, since each says everything. Requests that need the scheduler's own state are closures
//! that its thread runs. No lock that others wait for is held across a call of a policy, so that a
//! policy that hangs hangs nobody else.
//!
//! One thread at a time runs rounds of the scheduler: its own, or, if the policy is quick, whoever
//! rings. Others leave their reports, and that thread looks again before it stops.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use xsched_core::fault::Fault;
use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::message::{Order, Report};
use xsched_core::policy::Policy;
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Heap, SchedulerError};
use xsched_core::time::Instant;

use crate::commit::Committer;
use crate::error::Error;
use crate::policy::Guest;
use crate::recorder::{Records, Tape};
use crate::shared::Snapshot;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, bound, mpsc, mutant};

/// The scheduler as the runtime uses it.
pub(crate) type Brain = Recorded<Guest, Heap, Tape>;

/// What the runtime's threads do with a queue, whatever its device and its commands are.
pub(crate) trait Member: Send + Sync {
    /// The report that waits for the scheduler.
    fn take_report(&self) -> Option<Report>;
    /// Brings an order, and carries out the steps that follow from it. If one was staged, that has
    /// to be committed, at best together with those of other queues.
    fn deliver(&self, order: Order) -> Option<Arc<Committer>>;
    /// What was staged has been committed, or has failed so.
    fn committed(&self, fault: Option<Fault>);
    /// The scheduler is not to be trusted any more: its holds end.
    fn fail_open(&self);
    /// Whether somebody needs its completions as soon as they are there. Takes no lock.
    fn is_eager(&self) -> bool;
    /// Takes completions; true if there were any.
    fn reap(&self) -> bool;
    /// Asks the device to wake the reaper, unless somebody who submits is about to look anyway.
    /// Says how long the queue can be left alone, at least
    /// `nap`; `None` if it needs nobody: it asks to be watched again. A queue that is merely idle
    /// is let go only if `tired`.
    fn rest(&self, nap: Duration, tired: bool) -> Option<Duration>;
    /// Launches what may be launched.
    fn pump(&self);
    fn snapshot(&self) -> Snapshot;
    /// Takes a command that waits for an event, if `admit` agrees when told its number.
    fn submit_wait(&self, event: EventRef, admit: &mut Admit<'_>) -> Result<Option<CmdId>, Error>;
    /// Begins to record what happens to the queue, unless it is recorded already, or ends it.
    fn record(&self, tape: Option<Tape>);
}

/// Says whether there is something to wait for.
pub(crate) type Admit<'a> = dyn FnMut(CmdId) -> Result<bool, SchedulerError> + 'a;

/// A closure for the scheduler's thread.
type Request = Box<dyn FnOnce(Instant, &mut Brain) + Send>;

#[derive(Default)]
struct Inbox {
    requests: Vec<Request>,
    reports: Vec<QueueId>,
    stop: bool,
    #[cfg(feature = "inject")]
    broken: bool,
    /// The scheduler has ended; nobody will look here again.
    closed: bool,
    /// The scheduler's thread waits for the bell and nobody has rung it. Ringing is a system call,
    /// even where nobody waits.
    asleep: bool,
    /// Somebody runs a round, and will look here afterwards.
    running: bool,
    /// When the scheduler wants to be asked again.
    due: Option<Instant>,
    /// Until when the scheduler's thread sleeps, if it does and not for ever.
    told: Option<Instant>,
    /// A round has panicked.
    crashed: bool,
}

impl Inbox {
    fn has_mail(&self) -> bool {
        !self.requests.is_empty() || !self.reports.is_empty()
    }
}

/// Spin hints before the scheduler looks again: a few microseconds.
const LINGER: u32 = bound(96, 0);
/// If its last sleep, with the round that followed, took less than this.
const SHORT_SLEEP: xsched_core::time::Duration = xsched_core::time::Duration::from_us(50);

/// Rounds that one who rings runs in a row. The scheduler's thread does the rest.
const FAVOURS: u32 = bound(4, 1);

/// The scheduler, and what its rounds need. Whoever has set [`Inbox::running`] has it to himself.
struct Seat {
    brain: Brain,
    mail: Mail,
}

/// What a round of the scheduler starts with.
#[derive(Default)]
pub(crate) struct Mail {
    /// Closures to run.
    pub(crate) requests: Vec<Request>,
    /// Queues that have reports.
    pub(crate) reports: Vec<QueueId>,
    /// Where the orders of the round have had steps staged.
    staged: Vec<Arc<Committer>>,
}

/// A queue, or that it has gone.
type Entry = (QueueId, Option<Arc<dyn Member>>);

#[derive(Default)]
struct Register {
    /// By index. A queue that has gone stays until its place is given to another one.
    members: Vec<Option<Entry>>,
    /// Orders for queues that are in the scheduler's table and not yet here.
    early: Vec<(QueueId, Order)>,
}

/// See the module.
pub(crate) struct Hub {
    inbox: Mutex<Inbox>,
    bell: Condvar,
    register: Mutex<Register>,
    /// When the present round started, in nanoseconds; 0 while the scheduler rests.
    round_started_ns: AtomicU64,
    gone: AtomicBool,
    seat: Mutex<Option<Seat>>,
    /// Whoever rings may run a round.
    quick: AtomicBool,
    /// How long a round may take.
    pub(crate) lease: Duration,
    failed_open: AtomicU64,
    /// Queues that have something to do. Decides what is done first, and nothing else, so models
    /// need not know it.
    load: std::sync::atomic::AtomicU32,
    pub(crate) records: Records,
    /// Dropped with the hub, to end the watchdog.
    _watchdog: mpsc::Sender<()>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("gone", &self.gone).finish_non_exhaustive()
    }
}

/// A lock whose holder panicked still guards data that each step leaves consistent.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn new(lease: Duration, watchdog: mpsc::Sender<()>) -> Self {
        Self {
            inbox: Mutex::default(),
            bell: Condvar::new(),
            register: Mutex::default(),
            round_started_ns: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            seat: Mutex::new(None),
            quick: AtomicBool::new(false),
            lease,
            failed_open: AtomicU64::new(0),
            load: std::sync::atomic::AtomicU32::new(0),
            records: Records::default(),
            _watchdog: watchdog,
        }
    }

    /// Lets rounds be run, from now until [`Hub::unseat`].
    pub(crate) fn seat(&self, brain: Brain) {
        self.quick.store(brain.policy().is_quick(), Ordering::Relaxed);
        *lock(&self.seat) = Some(Seat { brain, mail: Mail::default() });
    }

    /// The scheduler, which nobody runs any more.
    pub(crate) fn unseat(&self) -> Option<Brain> {
        lock(&self.seat).take().map(|seat| seat.brain)
    }

    /// A queue has a report. The caller makes sure that it rings once per report, and holds no
    /// lock.
    pub(crate) fn ring(&self, queue: QueueId) {
        let mut inbox = lock(&self.inbox);
        if inbox.closed {
            return;
        }
        inbox.reports.push(queue);
        if inbox.running {
            // Whoever runs a round looks again.
        } else if self.quick.load(Ordering::Relaxed) {
            inbox.running = true;
            drop(inbox);
            self.lend_a_hand();
        } else {
            self.wake(inbox);
        }
    }

    /// Runs rounds on the thread of one who rang.
    fn lend_a_hand(&self) {
        let due = catch_unwind(AssertUnwindSafe(|| self.favours()));
        self.round_started_ns.store(0, Ordering::Release);
        let mut inbox = lock(&self.inbox);
        inbox.running = mutant("rounds without an end");
        let before = if mutant("asleep for no longer than due") { inbox.due } else { inbox.told };
        match due {
            Ok(due) => inbox.due = due,
            // Nobody can tell what state it is in. The scheduler's thread ends, and all holds.
            Err(_) => inbox.crashed = true,
        }
        // The scheduler's thread sleeps for as long as it was told before: for ever if it fell
        // asleep while this ran.
        let sooner = inbox.due.is_some_and(|due| before.is_none_or(|before| due < before));
        let left = inbox.has_mail() && !mutant("no look back");
        if sooner || left || self.is_over(&inbox) {
            self.wake(inbox);
        }
    }

    /// Rounds for reports, as long as there are some. When the scheduler wants to be asked again.
    fn favours(&self) -> Option<Instant> {
        let mut seat = lock(&self.seat);
        let Seat { brain, mail } = seat.as_mut()?;
        for _ in 0..FAVOURS {
            std::mem::swap(&mut mail.reports, &mut lock(&self.inbox).reports);
            if mail.reports.is_empty() {
                break;
            }
            self.round(brain, mail);
        }
        self.quick.store(brain.policy().is_quick(), Ordering::Relaxed);
        brain.poll_timeout()
    }

    /// One round: takes reports, lets the policy decide, delivers orders. The caller is the one
    /// that runs.
    pub(crate) fn round(&self, brain: &mut Brain, mail: &mut Mail) {
        let time = crate::clock::now();
        self.round_started_ns.store(time.as_ns(), Ordering::Release);
        for request in mail.requests.drain(..) {
            request(time, brain);
        }
        for id in mail.reports.drain(..) {
            let Some(report) = self.member(id).and_then(|member| member.take_report()) else {
                continue;
            };
            if let Err(error) = brain.handle_report(time, id, &report) {
                tracing::warn!(queue = id.index(), %error, "a report was not taken");
            }
        }
        brain.handle_timeout(time);
        while let Some((id, order)) = brain.poll_order(crate::clock::now()) {
            let staged = self.deliver(id, order);
            let known = |staged: &Arc<_>| mail.staged.iter().any(|it| Arc::ptr_eq(it, staged));
            mail.staged.extend(staged.filter(|staged| !known(staged)));
        }
        // What was decided together costs one preemption where the device can.
        mail.staged.drain(..).for_each(|staged| staged.commit());
    }

    /// Waits for mail and answers it, on the scheduler's thread. False if it was the last.
    pub(crate) fn serve(&self, slept: &mut Option<Instant>) -> bool {
        let over = self.wait(slept);
        let mut seat = lock(&self.seat);
        let Some(Seat { brain, mail }) = seat.as_mut().filter(|_| !lock(&self.inbox).crashed)
        else {
            return false;
        };
        self.collect(mail);
        self.round(brain, mail);
        self.quick.store(brain.policy().is_quick(), Ordering::Relaxed);
        let due = brain.poll_timeout();
        drop(seat);
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
        if mutant("the inbox is emptied in two steps") {
            inbox.reports.clear();
        }
        std::mem::swap(&mut mail.reports, &mut inbox.reports);
    }

    /// Lets the scheduler know of what is in the inbox.
    fn wake(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let asleep = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if asleep {
            self.bell.notify_one();
        }
    }

    /// Whether the scheduler's thread sleeps past the time when it wants to be asked, and nobody
    /// is about to wake it.
    #[cfg(all(test, loom))]
    pub(crate) fn is_timer_lost(&self) -> bool {
        let inbox = lock(&self.inbox);
        let late = inbox.due.is_some_and(|due| inbox.told.is_none_or(|told| told > due));
        inbox.asleep && !inbox.running && late
    }

    /// Runs a closure on the scheduler's thread, without waiting for it.
    pub(crate) fn send(&self, request: impl FnOnce(Instant, &mut Brain) + Send + 'static) {
        let mut inbox = lock(&self.inbox);
        if !inbox.closed {
            inbox.requests.push(Box::new(request));
            if !mutant("requests make no noise") {
                self.wake(inbox);
            }
        }
    }

    /// Runs a closure on the scheduler's thread and waits for the answer, and no longer than twice
    /// the lease.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(Instant, &mut Brain) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(move |now, brain| {
            // Nobody listens any more if the wait was given up.
            let _ = answer.send(request(now, brain));
        });
        answered.recv_timeout(self.lease.saturating_mul(2)).map_err(|e| match e {
            mpsc::RecvTimeoutError::Timeout => Error::SchedulerSilent,
            mpsc::RecvTimeoutError::Disconnected => Error::SchedulerGone,
        })
    }

    /// Waits until the round that answered the last question has ended: it takes reports and
    /// delivers orders after its answers.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        self.ask(|_, _| ())
    }

    /// Stays awake for a moment if the last sleep was short: waking the scheduler costs those who
    /// submit more than the moment costs anybody. It does not look meanwhile, so that reports
    /// merge instead of being fetched one by one, from memory that others are busy with.
    fn linger(slept: &mut Option<Instant>) {
        let slept = slept.take().map(|since| crate::clock::now().since(since));
        if slept.is_none_or(|slept| slept < SHORT_SLEEP) {
            (0..LINGER).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Waits until there is something to do that nobody else does, and is the one that runs from
    /// then on. Called by the scheduler's thread alone. True if it is the last time. `slept`: when
    /// it last fell asleep, if it did.
    pub(crate) fn wait(&self, slept: &mut Option<Instant>) -> bool {
        Self::linger(slept);
        let mut inbox = lock(&self.inbox);
        let over = loop {
            let over = self.is_over(&inbox);
            let left_ns = inbox.due.map(|due| due.since(crate::clock::now()).as_ns());
            if !inbox.running && (over || inbox.has_mail() || left_ns == Some(0)) {
                break over;
            }
            inbox.asleep = !mutant("asleep without a word");
            *slept = Some(crate::clock::now());
            inbox.told = inbox.due.filter(|_| !inbox.running);
            // While somebody else runs, he wakes this thread if there is anything left.
            inbox = match left_ns.filter(|_| !inbox.running) {
                None => self.bell.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(ns) => {
                    let left = Duration::from_nanos(ns);
                    let woken = self.bell.wait_timeout(inbox, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        inbox.asleep = false;
        inbox.running = true;
        self.round_started_ns.store(crate::clock::now().as_ns(), Ordering::Release);
        over
    }

    #[cfg(feature = "inject")]
    pub(crate) fn break_scheduler(&self, panics: bool) {
        if panics {
            // infallible: the panic is the purpose, and not in builds of users.
            self.send(|_, _| panic!("as a test wants it"));
        } else {
            let mut inbox = lock(&self.inbox);
            inbox.broken = true;
            self.wake(inbox);
        }
    }

    /// Nobody will make another queue, and there is none left.
    fn is_over(&self, inbox: &Inbox) -> bool {
        #[cfg(feature = "inject")]
        if inbox.broken {
            return true;
        }
        inbox.crashed || inbox.stop && lock(&self.register).is_empty()
    }

    /// Ends the scheduler's thread once the last queue has gone.
    pub(crate) fn stop(&self) {
        let mut inbox = lock(&self.inbox);
        inbox.stop = true;
        self.wake(inbox);
    }

    /// The scheduler has ended. Every hold of it ends.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
        self.round_started_ns.store(0, Ordering::Release);
        let mut inbox = lock(&self.inbox);
        inbox.closed = !mutant("not closed");
        let unanswered = std::mem::take(&mut inbox.requests);
        inbox.reports.clear();
        drop(inbox);
        // Whoever waits for an answer learns that there will be none.
        if mutant("questions kept") {
            lock(&self.inbox).requests = unanswered;
        } else {
            drop(unanswered);
        }
        if !mutant("gone without failing open") {
            self.fail_open();
        }
    }

    /// Whether the scheduler has ended.
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

    /// The same, as a part of a failure that was counted already.
    pub(crate) fn end_holds(&self) {
        for (_, member) in self.members() {
            member.fail_open();
        }
    }

    /// All queues.
    pub(crate) fn members(&self) -> Vec<(QueueId, Arc<dyn Member>)> {
        let register = lock(&self.register);
        let known = |(id, member): &Entry| Some((*id, member.clone()?));
        register.members.iter().flatten().filter_map(known).collect()
    }

    pub(crate) fn count_failed_open(&self) {
        self.failed_open.fetch_add(1, Ordering::Relaxed);
    }

    /// A queue got something to do, or has nothing any more. How many others have.
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

    /// The figures of all queues.
    #[cfg(feature = "metrics")]
    pub(crate) fn snapshots(&self) -> Vec<(QueueId, Snapshot)> {
        self.members().into_iter().map(|(id, member)| (id, member.snapshot())).collect()
    }

    /// Enters a queue into the register, and brings it the orders that were given before.
    pub(crate) fn register(&self, id: QueueId, member: Arc<dyn Member>) {
        let mut register = lock(&self.register);
        register.put(id, Some(Arc::clone(&member)));
        let early: Vec<_> = register.early.extract_if(.., |(queue, _)| *queue == id).collect();
        drop(register);
        self.records.join(id, &*member);
        for (_, order) in early {
            if let Some(staged) = member.deliver(order) {
                staged.commit();
            }
        }
        // If the scheduler ended meanwhile, that may have been before this queue could be told.
        if self.is_gone() && !mutant("early orders outlive the scheduler") {
            member.fail_open();
        }
    }

    /// Takes a queue out of the register and out of the scheduler's table.
    pub(crate) fn detach(&self, id: QueueId) {
        let mut register = lock(&self.register);
        register.early.retain(|(queue, _)| *queue != id);
        let member = register.put(id, None);
        drop(register);
        // Perhaps the last that holds the queue, so not under the lock.
        drop(member);
        self.send(move |now, brain| {
            if let Err(error) = brain.detach(now, id) {
                tracing::warn!(queue = id.index(), %error, "a queue was not detached");
            }
        });
    }

    /// Makes the queue wait for an event, unless it has been reached. On the scheduler's thread.
    pub(crate) fn submit_wait(
        &self,
        brain: &mut Brain,
        id: QueueId,
        event: EventRef,
    ) -> Result<Option<CmdId>, Error> {
        let member = self.member(id).ok_or(SchedulerError::UnknownQueue)?;
        if self.member(event.queue).is_none() {
            // A queue goes when everything in it has retired.
            return Ok(None);
        }
        member.submit_wait(event, &mut |cmd| brain.admit_wait(crate::clock::now(), id, cmd, event))
    }

    /// The queue with this id.
    pub(crate) fn member(&self, id: QueueId) -> Option<Arc<dyn Member>> {
        lock(&self.register).member(id)
    }

    /// Orders that wait for their queues to be registered.
    #[cfg(all(test, loom))]
    pub(crate) fn early_orders(&self) -> usize {
        lock(&self.register).early.len()
    }

    /// Brings an order to its queue: see [`Member::deliver`].
    pub(crate) fn deliver(&self, id: QueueId, order: Order) -> Option<Arc<Committer>> {
        let mut register = lock(&self.register);
        let member = register.member(id);
        if member.is_none() && !register.has_gone(id) {
            register.early.push((id, order));
        }
        drop(register);
        member.and_then(|member| member.deliver(order))
    }
}

impl Register {
    fn member(&self, id: QueueId) -> Option<Arc<dyn Member>> {
        let (known, member) = self.members.get(id.index())?.as_ref()?;
        member.clone().filter(|_| *known == id)
    }

    /// Whether no queue is there.
    fn is_empty(&self) -> bool {
        self.members.iter().flatten().all(|(_, member)| member.is_none())
    }

    /// Enters a queue, or that it has gone. Gives back what was there.
    fn put(&mut self, id: QueueId, member: Option<Arc<dyn Member>>) -> Option<Arc<dyn Member>> {
        if self.members.len() <= id.index() {
            self.members.resize_with(id.index() + 1, || None);
        }
        self.members[id.index()].replace((id, member)).and_then(|(_, member)| member)
    }

    /// Whether the queue was there and has gone, so that it has no use for orders.
    fn has_gone(&self, id: QueueId) -> bool {
        let slot = self.members.get(id.index()).and_then(Option::as_ref);
        slot.is_some_and(|(known, member)| *known == id && member.is_none())
            && !mutant("orders for queues that have gone")
    }
}
