//! The threads of a device: the reaper, which takes completions that nobody waits for, and the
//! pump, which launches what could not be launched when it was submitted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::hub::{Member, lock};

/// Rounds without a completion for which the reaper stays awake.
const SPIN_ROUNDS: u32 = 64;
/// The reaper's naps between looks, in microseconds: the first, and the longest.
const NAP_US: (u64, u64) = (20, 500);
/// Naps after which a queue with nothing in flight is no longer looked at. It costs a wake-up to
/// come back, so a queue that is used again and again stays for a while.
const IDLE_NAPS: u32 = 8;

/// A list of queues that a thread must see to.
struct Work {
    queues: Mutex<Todo>,
    bell: Condvar,
}

#[derive(Default)]
struct Todo {
    members: Vec<Arc<dyn Member>>,
    /// Somebody sleeps until something happens.
    hurry: bool,
    stop: bool,
}

impl Work {
    fn new() -> Arc<Self> {
        Arc::new(Self { queues: Mutex::default(), bell: Condvar::new() })
    }

    fn push(&self, member: Arc<dyn Member>) {
        lock(&self.queues).members.push(member);
        self.bell.notify_one();
    }

    fn stop(&self) {
        lock(&self.queues).stop = true;
        self.bell.notify_one();
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
            todo = self.bell.wait_timeout(todo, span).unwrap_or_else(PoisonError::into_inner).0;
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

/// The threads that serve the queues of one device. They end when the last queue has gone.
pub(crate) struct Threads {
    reaper: Arc<Work>,
    pump: Arc<Work>,
    /// The reaper looks at its queues often just now.
    lively: Arc<AtomicBool>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    pub(crate) fn start() -> Result<Self, Error> {
        let threads = Self { reaper: Work::new(), pump: Work::new(), lively: Arc::default() };
        let (work, lively) = (Arc::clone(&threads.reaper), Arc::clone(&threads.lively));
        spawn("reaper", move || reap(&work, &lively))?;
        let work = Arc::clone(&threads.pump);
        spawn("pump", move || pump(&work))?;
        Ok(threads)
    }

    /// The queue has something in flight. Not to be called again before it has been let go.
    pub(crate) fn watch(&self, member: Arc<dyn Member>) {
        self.reaper.push(member);
    }

    /// The queue may have something to launch.
    pub(crate) fn pump(&self, member: Arc<dyn Member>) {
        self.pump.push(member);
    }

    /// Somebody sleeps until a completion: look at once.
    pub(crate) fn hurry(&self) {
        if !self.lively.load(Ordering::Relaxed) {
            lock(&self.reaper.queues).hurry = true;
            self.reaper.bell.notify_one();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Not joined: the last handle may be dropped on one of these threads.
        self.reaper.stop();
        self.pump.stop();
    }
}

/// Starts a thread that belongs to the runtime.
pub(crate) fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let builder = std::thread::Builder::new().name(format!("xsched-{name}"));
    match builder.spawn(body) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Thread { name, source }),
    }
}

/// The destructor of a command that panics, or a waker, must not take the thread from other queues.
fn unless_it_panics<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    if result.is_none() {
        tracing::error!("the destructor of a command, or a waker, panicked");
    }
    result
}

fn pump(work: &Work) {
    let mut members = Vec::new();
    while !work.take(&mut members, None).end {
        for member in members.drain(..) {
            unless_it_panics(|| member.pump());
        }
    }
}

fn reap(work: &Work, lively: &AtomicBool) {
    let mut members: Vec<Arc<dyn Member>> = Vec::new();
    let (mut quiet_rounds, mut idle_naps) = (0u32, 0u32);
    let mut nap = Duration::from_micros(NAP_US.0);
    loop {
        let rest = match (members.is_empty(), quiet_rounds < SPIN_ROUNDS) {
            (true, _) => None,
            (false, true) => Some(Duration::ZERO),
            (false, false) => Some(nap),
        };
        lively.store(rest == Some(Duration::ZERO), Ordering::Relaxed);
        let news = work.take(&mut members, rest);
        if news.end {
            return;
        }
        let mut progress = false;
        for member in &members {
            progress |= unless_it_panics(|| member.reap()).unwrap_or(true);
        }
        if progress || news.hurry {
            (quiet_rounds, idle_naps) = (0, 0);
            nap = Duration::from_micros(NAP_US.0);
            continue;
        }
        quiet_rounds = quiet_rounds.saturating_add(1);
        if quiet_rounds > SPIN_ROUNDS {
            nap = (nap * 2).min(Duration::from_micros(NAP_US.1));
            idle_naps += 1;
        }
        if idle_naps > IDLE_NAPS {
            members.retain(|member| unless_it_panics(|| member.stays_watched()).unwrap_or(false));
            idle_naps = 0;
        }
    }
}
