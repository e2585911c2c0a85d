//! The threads of a device: the reaper, which takes completions that nobody waits for; the pump,
//! which launches what could not be launched when it was submitted; and, once there are any, the
//! one that runs callbacks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use xsched_core::fault::Fault;

use crate::commit::{Committer, commit_round};
use crate::error::Error;
use crate::hub::{Member, lock};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, bound, mpsc, mutant, thread};

/// Rounds without a completion for which the reaper stays awake.
const SPIN_ROUNDS: u32 = bound(64, 1);
/// Spin hints between two rounds of a reaper that stays awake: about a microsecond. More looks
/// would take the queue's memory away from whoever submits, all the time.
const BREATHER: u32 = bound(20, 0);
/// The reaper's naps between looks at a device that cannot wake it, in microseconds: the first, and
/// the longest.
const NAP_US: (u64, u64) = (20, 500);
/// The longest rest while there are queues to look at: fences that were lost must be missed in
/// time, whenever they were put.
const REST: Duration = Duration::from_millis(50);
/// At each so-manieth rest, queues with nothing in flight are let go. It costs a wake-up to come
/// back, so a queue that is used again and again stays for a while.
const IDLE_RESTS: u32 = bound(8, 2);

/// A list of queues that a thread must see to.
pub(crate) struct Work {
    queues: Mutex<Todo>,
    bell: Condvar,
    /// The thread looks at its queues often just now.
    lively: AtomicBool,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("lively", &self.lively).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Todo {
    members: Vec<Arc<dyn Member>>,
    /// There may be something to see.
    hurry: bool,
    stop: bool,
}

impl Work {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            bell: Condvar::new(),
            lively: AtomicBool::new(false),
        })
    }

    fn push(&self, member: Arc<dyn Member>) {
        lock(&self.queues).members.push(member);
        self.bell.notify_one();
    }

    fn stop(&self) {
        lock(&self.queues).stop = true;
        self.bell.notify_one();
    }

    /// There may be something to see: look at once.
    pub(crate) fn hurry(&self) {
        // SeqCst, as the store in `reap`: a reaper that is seen lively will arm what it looks at
        // after this call.
        if !self.lively.load(Ordering::SeqCst) {
            lock(&self.queues).hurry = true;
            self.bell.notify_one();
        }
    }

    /// Drops the queues that nobody will see to.
    #[cfg(all(test, loom))]
    pub(crate) fn forget(&self) {
        let members = std::mem::take(&mut lock(&self.queues).members);
        drop(members);
    }

    /// Moves new queues into `out`, after waiting for some (`at_most` so long, or for as long as it
    /// takes). Says what else there is to know.
    fn take(&self, out: &mut Vec<Arc<dyn Member>>, at_most: Option<Duration>) -> News {
        let mut todo = lock(&self.queues);
        while todo.members.is_empty() && !todo.stop && !todo.hurry {
            let Some(span) = at_most else {
                todo = self.bell.wait(todo).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if !span.is_zero() {
                todo = self.bell.wait_timeout(todo, span).unwrap_or_else(PoisonError::into_inner).0;
            }
            break;
        }
        let hurry = std::mem::take(&mut todo.hurry) || !todo.members.is_empty();
        out.append(&mut todo.members);
        News { hurry, end: todo.stop && out.is_empty() }
    }
}

struct News {
    /// Something is about to happen.
    hurry: bool,
    /// Nothing will ever be.
    end: bool,
}

/// [`xsched_core::hal::Backend::commit`] of a device.
pub(crate) type Commit = Box<dyn FnMut() -> Result<(), Fault> + Send>;

/// A callback with what it needs.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// The threads that serve the queues of one device. They end when the last queue has gone.
pub(crate) struct Threads {
    reaper: Arc<Work>,
    pump: Arc<Work>,
    /// Where the device has steps committed.
    committer: Option<Arc<Committer>>,
    callbacks: Mutex<Option<mpsc::Sender<Callback>>>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    /// With a thread for commits, if the device has any.
    pub(crate) fn start(commit: Option<Commit>) -> Result<Self, Error> {
        let committer = commit.is_some().then(Arc::default);
        let callbacks = Mutex::default();
        let threads = Self { reaper: Work::new(), pump: Work::new(), committer, callbacks };
        if let (Some(committer), Some(mut commit)) = (threads.committer.clone(), commit) {
            spawn("commit", move || {
                let mut members = Vec::new();
                while commit_round(&committer, &mut members, &mut *commit) {}
            })?;
        }
        let work = Arc::clone(&threads.reaper);
        spawn("reaper", move || reap(&work))?;
        let work = Arc::clone(&threads.pump);
        spawn("pump", move || pump(&work))?;
        Ok(threads)
    }

    /// The same without the threads: models have their own.
    #[cfg(all(test, loom))]
    pub(crate) fn without_threads(commits: bool) -> Self {
        let committer = commits.then(Arc::default);
        let callbacks = Mutex::default();
        Self { reaper: Work::new(), pump: Work::new(), committer, callbacks }
    }

    #[cfg(all(test, loom))]
    pub(crate) const fn pump_work(&self) -> &Arc<Work> {
        &self.pump
    }

    /// Has the threads end when there is nothing left to do.
    pub(crate) fn stop(&self) {
        self.reaper.stop();
        self.pump.stop();
        if let Some(committer) = &self.committer {
            committer.stop();
        }
    }

    /// Where staged steps go, if the device has such.
    pub(crate) const fn committer(&self) -> Option<&Arc<Committer>> {
        self.committer.as_ref()
    }

    pub(crate) const fn reaper(&self) -> &Arc<Work> {
        &self.reaper
    }

    /// The queue has something in flight. Not to be called again before it has been let go.
    pub(crate) fn watch(&self, member: Arc<dyn Member>) {
        self.reaper.push(member);
    }

    /// The queue may have something to launch.
    pub(crate) fn pump(&self, member: Arc<dyn Member>) {
        self.pump.push(member);
    }

    /// Where callbacks go. They have a thread of their own, since nobody knows how long they take.
    pub(crate) fn callbacks(&self) -> Result<mpsc::Sender<Callback>, Error> {
        let mut callbacks = lock(&self.callbacks);
        if let Some(sender) = &*callbacks {
            return Ok(sender.clone());
        }
        let (sender, receiver) = mpsc::channel::<Callback>();
        spawn("callbacks", move || {
            for callback in receiver {
                unless_it_panics("a callback", callback);
            }
        })?;
        *callbacks = Some(sender.clone());
        Ok(sender)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Not joined: the last handle may be dropped on one of these threads.
        self.stop();
    }
}

/// Starts a thread that belongs to the runtime.
pub(crate) fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let builder = thread::Builder::new().name(format!("xsched-{name}"));
    match builder.spawn(body) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Thread { name, source }),
    }
}

/// Code of users must not take the thread from others.
pub(crate) fn unless_it_panics<T>(what: &str, work: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    if result.is_none() {
        tracing::error!("{what} panicked");
    }
    result
}

pub(crate) const USERS: &str = "the destructor of a command, or a waker,";

fn pump(work: &Work) {
    let mut members = Vec::new();
    while pump_round(work, &mut members) {}
}

/// Waits for queues that have something to launch, and sees to them. False when there will never
/// be any again.
pub(crate) fn pump_round(work: &Work, members: &mut Vec<Arc<dyn Member>>) -> bool {
    let news = work.take(members, None);
    for member in members.drain(..) {
        unless_it_panics(USERS, || member.pump());
    }
    !news.end
}

fn reap(work: &Work) {
    let mut reaper = Reaper::default();
    while reaper.round(work) {}
}

/// What the reaper knows from one round to the next.
pub(crate) struct Reaper {
    members: Vec<Arc<dyn Member>>,
    rounds: u32,
    quiet_rounds: u32,
    rests: u32,
    nap: Duration,
}

impl Default for Reaper {
    fn default() -> Self {
        let nap = Duration::from_micros(NAP_US.0);
        Self { members: Vec::new(), rounds: 0, quiet_rounds: 0, rests: 0, nap }
    }
}

impl Reaper {
    /// Looks at all queues once, after a rest if there was nothing to see for a while. False when
    /// there will never be anything again.
    pub(crate) fn round(&mut self, work: &Work) -> bool {
        let spins = !self.members.is_empty() && self.quiet_rounds < SPIN_ROUNDS;
        if !mutant("lively while lying down") {
            work.lively.store(spins, Ordering::SeqCst);
        }
        let mut span = Duration::ZERO;
        if spins {
            (0..BREATHER).for_each(|_| std::hint::spin_loop());
        } else {
            self.rests = (self.rests + 1) % IDLE_RESTS;
            span = lie_down(&mut self.members, self.nap, self.rests == 0);
        }
        if mutant("lively while lying down") {
            work.lively.store(spins, Ordering::SeqCst);
        }
        let at_most = (!self.members.is_empty()).then_some(span);
        let news = work.take(&mut self.members, at_most);
        if news.end {
            return false;
        }
        self.rounds = self.rounds.wrapping_add(1);
        // A reaper that is kept awake by one queue must not forget the others.
        let all = !spins || self.rounds.is_multiple_of(SPIN_ROUNDS);
        let (mut progress, mut eager_progress) = (false, news.hurry);
        for member in &self.members {
            let eager = member.is_eager();
            // Others see to these: now and then is enough.
            if !all && !eager {
                continue;
            }
            let found = unless_it_panics(USERS, || member.reap()).unwrap_or(true);
            progress |= found;
            eager_progress |= found && eager;
        }
        self.quiet_rounds = if eager_progress { 0 } else { self.quiet_rounds.saturating_add(1) };
        if progress || news.hurry {
            self.nap = Duration::from_micros(NAP_US.0);
        } else if !spins {
            self.nap = (self.nap * 2).min(Duration::from_micros(NAP_US.1));
        }
        true
    }
}

/// Asks the devices to wake the reaper. Lets those queues go that need nobody; says how long the
/// others can be left alone.
fn lie_down(members: &mut Vec<Arc<dyn Member>>, nap: Duration, tired: bool) -> Duration {
    let mut span = REST;
    members.retain(|member| {
        let rest = unless_it_panics(USERS, || member.rest(nap, tired)).flatten();
        span = span.min(rest.unwrap_or(REST));
        rest.is_some()
    });
    span
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use xsched_core::id::{CmdId, EventRef};
    use xsched_core::message::{Order, Report};

    use super::*;
    use crate::hub::Admit;
    use crate::recorder::Tape;
    use crate::shared::Snapshot;

    /// A queue that always has a completion to take.
    #[derive(Default)]
    struct Endless {
        eager: bool,
        reaped: AtomicU32,
    }

    impl Member for Endless {
        fn take_report(&self) -> Option<Report> {
            None
        }
        fn deliver(&self, _: Order) -> Option<Arc<Committer>> {
            None
        }
        fn committed(&self, _: Option<Fault>) {}
        fn fail_open(&self) {}
        fn is_eager(&self) -> bool {
            self.eager
        }
        fn reap(&self) -> bool {
            self.reaped.fetch_add(1, Ordering::Relaxed);
            true
        }
        fn rest(&self, nap: Duration, _: bool) -> Option<Duration> {
            Some(nap)
        }
        fn pump(&self) {}
        fn snapshot(&self) -> Snapshot {
            unreachable!("nobody asks")
        }
        fn submit_wait(&self, _: EventRef, _: &mut Admit<'_>) -> Result<Option<CmdId>, Error> {
            Ok(None)
        }
        fn record(&self, _: Option<Tape>) {}
    }

    #[test]
    fn a_reaper_that_one_queue_keeps_awake_forgets_no_other() {
        let (work, mut reaper) = (Work::new(), Reaper::default());
        let busy = Arc::new(Endless { eager: true, ..Endless::default() });
        let other = Arc::new(Endless::default());
        work.push(Arc::clone(&busy) as _);
        work.push(Arc::clone(&other) as _);
        for _ in 0..10 * SPIN_ROUNDS {
            assert!(reaper.round(&work));
        }
        assert_eq!(busy.reaped.load(Ordering::Relaxed), 10 * SPIN_ROUNDS);
        assert!((9..=11).contains(&other.reaped.load(Ordering::Relaxed)));
    }
}
