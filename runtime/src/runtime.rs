//! The runtime, its devices, and making queues.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use xsched_core::cost::CostModel;
use xsched_core::hal::{Backend, HalError, Retire, Steps, Submit};
use xsched_core::hint::{Hints, PolicyHint};
use xsched_core::id::{DeviceId, ProcessId};
use xsched_core::level::{Caps, Level};
use xsched_core::policy::Policy;
use xsched_core::queue::{Queue, QueueConfig};
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Attach, Heap, LevelChoice, Scheduler};
use xsched_core::window::WindowConfig;

use crate::device::{Commit, Threads};
use crate::error::Error;
use crate::hub::{Hub, lock};
use crate::policy::Guest;
use crate::queue::XQueue;
use crate::recorder::Recording;
use crate::shared::{Parts, Shared};
use crate::sync::{Mutex, mpsc};

/// Sets a [`Runtime`] up.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeConfig {
    /// Queues that there can be at a time.
    pub queues: usize,
    /// Devices that there can be over the runtime's life, at most 65,535.
    pub devices: u16,
    /// Waits between queues that can be open at a time.
    pub waits: usize,
    /// How long the scheduler may take for one round before its holds are ended. At least 1 ms.
    pub lease: Duration,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self { queues: 1_024, devices: 16, waits: 1_024, lease: Duration::from_millis(100) }
    }
}

/// A scheduler and its queues. Clones share it. When the last handle, device and queue has been
/// dropped, its threads end.
#[derive(Clone, Debug)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    /// Tells runtimes apart.
    number: u32,
    hub: Arc<Hub>,
    devices: AtomicU16,
    max_devices: u16,
    follows_threads: AtomicBool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("hub", &self.hub).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Not joined: the last handle may be dropped in a policy or a command.
        self.hub.stop();
    }
}

impl Runtime {
    /// Starts a runtime with a policy, with defaults for everything else.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn new(policy: impl Policy + Send + 'static) -> Result<Self, Error> {
        Self::with_config(policy, RuntimeConfig::default())
    }

    /// Starts a runtime.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn with_config(
        policy: impl Policy + Send + 'static,
        config: RuntimeConfig,
    ) -> Result<Self, Error> {
        let (watchdog, end) = mpsc::channel();
        let hub = Arc::new(Hub::new(config.lease.max(Duration::from_millis(1)), watchdog));
        let storage = Heap::new(config.queues, usize::from(config.devices), config.waits);
        let guest = Guest::new(policy, &hub);
        let follows_threads = AtomicBool::new(guest.reads_cpu_priority());
        let brain = Recorded::new(Scheduler::new(guest, storage));
        crate::scheduler::start(&hub, brain, end)?;
        static RUNTIMES: AtomicU32 = AtomicU32::new(0);
        let inner = Inner {
            number: RUNTIMES.fetch_add(1, Ordering::Relaxed),
            hub,
            devices: AtomicU16::new(0),
            max_devices: config.devices,
            follows_threads,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Adds a device. Its queues are scheduled against each other.
    ///
    /// # Errors
    /// [`Error::Thread`], and [`Error::Scheduler`] if there are as many as configured.
    pub fn device<B: Backend + Send + 'static>(&self, backend: B) -> Result<Device<B>, Error> {
        let max = self.inner.max_devices;
        let taken = |n: u16| (n < max).then(|| n + 1);
        let id = self
            .inner
            .devices
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .map_err(|_| xsched_core::scheduler::SchedulerError::UnknownDevice)?;
        self.inner.hub.records.add_device(DeviceId(id), backend.info());
        if let Some(cost) = backend.cost() {
            self.inner.hub.send(move |now, brain| {
                if let Err(error) = brain.set_cost(now, DeviceId(id), cost) {
                    tracing::warn!(device = id, %error, "the costs of holds were not taken");
                }
            });
        }
        let stages = backend.stages();
        let backend = Arc::new(Mutex::new(backend));
        let committed = Arc::clone(&backend);
        let commit: Commit = Box::new(move || lock(&committed).commit().map_err(|e| e.kind()));
        Ok(Device {
            runtime: self.clone(),
            id: DeviceId(id),
            backend,
            threads: Arc::new(Threads::start(stages.then_some(commit))?),
        })
    }

    /// What holds cost on a device: what its backend says, corrected by how long interrupts and
    /// restores have taken. All zero if the backend says nothing and nothing was measured.
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`] and [`Error::SchedulerGone`].
    pub fn cost<B>(&self, device: &Device<B>) -> Result<CostModel, Error> {
        let id = device.id;
        self.inner.hub.ask(move |_, brain| brain.cost(id).unwrap_or_default())
    }

    /// Ends the scheduler's thread as a defect in it would, by a panic or by returning. For tests
    /// of what happens then.
    #[cfg(feature = "inject")]
    #[doc(hidden)]
    pub fn break_scheduler(&self, panics: bool) {
        self.inner.hub.break_scheduler(panics);
    }

    /// Puts another policy in charge, and waits until its first orders are carried out. Nothing
    /// drains; what the old policy held and the new one does not runs then.
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`], after which the policy may be in charge all the same, and
    /// [`Error::SchedulerGone`].
    pub fn set_policy(&self, policy: impl Policy + Send + 'static) -> Result<(), Error> {
        let guest = Guest::new(policy, &self.inner.hub);
        self.inner.follows_threads.store(guest.reads_cpu_priority(), Ordering::Relaxed);
        self.inner.hub.ask(move |now, brain| drop(brain.set_policy(now, guest)))?;
        self.inner.hub.settle()
    }

    /// Writes down what the scheduler is fed and what it orders, and what the queues do, until the
    /// recording is finished or dropped. `docs/record.md` describes the format. A recording that
    /// begins before the first queue is made can be replayed exactly. Nothing waits for `to`; if it
    /// is slow, entries are lost and counted.
    ///
    /// # Errors
    /// [`Error::AlreadyRecording`], [`Error::Thread`], [`Error::SchedulerSilent`] and
    /// [`Error::SchedulerGone`].
    pub fn record(&self, to: impl Write + Send + 'static) -> Result<Recording, Error> {
        Recording::start(&self.inner.hub, to)
    }

    /// How often all holds were ended because the scheduler could not be trusted: its policy
    /// panicked, or it was silent past its lease.
    #[must_use]
    pub fn times_failed_open(&self) -> u64 {
        self.inner.hub.times_failed_open()
    }

    /// Whether the scheduler still works. If not, queues run unscheduled.
    #[must_use]
    pub fn is_scheduling(&self) -> bool {
        !self.inner.hub.is_gone()
    }

    /// Sets something of the policy as a whole: a timeslice, say. False if the policy in charge has
    /// no such setting.
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`] and [`Error::SchedulerGone`].
    pub fn hint_policy(&self, hint: PolicyHint) -> Result<bool, Error> {
        self.inner.hub.ask(move |now, brain| brain.hint_policy(now, hint))
    }

    /// Whether the policy in charge wants to know the priorities of submitting threads.
    pub(crate) fn follows_threads(&self) -> bool {
        self.inner.follows_threads.load(Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u32 {
        self.inner.number
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }
}

/// How an XQueue is made.
#[derive(Clone, Copy, Debug)]
pub struct XQueueConfig {
    /// What the policy should know: priority, share, deadline.
    pub hints: Hints,
    /// The deepest hold to use, at most what the device can do.
    pub level: Level,
    /// In-flight threshold and batch.
    pub window: WindowConfig,
    /// Commands that may be submitted and not retired, at least 1.
    pub capacity: usize,
    /// Each hold is at the level that its predicted cost suggests, up to `level`, and not always
    /// just there. That takes a backend that says what holds cost.
    pub by_cost: bool,
    /// The process that the queue counts for, in policies that group by process.
    pub process: ProcessId,
}

impl XQueueConfig {
    /// How the level of a hold is chosen, with this as the deepest, once it is known what the queue
    /// can do: what it cannot has no cost to go by.
    pub(crate) fn choice(&self, level: Level, caps: Option<Caps>) -> LevelChoice {
        if !self.by_cost {
            return LevelChoice::Exactly(level);
        }
        LevelChoice::UpTo(caps.map_or(level, |caps| level.min(caps.level)))
    }
}

impl Default for XQueueConfig {
    fn default() -> Self {
        Self {
            hints: Hints::default(),
            level: Level::Interrupt,
            window: WindowConfig::default(),
            capacity: 1_024,
            by_cost: false,
            process: ProcessId(std::process::id()),
        }
    }
}

/// A device of a runtime. Clones share it.
pub struct Device<B> {
    runtime: Runtime,
    id: DeviceId,
    backend: Arc<Mutex<B>>,
    threads: Arc<Threads>,
}

impl<B> Clone for Device<B> {
    fn clone(&self) -> Self {
        Self {
            runtime: self.runtime.clone(),
            id: self.id,
            backend: Arc::clone(&self.backend),
            threads: Arc::clone(&self.threads),
        }
    }
}

impl<B> fmt::Debug for Device<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What the commands of a backend are.
pub type CommandOf<B> = <<B as Backend>::Submit as Submit>::Payload;

impl<B> Device<B>
where
    B: Backend<
            Submit: Submit<Payload: Sized + Send> + Send + 'static,
            Retire: Retire + Send + 'static,
            Preempt: Steps + Send + 'static,
        >,
{
    /// Makes an XQueue on a new hardware queue.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::Open`], [`Error::Scheduler`] when there are as many queues
    /// as configured, [`Error::SchedulerSilent`] and [`Error::SchedulerGone`].
    pub fn queue(
        &self,
        config: XQueueConfig,
        hardware: B::Config,
    ) -> Result<XQueue<CommandOf<B>>, Error> {
        if config.capacity == 0 {
            return Err(Error::NoCapacity);
        }
        let hub = self.runtime.hub();
        let attach = Attach {
            device: self.id,
            process: config.process,
            hints: config.hints,
            level: config.choice(config.level, None),
            threshold: config.window.threshold,
            ..Attach::default()
        };
        let id = hub.ask(move |now, brain| brain.attach(now, attach))??;
        let opened = lock(&self.backend).open(id, hardware);
        let halves = opened.map_err(|e| {
            hub.detach(id);
            Error::Open(format!("{e:?}"))
        })?;
        if config.by_cost {
            let choice = config.choice(config.level, Some(halves.caps));
            hub.send(move |now, brain| {
                if let Err(error) = brain.set_level(now, id, choice) {
                    tracing::warn!(queue = id.index(), %error, "the level was not taken");
                }
            });
        }
        let machine_config =
            QueueConfig { window: config.window, level: config.level, ..QueueConfig::default() };
        let slots = vec![Default::default(); config.capacity].into_boxed_slice();
        let shared = Shared::new(Parts {
            id,
            caps: halves.caps,
            machine: Queue::new(slots, machine_config, halves.caps),
            submit: halves.submit,
            retire: halves.retire,
            preempt: halves.preempt,
            hub: Arc::clone(hub),
            threads: Arc::clone(&self.threads),
            capacity: config.capacity,
        });
        hub.register(id, Arc::clone(&shared) as _);
        // The round that knows the queue has ended when this is answered, so its first command
        // cannot slip past the policy.
        if let Err(error) = hub.settle() {
            hub.detach(id);
            return Err(error);
        }
        Ok(XQueue::new(shared, self.runtime.clone(), config))
    }
}
