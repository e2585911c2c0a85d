//! A table as a test says, and what a policy makes of it.

use xsched_core::hint::{Hints, PolicyHint};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, QueueTable, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};

/// Queues, devices and waits that there is room for.
const QUEUES_MAX: usize = 64;
const DEVICES_MAX: usize = 4;
/// Orders after one event. More are a policy that never settles.
const ORDERS_MAX: usize = 10_000;

/// A small queue table for unit tests of a policy: say which queues there are and what they are
/// doing, and see who is let run. It is a scheduler of its own, so the policy is told everything as
/// it would be in earnest, and queues obey at once.
///
/// Has room for 64 queues on 4 devices. Time starts at 0 and only goes on in [`Given::pass`].
///
/// ```
/// use xsched_core::hint::{Hints, Priority};
/// use xsched_core::time::Duration;
/// use xsched_policies::hpf::Hpf;
/// use xsched_policy_conformance::Given;
///
/// let mut given = Given::new(Hpf::default());
/// let low = given.queue(Hints::default())?;
/// let high = given.queue(Hints::with_priority(Priority::new(5)?))?;
/// given.ready(low)?;
/// assert_eq!(given.running(), [low, high], "no queue is in the way");
/// given.ready(high)?;
/// assert_eq!(given.running(), [high]);
/// given.idle(high)?;
/// assert_eq!(given.running(), [low, high]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Given<P> {
    scheduler: Scheduler<P, Heap>,
    reports: Vec<(QueueId, Report)>,
    now: Instant,
}

impl<P: Policy> Given<P> {
    /// An empty table.
    #[must_use]
    pub fn new(policy: P) -> Self {
        let storage = Heap::new(QUEUES_MAX, DEVICES_MAX, 0);
        let mut scheduler = Scheduler::new(policy, storage);
        // Its queues do not say what they retire.
        scheduler.hint_policy(PolicyHint::Stall(None));
        Self { scheduler, reports: Vec::new(), now: Instant::ZERO }
    }

    /// An idle queue on the first device.
    ///
    /// # Errors
    /// [`SchedulerError::TableFull`].
    pub fn queue(&mut self, hints: Hints) -> Result<QueueId, SchedulerError> {
        self.attach(Attach { hints, ..Attach::default() })
    }

    /// An idle queue on a device, 0 to 3.
    ///
    /// # Errors
    /// [`SchedulerError::TableFull`] and [`SchedulerError::UnknownDevice`].
    pub fn queue_on(&mut self, device: u16, hints: Hints) -> Result<QueueId, SchedulerError> {
        self.attach(Attach { device: DeviceId(device), hints, ..Attach::default() })
    }

    /// An idle queue with everything that a scheduler can know about a new one.
    ///
    /// # Errors
    /// [`SchedulerError::TableFull`] and [`SchedulerError::UnknownDevice`].
    pub fn attach(&mut self, attach: Attach) -> Result<QueueId, SchedulerError> {
        let queue = self.scheduler.attach(self.now, attach)?;
        self.reports.push((queue, Report::default()));
        Ok(queue)
    }

    /// The queue is gone.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn remove(&mut self, queue: QueueId) -> Result<(), SchedulerError> {
        self.reports.retain(|(id, _)| *id != queue);
        self.scheduler.detach(self.now, queue)
    }

    /// The queue has work, since now if it was idle.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn ready(&mut self, queue: QueueId) -> Result<(), SchedulerError> {
        let now = self.now;
        self.report(queue, |report| {
            if !report.pending() {
                report.ready_since = now;
            }
            report.submitted += 1;
        })
    }

    /// The queue has no work left.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn idle(&mut self, queue: QueueId) -> Result<(), SchedulerError> {
        self.report(queue, |r| (r.launched, r.retired) = (r.submitted, r.submitted))
    }

    /// The queue has used this much more device time, and says so.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn used(&mut self, queue: QueueId, busy: Duration) -> Result<(), SchedulerError> {
        self.report(queue, |report| report.busy += busy)
    }

    /// The user has other hints for the queue.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn hint(&mut self, queue: QueueId, hints: Hints) -> Result<(), SchedulerError> {
        self.scheduler.set_hints(self.now, queue, hints)
    }

    /// The user has a hint for the policy. False if it has no use for it.
    pub fn configure(&mut self, hint: PolicyHint) -> bool {
        self.scheduler.hint_policy(hint)
    }

    /// Time passes. Timers of the policy that are due then fire, once.
    pub fn pass(&mut self, span: Duration) {
        self.settle();
        self.now += span;
        self.scheduler.handle_timeout(self.now);
        self.settle();
    }

    /// Asks the policy if anything changed, and gives the queues that may run, ready or not, in the
    /// order of the table.
    pub fn running(&mut self) -> Vec<QueueId> {
        self.settle();
        self.scheduler.table().iter().filter(|info| info.running).map(|info| info.id).collect()
    }

    /// Asks the policy if anything changed, and gives the queues that are ready and may run.
    pub fn working(&mut self) -> Vec<QueueId> {
        self.settle();
        let table = self.scheduler.table();
        table.iter().filter(|info| info.running && info.ready).map(|info| info.id).collect()
    }

    /// As [`Given::running`], after a full decision. A policy for which that makes a difference
    /// forgets something.
    pub fn running_after_all(&mut self) -> Vec<QueueId> {
        self.settle();
        self.scheduler.invalidate_all();
        self.running()
    }

    /// Asks the policy if anything changed, and says when it wants to be asked again.
    pub fn wakes_at(&mut self) -> Option<Instant> {
        self.settle();
        self.scheduler.poll_timeout()
    }

    /// Time now.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> QueueTable<'_> {
        self.scheduler.table()
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &P {
        self.scheduler.policy()
    }

    fn report(
        &mut self,
        queue: QueueId,
        change: impl FnOnce(&mut Report),
    ) -> Result<(), SchedulerError> {
        let known = self.reports.iter_mut().find(|(id, _)| *id == queue);
        let (_, report) = known.ok_or(SchedulerError::UnknownQueue)?;
        change(report);
        self.scheduler.handle_report(self.now, queue, report)
    }

    fn settle(&mut self) {
        // Obeying tells the policy that a hold took effect, which may give it something to decide;
        // it has settled when that is no longer so.
        for count in 0.. {
            assert!(count < ORDERS_MAX, "the orders after one event never end");
            let Some((queue, order)) = self.scheduler.poll_order(self.now) else { return };
            let obeyed = self.report(queue, |report| obey(order, report));
            debug_assert!(obeyed.is_ok(), "orders are for queues of the table");
        }
    }
}

/// Reports of a queue that carries an order out at once.
pub(super) const fn obey(order: Order, report: &mut Report) {
    match order {
        Order::Run { epoch } => (report.epoch, report.hold) = (epoch, HoldState::Running),
        Order::Hold { epoch, level } => {
            (report.epoch, report.hold) = (epoch, HoldState::Held(level));
        }
        Order::Watch { .. } | Order::Reached { .. } | Order::Progress { .. } => {}
    }
}
