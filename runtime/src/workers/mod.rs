//! The threads that serve the queues of one device: the reaper, which takes completions that no
//! thread waits for; the pump, which launches what could not be launched when it was submitted; the
//! committer, where steps are staged; and once there are any, the thread that runs callbacks. A
//! queue may have a pump of its own.

mod alarm;
mod commit;
mod list;
mod pump;
mod reaper;

use std::sync::Arc;
use std::time::Duration;

use xsched_core::fault::Fault;

use crate::activity::Activity;
use crate::error::Error;
use crate::panics::contain;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock, mpsc, thread};

pub(crate) use alarm::Alarm;
pub(crate) use commit::{Committer, commit_round};
pub(crate) use list::QueueList;
#[cfg(all(test, loom))]
pub(crate) use pump::own_pump_round;
pub(crate) use pump::{OwnPump, pump_round};
pub(crate) use reaper::Reaper;

/// Operations of a device's threads on a queue, whatever its commands are.
pub(crate) trait DeviceQueue: Send + Sync {
    /// Learns that the staged step has been committed, or has failed.
    fn committed(&self, fault: Option<Fault>);
    /// True if the queue needs its completions as soon as they are there. Takes no lock.
    fn is_eager(&self) -> bool;
    /// Takes completions; true if there were any.
    fn reap(&self) -> bool;
    /// Lets the queue end if it is closed and nothing is left to do. True if it has ended, so that
    /// the reaper can forget it. Takes no lock while it is open.
    fn leave(&self) -> bool;
    /// Asks the device to notify the reaper, unless a submitter is about to look anyway. Says how
    /// long the queue can be left alone, at least `poll_delay`; `None` if the reaper can forget it,
    /// as it has been idle since the last rest: it asks to be watched again.
    fn rest(&self, poll_delay: Duration) -> Option<Duration>;
    /// Launches what may be launched.
    fn pump(&self);
}

/// [`xsched_core::hal::Backend::commit`] of a device.
pub(crate) type Commit = Box<dyn FnMut() -> Result<(), Fault> + Send>;

/// Receives the activity of a device's queues.
pub(crate) type ActivityWatch = Box<dyn Fn(Activity) + Send + Sync>;

/// A callback with what it needs.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// The threads that serve the queues of one device. They end when the last queue has gone.
pub(crate) struct Workers {
    reaper: Arc<QueueList>,
    pump: Arc<QueueList>,
    /// Where the device has steps committed.
    committer: Option<Arc<Committer>>,
    callbacks: Mutex<Option<mpsc::Sender<Callback>>>,
    activity: std::sync::OnceLock<ActivityWatch>,
    /// A scheduler above holds all queues.
    held: AtomicBool,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts the threads, with a committer if the device stages steps.
    pub(crate) fn start(commit: Option<Commit>) -> Result<Self, Error> {
        let workers = Self::new(commit.is_some());
        if let (Some(committer), Some(mut commit)) = (workers.committer.clone(), commit) {
            spawn("commit", move || {
                let mut queues = Vec::new();
                while commit_round(&committer, &mut queues, &mut *commit) {}
            })?;
        }
        let list = Arc::clone(&workers.reaper);
        spawn("reaper", move || {
            let mut reaper = Reaper::default();
            // The last reference to a queue may go in a round, and with it the backend's halves.
            while contain(USER_CODE, || reaper.round(&list)).unwrap_or(true) {}
        })?;
        let list = Arc::clone(&workers.pump);
        spawn("pump", move || {
            let mut queues = Vec::new();
            while pump_round(&list, &mut queues) {}
        })?;
        Ok(workers)
    }

    /// Everything but the threads: models bring their own.
    pub(crate) fn new(commits: bool) -> Self {
        Self {
            reaper: QueueList::new(),
            pump: QueueList::new(),
            committer: commits.then(Arc::default),
            callbacks: Mutex::default(),
            activity: std::sync::OnceLock::new(),
            held: AtomicBool::new(false),
        }
    }

    /// Tells what the queues do. False if something is told already.
    pub(crate) fn watch_activity(&self, watch: ActivityWatch) -> bool {
        self.activity.set(watch).is_ok()
    }

    /// A scheduler above holds all queues from now on, or none. True if that is a change.
    pub(crate) fn set_held(&self, held: bool) -> bool {
        self.held.swap(held, Ordering::SeqCst) != held
    }

    /// True if a scheduler above holds all queues.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    /// A queue does something.
    pub(crate) fn note(&self, activity: Activity) {
        if let Some(watch) = self.activity.get() {
            watch(activity);
        }
    }

    #[cfg(all(test, loom))]
    pub(crate) const fn pump_list(&self) -> &Arc<QueueList> {
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

    pub(crate) const fn reaper(&self) -> &Arc<QueueList> {
        &self.reaper
    }

    /// Hands the queue to the reaper. Not to be called again before the reaper has let it go.
    pub(crate) fn watch(&self, queue: Arc<dyn DeviceQueue>) {
        self.reaper.push(queue);
    }

    /// The queue may have something to launch.
    pub(crate) fn pump(&self, queue: Arc<dyn DeviceQueue>) {
        self.pump.push(queue);
    }

    /// Where callbacks go. They have a thread of their own, since they may take any time.
    pub(crate) fn callbacks(&self) -> Result<mpsc::Sender<Callback>, Error> {
        let mut callbacks = lock(&self.callbacks);
        if let Some(sender) = &*callbacks {
            return Ok(sender.clone());
        }
        let (sender, receiver) = mpsc::channel::<Callback>();
        spawn("callbacks", move || {
            for callback in receiver {
                contain("a callback", callback);
            }
        })?;
        *callbacks = Some(sender.clone());
        Ok(sender)
    }
}

impl Drop for Workers {
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

/// Code of users that runs on these threads.
const USER_CODE: &str = "a waker, or the destructor of a command or of a hardware queue,";
