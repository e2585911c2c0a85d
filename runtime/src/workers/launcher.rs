//! Threads that launch: one of a queue's own, where the queue has one, and those of the device that
//! launch for queues whose submitters go from one queue to another.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use xsched_core::id::QueueId;

use super::list::News;
use super::{DeviceQueue, QueueList, USERS, pump_round, spawn};
use crate::error::Error;
use crate::panics::contain;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
#[cfg(loom)]
use crate::sync::thread_local;

/// For how long the thread looks for a command before it sleeps: waking it costs a submitter more
/// than submitting does.
const SPIN: Duration = Duration::from_micros(50);

/// The thread that launches for one queue. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LauncherThread(Arc<QueueList>);

impl LauncherThread {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, Error> {
        let launcher = Self::new();
        let list = Arc::clone(&launcher.0);
        spawn("launcher", move || {
            let mut queues = Vec::new();
            while launcher_round(&list, &mut queues) {}
        })?;
        Ok(launcher)
    }

    /// Everything but the thread: models bring their own.
    pub(crate) fn new() -> Self {
        Self(QueueList::new())
    }

    #[cfg(all(test, loom))]
    pub(crate) const fn list(&self) -> &Arc<QueueList> {
        &self.0
    }

    /// The queue has something to launch.
    pub(crate) fn ask(&self, queue: Arc<dyn DeviceQueue>) {
        self.0.push(queue);
    }
}

impl Drop for LauncherThread {
    fn drop(&mut self) {
        // Not joined: the queue may be dropped on that thread.
        self.0.stop();
    }
}

/// Waits until the queue has something to launch, and launches it. False when it has gone.
pub(crate) fn launcher_round(list: &QueueList, queues: &mut Vec<Arc<dyn DeviceQueue>>) -> bool {
    spin_for_news(list);
    pump_round(list, queues)
}

/// Whether there is something to take, before or after a moment.
#[cfg(not(loom))]
fn spin_for_news(list: &QueueList) -> bool {
    let start = Instant::now();
    while !list.has_news() {
        if start.elapsed() >= SPIN {
            return false;
        }
        (0..16).for_each(|_| std::hint::spin_loop());
    }
    true
}

/// In models the thread is always taken to be awake: that only decides which thread launches.
#[cfg(loom)]
const fn spin_for_news(_: &QueueList) -> bool {
    true
}

#[cfg(not(loom))]
thread_local!(static LAST: Cell<Option<QueueId>> = const { Cell::new(None) });
#[cfg(loom)]
thread_local!(static LAST: Cell<Option<QueueId>> = Cell::new(None));

/// Notes that the calling thread submits to this queue. Says whether its submit before was to
/// another one.
#[inline]
pub(crate) fn turns_to(queue: QueueId) -> bool {
    LAST.try_with(|last| last.replace(Some(queue)) != Some(queue)).unwrap_or(false)
}

/// Makes the next submit of the calling thread one to another queue than the one before.
#[cfg(all(test, loom))]
pub(crate) fn forget_turn() {
    LAST.with(|last| last.set(None));
}

/// Commands that the shared thread could have launched, and that are left to submitters before it
/// is woken: at first, and at most. Waking it costs a submitter as much as a launch.
const PATIENCE: (u32, u32) = (16, 256);
/// The same where launches take next to nothing.
const PATIENCE_CHEAP: u32 = 4_096;
/// Commands after which the thread knows whether it is of use.
const TRIAL: u32 = 64;
/// A launch that takes less than this costs a submitter little more than the hand-over.
const WORTH: Duration = Duration::from_nanos(800);

/// A thread of the device that launches for several queues. It is started when it is first wanted.
///
/// Waking it and keeping it awake costs more than a few launches. So it is woken only for
/// submitters that go on and on from one queue to another, later if it was of no use the last time.
/// Once it is awake it takes what they submit, unless the device launches so fast that it does not
/// pay; while it sleeps they launch themselves.
#[derive(Debug)]
pub(crate) struct SharedLauncher {
    list: Arc<QueueList>,
    /// Whether the thread could be started.
    started: OnceLock<bool>,
    /// The thread is awake, and it pays to ask it.
    open: AtomicBool,
    /// Commands that were left to submitters since it slept.
    passed: AtomicU32,
    /// How many of them there are before it is woken.
    patience: AtomicU32,
    /// A submitter wanted the thread awake since it slept.
    on_trial: AtomicBool,
}

/// Who launches a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its submitter.
    Launch,
    /// Its submitter, which then wakes the shared thread.
    LaunchAndWake,
    /// The shared thread.
    HandOver,
}

/// What the thread has done since it woke.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    launched: u32,
    took: Duration,
}

impl Tally {
    fn add(&mut self, launched: u32, took: Duration) {
        if launched == 0 {
            return;
        }
        if self.launched > 64 * TRIAL {
            // What was long ago counts less.
            (self.launched, self.took) = (self.launched / 2, self.took / 2);
        }
        self.launched = self.launched.saturating_add(launched);
        self.took += took;
    }

    fn is_cheap(&self) -> bool {
        self.launched >= TRIAL && self.took < WORTH * self.launched
    }

    /// Whether the thread launched for longer than it spun for nothing.
    fn was_of_use(&self) -> bool {
        self.took > SPIN && !self.is_cheap()
    }
}

impl SharedLauncher {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            list: QueueList::new(),
            started: OnceLock::new(),
            open: AtomicBool::new(false),
            passed: AtomicU32::new(0),
            patience: AtomicU32::new(PATIENCE.0),
            on_trial: AtomicBool::new(false),
        })
    }

    /// The thread ends once it has nothing to do.
    pub(super) fn stop(&self) {
        self.list.stop();
    }

    /// Who is to launch a command of a submitter that has turned to another queue.
    #[inline]
    pub(crate) fn turn(&self) -> Turn {
        if self.open.load(Ordering::Relaxed) {
            return Turn::HandOver;
        }
        let passed = self.passed.load(Ordering::Relaxed);
        let due = passed >= self.patience.load(Ordering::Relaxed);
        // Of two threads that count at a time, one may not be counted.
        self.passed.store(if due { 0 } else { passed + 1 }, Ordering::Relaxed);
        if due { Turn::LaunchAndWake } else { Turn::Launch }
    }

    /// Has the thread look for commands, so that it takes them.
    #[cold]
    pub(crate) fn wake(self: &Arc<Self>) {
        self.on_trial.store(true, Ordering::Relaxed);
        if *self.started.get_or_init(|| self.start()) {
            self.list.notify();
        }
    }

    /// Something was handed over to the thread, which has been awake.
    pub(crate) fn ask(&self, queue: Arc<dyn DeviceQueue>) {
        self.list.push(queue);
    }

    /// For models, in which the thread is awake from the beginning.
    #[cfg(all(test, loom))]
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    /// For models in which the thread does not come.
    #[cfg(all(test, loom))]
    pub(crate) fn forget(&self) {
        self.list.forget();
    }

    fn start(self: &Arc<Self>) -> bool {
        let this = Arc::clone(self);
        let started = spawn("launcher", move || {
            let (mut queues, mut tally) = (Vec::new(), Tally::default());
            while this.round(&mut queues, &mut tally) {}
        });
        if let Err(error) = &started {
            tracing::warn!(%error, "submitters launch alone");
        }
        started.is_ok()
    }

    /// Waits until a queue has something to launch, and launches it. False when there will never be
    /// any again.
    pub(crate) fn round(&self, queues: &mut Vec<Arc<dyn DeviceQueue>>, tally: &mut Tally) -> bool {
        if !spin_for_news(&self.list) {
            self.rest(tally);
        }
        let News { end, .. } = self.list.take(queues, None);
        let (start, mut launched) = (Instant::now(), 0);
        for queue in queues.drain(..) {
            launched += contain(USERS, move || queue.launch_handed_over()).unwrap_or(0);
        }
        tally.add(launched, start.elapsed());
        self.open.store(!tally.is_cheap(), Ordering::Relaxed);
        !end
    }

    /// Before the thread sleeps.
    fn rest(&self, tally: &mut Tally) {
        let patience = self.patience.load(Ordering::Relaxed);
        if tally.is_cheap() {
            self.patience.store(PATIENCE_CHEAP, Ordering::Relaxed);
        } else if tally.was_of_use() {
            self.patience.store(PATIENCE.0, Ordering::Relaxed);
        } else if self.on_trial.load(Ordering::Relaxed) {
            self.patience.store((2 * patience).min(PATIENCE.1), Ordering::Relaxed);
        }
        self.on_trial.store(false, Ordering::Relaxed);
        self.open.store(false, Ordering::Relaxed);
        *tally = Tally::default();
    }
}
