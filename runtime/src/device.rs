//! Devices of a runtime, and making queues on them.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use xsched_core::cost::CostModel;
use xsched_core::hal::{Backend, HalError, Halves, Retire, Steps, Submit};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::queue::QueueConfig;
use xsched_core::scheduler::{Attach, SchedulerError};

use crate::activity::Activity;
use crate::error::Error;
use crate::queue::{MachineParams, QueueParams, SharedQueue, XQueue, XQueueConfig};
use crate::runtime::Runtime;
use crate::scheduler::{ScheduledQueue, SchedulerHandle};
use crate::stats::Label;
use crate::sync::{Mutex, lock};
use crate::workers::{ActivityWatch, Commit, OwnPump, Workers};

/// A device of a runtime. Clones share it.
///
/// Its queues are scheduled against each other.
///
/// ```
/// use xsched::hal::{NoMoreQueues, Noop, NoopQueue};
/// use xsched::prelude::*;
///
/// static HARDWARE: [NoopQueue; 2] = [const { NoopQueue::new() }; 2];
/// let runtime = Runtime::new(Hpf::default())?;
/// let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// let background = device.queue(XQueueConfig::default(), ())?;
/// let urgent = device.queue(XQueueConfig::default().with_priority(Priority::MAX), ())?;
/// // This device has two hardware queues, and each XQueue needs one.
/// let refused = device.queue(XQueueConfig::default(), ());
/// assert!(matches!(refused, Err(Error::Open(source)) if source.is::<NoMoreQueues>()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Device<B> {
    runtime: Runtime,
    id: DeviceId,
    /// The backend's name and the device's number.
    name: Arc<str>,
    backend: Arc<Mutex<B>>,
    workers: Arc<Workers>,
}

impl<B> Clone for Device<B> {
    fn clone(&self) -> Self {
        Self {
            runtime: self.runtime.clone(),
            id: self.id,
            name: Arc::clone(&self.name),
            backend: Arc::clone(&self.backend),
            workers: Arc::clone(&self.workers),
        }
    }
}

impl<B> fmt::Debug for Device<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Type of a backend's commands.
pub type CommandOf<B> = <<B as Backend>::Submit as Submit>::Payload;

impl Runtime {
    /// Adds a device. Its queues are scheduled against each other.
    ///
    /// # Errors
    /// [`Error::Thread`], and [`Error::Scheduler`] if there are as many as configured.
    pub fn device<B: Backend + Send + 'static>(&self, backend: B) -> Result<Device<B>, Error> {
        let id = self.next_device().ok_or(SchedulerError::UnknownDevice)?;
        let info = backend.info();
        let name = format!("{}-{}", info.name, id.0).into();
        self.scheduler().record.add_device(id, info);
        if let Some(cost) = backend.cost() {
            self.scheduler().send(move |now, scheduler| {
                if let Err(error) = scheduler.set_cost(now, id, cost) {
                    tracing::warn!(device = id.0, %error, "the costs of holds were not taken");
                }
            });
        }
        let stages = backend.stages();
        let backend = Arc::new(Mutex::new(backend));
        let committed = Arc::clone(&backend);
        let commit: Commit = Box::new(move || lock(&committed).commit().map_err(|e| e.kind()));
        let workers = Arc::new(Workers::start(stages.then_some(commit))?);
        Ok(Device { runtime: self.clone(), id, name, backend, workers })
    }

    /// Costs of holds on a device: those that its backend says, corrected by how long interrupts
    /// and restores have taken. All zero if the backend says nothing and nothing was measured.
    ///
    /// # Errors
    /// [`Error::OtherRuntime`] if the device is not this runtime's, [`Error::SchedulerSilent`] and
    /// [`Error::SchedulerGone`].
    pub fn cost<B>(&self, device: &Device<B>) -> Result<CostModel, Error> {
        if device.runtime.number() != self.number() {
            return Err(Error::OtherRuntime);
        }
        let id = device.id;
        self.scheduler().ask(move |_, scheduler| scheduler.cost(id).unwrap_or_default())
    }
}

impl<B> Device<B> {
    /// Has a function called with what the queues of this device do. For a scheduler above this
    /// one, which wants to know when the process is active, and how much of the device it used.
    /// Before the first queue is made.
    ///
    /// The function is called with a queue locked: it must neither block, nor use the runtime, nor
    /// panic. False if there was one before, which stays.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    ///
    /// use xsched::Activity;
    /// use xsched::hal::{Noop, NoopQueue};
    /// use xsched::prelude::*;
    ///
    /// static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// let runtime = Runtime::new(Hpf::default())?;
    /// let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// let retired = Arc::new(AtomicU64::new(0));
    /// let seen = Arc::clone(&retired);
    /// device.watch(move |activity| {
    ///     if let Activity::Retired { commands, .. } = activity {
    ///         seen.fetch_add(commands, SeqCst);
    ///     }
    /// });
    /// let queue = device.queue(XQueueConfig::default(), ())?;
    /// let ticket = queue.submit(7)?;
    /// queue.wait(ticket)?;
    /// assert_eq!(retired.load(SeqCst), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(&self, watch: impl Fn(Activity) + Send + Sync + 'static) -> bool {
        self.workers.watch_activity(Box::new(watch))
    }

    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) const fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }
}

/// A place in the scheduler's table. Dropped, it is given back.
struct Place<'a> {
    scheduler: &'a SchedulerHandle,
    id: QueueId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.scheduler.detach(self.id);
    }
}

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
    /// [`Error::NoCapacity`], [`Error::TooMuchCapacity`], [`Error::Open`], [`Error::Thread`],
    /// [`Error::Scheduler`] when there are as many queues as configured, [`Error::SchedulerSilent`]
    /// and [`Error::SchedulerGone`]. After an error nothing is left of the queue.
    pub fn queue(
        &self,
        config: XQueueConfig,
        hardware: B::Config,
    ) -> Result<XQueue<CommandOf<B>>, Error> {
        self.queue_with(config, hardware, None)
    }

    /// Makes an XQueue as [`Device::queue`] does, which tells a function of its own what it does
    /// instead of that of [`Device::watch`]: for a scheduler above that holds it apart from the
    /// device's other queues. The function must do as that one.
    ///
    /// # Errors
    /// As [`Device::queue`].
    pub fn queue_watched(
        &self,
        config: XQueueConfig,
        hardware: B::Config,
        watch: impl Fn(Activity) + Send + Sync + 'static,
    ) -> Result<XQueue<CommandOf<B>>, Error> {
        self.queue_with(config, hardware, Some(Box::new(watch)))
    }

    fn queue_with(
        &self,
        config: XQueueConfig,
        hardware: B::Config,
        watch: Option<ActivityWatch>,
    ) -> Result<XQueue<CommandOf<B>>, Error> {
        let most = XQueueConfig::CAPACITY_MAX;
        match config.capacity {
            0 => return Err(Error::NoCapacity),
            asked if asked > most => return Err(Error::TooMuchCapacity { asked, most }),
            _ => {}
        }
        let scheduler = &**self.runtime.scheduler();
        let place = Place { scheduler, id: self.attach(&config)? };
        let opened = lock(&self.backend).open(place.id, hardware);
        let halves = opened.map_err(|e| Error::Open(Box::new(e)))?;
        let caps = halves.caps;
        if config.by_cost {
            let (id, choice) = (place.id, config.choice(config.level, Some(caps)));
            scheduler.send(move |now, scheduler| {
                if let Err(error) = scheduler.set_level(now, id, choice) {
                    tracing::warn!(queue = id.index(), %error, "the level was not taken");
                }
            });
        }
        let own_pump = config.launcher_thread.then(OwnPump::start).transpose()?;
        let shared = self.share(&config, place.id, halves, own_pump, watch);
        if !scheduler.register(place.id, Arc::clone(&shared) as _) {
            return Err(Error::SchedulerGone);
        }
        if self.workers.is_held() {
            shared.follow_device();
        }
        // The round that knows the queue has ended when this is answered, so its first command
        // cannot slip past the policy.
        scheduler.settle()?;
        shared.note(Activity::Opened { caps });
        // The queue gives it back at its end.
        std::mem::forget(place);
        Ok(XQueue::new(shared, self.runtime.clone(), config))
    }

    /// Takes a place in the scheduler's table. If there is none, or if many queues were dropped and
    /// have nothing left to do, waits for those, at most as long as the scheduler may take to
    /// answer.
    fn attach(&self, config: &XQueueConfig) -> Result<QueueId, Error> {
        let scheduler = self.runtime.scheduler();
        let deadline = Instant::now().checked_add(scheduler.lease.saturating_mul(2));
        scheduler.let_queues_leave(deadline);
        loop {
            let before = scheduler.departures();
            match self.try_attach(config) {
                Err(Error::Scheduler(SchedulerError::TableFull))
                    if scheduler.wait_for_departure(before, deadline) => {}
                result => return result,
            }
        }
    }

    /// Takes a place in the scheduler's table. One that comes too late is given back.
    fn try_attach(&self, config: &XQueueConfig) -> Result<QueueId, Error> {
        let attach = Attach {
            device: self.id,
            process: config.process,
            hints: config.hints,
            level: config.choice(config.level, None),
            threshold: config.window.threshold,
            ..Attach::default()
        };
        let attached = self.runtime.scheduler().ask_or_undo(
            move |now, scheduler| scheduler.attach(now, attach),
            |now, scheduler, late| {
                if let Ok(id) = late
                    && let Err(error) = scheduler.detach(now, id)
                {
                    tracing::warn!(queue = id.index(), %error, "a queue was not detached");
                }
            },
        );
        Ok(attached??)
    }

    fn share(
        &self,
        config: &XQueueConfig,
        id: QueueId,
        halves: Halves<B::Submit, B::Retire, B::Preempt>,
        own_pump: Option<OwnPump>,
        watch: Option<ActivityWatch>,
    ) -> Arc<SharedQueue<B::Submit, B::Retire, B::Preempt>> {
        let (window, level) = (config.window, config.level);
        SharedQueue::new(QueueParams {
            id,
            label: Label { name: config.name.clone(), device: Arc::clone(&self.name) },
            machine: MachineParams {
                config: QueueConfig { window, level, ..QueueConfig::default() },
                caps: halves.caps,
                capacity: config.capacity,
            },
            submit: halves.submit,
            retire: halves.retire,
            preempt: halves.preempt,
            scheduler: Arc::clone(self.runtime.scheduler()),
            workers: Arc::clone(&self.workers),
            watch,
            own_pump,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use xsched_core::fault::Fault;
    use xsched_core::hal::{Noop, NoopQueue};
    use xsched_core::hint::Hints;
    use xsched_core::level::Level;
    use xsched_core::policy::{Changed, Decisions, Event, Policy, Urgency, Verdict};
    use xsched_core::scheduler::QueueTable;
    use xsched_core::time::Instant;

    use super::*;
    use crate::error::WaitError;

    /// Holds every queue, and hangs while it is told to.
    struct HoldAll(Arc<AtomicBool>);

    impl Policy for HoldAll {
        fn name(&self) -> &'static str {
            "hold all"
        }

        fn observe(&mut self, _: Instant, _: QueueId, _: Event, _: &QueueTable<'_>) {
            while self.0.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }

        fn decide(
            &mut self,
            _: Instant,
            _: Changed<'_>,
            queues: &QueueTable<'_>,
            out: &mut Decisions<'_>,
        ) {
            for queue in queues.iter() {
                out.set(queue.id, Verdict::Hold(Urgency::NOW));
            }
        }
    }

    type Bench = (Arc<AtomicBool>, Runtime, Device<Noop<'static, u64>>);

    fn bench() -> Bench {
        let hang = Arc::new(AtomicBool::new(false));
        let runtime = Runtime::new(HoldAll(Arc::clone(&hang))).unwrap();
        // A hardware queue is used once.
        let hardware: &'static [NoopQueue] = Box::leak(Box::new([const { NoopQueue::new() }; 4]));
        let device = runtime.device(Noop::new(hardware)).unwrap();
        (hang, runtime, device)
    }

    #[test]
    fn without_a_scheduler_queues_run_and_waits_for_other_queues_fail() {
        for panics in [true, false] {
            let (_, runtime, device) = bench();
            let held = device.queue(XQueueConfig::default(), ()).unwrap();
            let suspended = device.queue(XQueueConfig::default(), ()).unwrap();
            suspended.suspend(Level::Block);
            held.flush().unwrap();
            let first = suspended.submit(0).unwrap();
            let waits = held.enqueue_wait(first).unwrap().unwrap();
            let last = held.submit(0).unwrap();
            let moment = Duration::from_millis(5);
            assert_eq!(held.wait_timeout(last, moment), Err(WaitError::Timeout));
            runtime.break_scheduler(panics);
            assert_eq!(held.wait(last), Ok(()));
            assert_eq!(held.wait(waits), Err(WaitError::Failed(Fault::Abandoned)));
            assert_eq!(suspended.wait_timeout(first, moment), Err(WaitError::Timeout));
            assert!(!runtime.is_scheduling());
            assert!(runtime.times_failed_open() > 0);
            let refused = device.queue(XQueueConfig::default(), ());
            assert!(matches!(refused, Err(Error::SchedulerGone)));
            let refused = runtime.set_policy(HoldAll(Arc::default()));
            assert!(matches!(refused, Err(Error::SchedulerGone)));
            assert!(matches!(held.enqueue_wait(first), Err(Error::SchedulerGone)));
            suspended.resume();
            assert_eq!(suspended.wait(first), Ok(()));
        }
    }

    #[test]
    fn a_queue_with_a_watch_of_its_own_tells_that_alone() {
        use std::sync::Mutex;
        let hardware: &'static [NoopQueue] = Box::leak(Box::new([const { NoopQueue::new() }; 2]));
        let runtime = Runtime::new(xsched_policies::fcfs::Fcfs).unwrap();
        let device = runtime.device(Noop::<u64>::new(hardware)).unwrap();
        let told = [0; 2].map(|_| Arc::new(Mutex::new(Vec::new())));
        let [of_device, of_queue] = [0, 1].map(|at| {
            let told = Arc::clone(&told[at]);
            move |activity| told.lock().unwrap().push(activity)
        });
        assert!(device.watch(of_device));
        let other = device.queue(XQueueConfig::default(), ()).unwrap();
        let queue = device.queue_watched(XQueueConfig::default(), (), of_queue).unwrap();
        queue.wait(queue.submit(0).unwrap()).unwrap();
        other.wait_all();
        let [of_device, of_queue] = told.map(|told| std::mem::take(&mut *told.lock().unwrap()));
        assert!(matches!(of_device[..], [Activity::Opened { .. }]), "{of_device:?}");
        assert!(of_queue.contains(&Activity::Begun), "{of_queue:?}");
        let busy = xsched_core::time::Duration::ZERO;
        assert!(of_queue.contains(&Activity::Retired { commands: 1, busy }), "{of_queue:?}");
    }

    #[test]
    fn changes_of_settings_merge_in_the_mailbox() {
        let (hang, runtime, device) = bench();
        let queue = device.queue(XQueueConfig::default(), ()).unwrap();
        queue.flush().unwrap();
        hang.store(true, Ordering::Relaxed);
        for priority in 0..10_000 {
            let priority = xsched_core::hint::Priority::new(priority % 10).unwrap();
            queue.set_hints(Hints::with_priority(priority));
            queue.set_level(Level::Block);
        }
        let waiting = runtime.scheduler().requests();
        hang.store(false, Ordering::Relaxed);
        assert!(waiting <= 1, "{waiting} requests wait");
        queue.flush().unwrap();
        let id = queue.api().id();
        let known = runtime
            .scheduler()
            .ask(move |_, scheduler| scheduler.table().get(id).map(|queue| queue.hints));
        let last = xsched_core::hint::Priority::new(9).unwrap();
        assert_eq!(known.unwrap().unwrap().priority, last);
    }
}
