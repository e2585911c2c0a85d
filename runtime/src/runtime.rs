//! The runtime: a scheduler with its threads.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use xsched_core::hint::{HintKind, PolicyHint};
use xsched_core::id::DeviceId;
use xsched_core::policy::Policy;
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Heap, Scheduler};

use crate::error::Error;
use crate::scheduler::{IsolatedPolicy, Recording, SchedulerHandle};
use crate::sync::mpsc;

/// Sets a [`Runtime`] up.
///
/// ```
/// use std::time::Duration;
///
/// use xsched::prelude::*;
///
/// let config = RuntimeConfig::default().with_queues(64).with_lease(Duration::from_millis(20));
/// assert_eq!(config.devices, 16);
/// let runtime = Runtime::with_config(Hpf::default(), config)?;
/// # Ok::<(), xsched::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// Queues that there can be at a time.
    pub queues: usize,
    /// Devices that there can be over the runtime's life, at most 65,535.
    pub devices: u16,
    /// Waits between queues that can be open at a time.
    pub waits: usize,
    /// How long the scheduler may take for one round before its holds are ended. At least 1 ms.
    pub lease: Duration,
    /// True if a policy of the user's is called on threads that submit and wait: for one that never
    /// blocks and that decides in microseconds. Such a policy saves them the time that waking the
    /// scheduler's thread takes, some 15 µs, but if it hangs, so do they, past the lease. Policies
    /// of [`crate::policies`] are trusted anyway.
    pub trusts_policy: bool,
}

impl RuntimeConfig {
    /// Sets how many [queues](Self::queues) there can be at a time.
    #[must_use]
    pub const fn with_queues(mut self, queues: usize) -> Self {
        self.queues = queues;
        self
    }

    /// Sets how many [devices](Self::devices) there can be.
    #[must_use]
    pub const fn with_devices(mut self, devices: u16) -> Self {
        self.devices = devices;
        self
    }

    /// Sets how many [waits](Self::waits) between queues can be open at a time.
    #[must_use]
    pub const fn with_waits(mut self, waits: usize) -> Self {
        self.waits = waits;
        self
    }

    /// Sets the [lease](Self::lease), the longest time for one round of the scheduler.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets whether a policy of the user's is [trusted](Self::trusts_policy).
    #[must_use]
    pub const fn with_trusts_policy(mut self, trusts: bool) -> Self {
        self.trusts_policy = trusts;
        self
    }
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            queues: 1_024,
            devices: 16,
            waits: 1_024,
            lease: Duration::from_millis(100),
            trusts_policy: false,
        }
    }
}

/// A scheduler and its queues. Clones share it. When the last handle, device and queue has been
/// dropped, its threads end. Dropping waits for nothing: [`Runtime::shutdown`] does.
#[derive(Clone, Debug)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    /// Tells runtimes apart.
    number: u32,
    scheduler: Arc<SchedulerHandle>,
    devices: AtomicU16,
    max_devices: u16,
    follows_threads: AtomicBool,
    trusts_policy: bool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Not joined: the last handle may be dropped in a policy or a command.
        self.scheduler.stop();
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
        let handle =
            Arc::new(SchedulerHandle::new(config.lease.max(Duration::from_millis(1)), watchdog));
        let storage = Heap::new(config.queues, usize::from(config.devices), config.waits);
        let trusted = config.trusts_policy;
        let policy = IsolatedPolicy::new(policy, Arc::clone(&handle) as _, trusted);
        let follows_threads = AtomicBool::new(reads_cpu_priority(&policy));
        let scheduler = Recorded::new(Scheduler::new(policy, storage));
        crate::scheduler::start(&handle, scheduler, end)?;
        static RUNTIMES: AtomicU32 = AtomicU32::new(0);
        let inner = Inner {
            number: RUNTIMES.fetch_add(1, Ordering::Relaxed),
            scheduler: handle,
            devices: AtomicU16::new(0),
            max_devices: config.devices,
            follows_threads,
            trusts_policy: config.trusts_policy,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Ends the scheduler's thread as a defect in it would, by a panic or by returning. For tests
    /// of what happens then.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn break_scheduler(&self, panics: bool) {
        self.inner.scheduler.break_scheduler(panics);
    }

    /// Puts another policy in charge, and waits until its first orders are carried out. Nothing
    /// drains; what the old policy held and the new one does not runs then.
    ///
    /// ```
    /// use xsched::policies::wfq::Wfq;
    /// use xsched::prelude::*;
    ///
    /// let runtime = Runtime::new(Hpf::default())?;
    /// runtime.set_policy(Wfq::default())?;
    /// // By its name, say from the command line:
    /// runtime.set_policy("edf".parse::<Any>()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`], after which the policy may be in charge all the same, and
    /// [`Error::SchedulerGone`].
    pub fn set_policy(&self, policy: impl Policy + Send + 'static) -> Result<(), Error> {
        let failures = Arc::clone(&self.inner.scheduler) as _;
        let policy = IsolatedPolicy::new(policy, failures, self.inner.trusts_policy);
        let (name, follows_threads) = (policy.name(), reads_cpu_priority(&policy));
        let old = self.inner.scheduler.ask_or_undo(
            move |now, scheduler| scheduler.set_policy(now, policy),
            |now, scheduler, old| drop(scheduler.set_policy(now, old)),
        )?;
        self.inner.follows_threads.store(follows_threads, Ordering::Relaxed);
        self.inner.scheduler.set_policy_name(name);
        // Here, since its destructor may take its time.
        drop(old);
        self.inner.scheduler.settle()
    }

    /// True if the policy in charge [may hold](xsched_core::policy::MayHold) a queue, as far as it
    /// has said, one of the highest priority that is not `NO_EXECUTE` if `is_first`. One that it
    /// may not needs no gates, unless something else holds it. Two loads.
    #[must_use]
    pub fn policy_holds(&self, is_first: bool) -> bool {
        self.inner.scheduler.policy_holds(is_first)
    }

    /// Writes down what the scheduler is fed and what it orders, and what the queues do, until the
    /// recording is finished or dropped. [`record`](xsched_core::record) describes the format. A
    /// recording that begins before the first queue is made can be replayed exactly. Nothing waits
    /// for `to`; if it is slow, entries are lost and counted. [`Recording`] has an example.
    ///
    /// # Errors
    /// [`Error::AlreadyRecording`], [`Error::Thread`], [`Error::SchedulerSilent`] and
    /// [`Error::SchedulerGone`].
    pub fn record(&self, to: impl Write + Send + 'static) -> Result<Recording, Error> {
        Recording::start(&self.inner.scheduler, to)
    }

    /// How often all holds were ended because the scheduler could not be trusted: its policy
    /// panicked, or it was silent past its lease.
    #[must_use]
    pub fn times_failed_open(&self) -> u64 {
        self.inner.scheduler.times_failed_open()
    }

    /// True if the scheduler still works. If not, queues run unscheduled.
    #[must_use]
    pub fn is_scheduling(&self) -> bool {
        !self.inner.scheduler.is_gone()
    }

    /// Sets something of the policy as a whole: a timeslice, say. False if the policy in charge has
    /// no such setting.
    ///
    /// # Errors
    /// [`Error::SchedulerSilent`] and [`Error::SchedulerGone`].
    pub fn hint_policy(&self, hint: PolicyHint) -> Result<bool, Error> {
        self.inner.scheduler.ask(move |now, scheduler| scheduler.hint_policy(now, hint))
    }

    /// The number of a new device.
    pub(crate) fn next_device(&self) -> Option<DeviceId> {
        let max = self.inner.max_devices;
        let taken = |n: u16| (n < max).then(|| n + 1);
        let devices = &self.inner.devices;
        devices.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok().map(DeviceId)
    }

    /// True if the policy in charge wants to know the priorities of submitting threads.
    pub(crate) fn follows_threads(&self) -> bool {
        self.inner.follows_threads.load(Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u32 {
        self.inner.number
    }

    pub(crate) fn scheduler(&self) -> &Arc<SchedulerHandle> {
        &self.inner.scheduler
    }
}

/// Returns whether queues have to know the priorities of the threads that submit into them.
fn reads_cpu_priority(policy: &impl Policy) -> bool {
    policy.needs().hints.contains(HintKind::CpuPriority)
}
