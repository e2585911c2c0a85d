//! The global machine: which queues should run, and the orders to get there.
//!
//! A driver feeds it [`Scheduler::attach`], [`Scheduler::handle_report`], hints and
//! [`Scheduler::handle_timeout`], and after each of them forwards [`Scheduler::poll_order`] until
//! it gives `None`. The policy is asked once per round, however many reports came in. Its verdicts
//! are compared with what was last ordered, so only differences become orders, each with an epoch.
//!
//! State per event does not depend on the number of queues: the table keeps lists of what changed
//! and an index of priorities per device. Orders cost what they cost, one each.

mod depend;
pub(crate) mod floor;
mod orders;
mod progress;
mod state;
mod storage;
#[cfg(test)]
mod tests;

use core::cell::Cell;
use core::fmt;

use heapless::Vec;

#[cfg(feature = "alloc")]
pub use storage::Heap;
pub use storage::{Inline, Parts, Slices, Storage};

use crate::cost::CostModel;
use crate::hint::{Hints, PolicyHint};
use crate::id::{CmdId, DeviceId, EventRef, ProcessId, QueueId};
use crate::level::Level;
use crate::message::{Order, Report};
use crate::policy::Policy;
use crate::table::slot::{END, NONE};
use crate::time::{Duration, Instant};
use state::State;

pub use crate::level::LevelChoice;
pub use crate::table::{DeviceSlot, Edge, QueueInfo, QueueSlot, QueueTable};

/// Changed queues that are listed between two decisions; if there are more, all of them are noted
/// in the table. More devices make the next decision a full one.
const CHANGED_MAX: usize = 64;

/// Stall time at first: see [`Scheduler::hint_policy`].
pub const STALL: Duration = Duration::from_ms(50);

/// Information about a new queue that the scheduler must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The device it is on.
    pub device: DeviceId,
    /// The process that owns it.
    pub process: ProcessId,
    /// Hints of users about the queue.
    pub hints: Hints,
    /// The level of its holds: exactly this one, or the highest to choose from.
    pub level: LevelChoice,
    /// Commands it may have in flight.
    pub threshold: u32,
    /// Share of the device's context that its commands use, in permille, for the cost of Lv3.
    pub context_permille: u32,
}

impl Default for Attach {
    fn default() -> Self {
        Self {
            device: DeviceId(0),
            process: ProcessId(0),
            hints: Hints::default(),
            level: LevelChoice::Exactly(Level::Block),
            threshold: 16,
            context_permille: 1_000,
        }
    }
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerError {
    /// The table has no free slot; give it more storage.
    TableFull,
    /// Device that is not in the device table.
    UnknownDevice,
    /// The queue is not in the table (any more).
    UnknownQueue,
    /// The counters of a report contradict each other.
    BadReport,
    /// The wait would complete a circle of queues that wait for each other.
    WouldDeadlock,
    /// No storage for another wait; let some complete or give the scheduler more.
    WaitTableFull,
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TableFull => "the queue table is full; give the scheduler more storage",
            Self::UnknownDevice => "no such device in the scheduler's device table",
            Self::UnknownQueue => "no such queue; it was detached or belongs to another scheduler",
            Self::BadReport => "the report's counters contradict each other; it was ignored",
            Self::WouldDeadlock => {
                "waiting here would close a circle of queues that wait for each other"
            }
            Self::WaitTableFull => "too many waits at once; let some complete first",
        })
    }
}

impl core::error::Error for SchedulerError {}

/// Counts of what the scheduler did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Times the policy was asked.
    pub decisions: u64,
    /// Of these, with everything to be looked at.
    pub full_decisions: u64,
    /// Orders given.
    pub orders: u64,
    /// Acknowledgements of orders that had been replaced; ignored.
    pub stale_acks: u64,
    /// Queues that stopped obeying because the lease ran out.
    pub failed_open: u64,
    /// Waits that were ended because they closed a circle.
    pub circles: u64,
    /// Queues that were passed over because they held others and retired nothing.
    pub passed_over: u64,
    /// Slices in which lower priorities ran and the highest one held.
    pub slices: u64,
    /// Waits that were looked at in search of circles, and of those that are over.
    pub waits_looked_at: u64,
}

/// Heads of the lists that run through the tables, and what a round has collected.
#[derive(Debug)]
pub(crate) struct Lists {
    free: u32,
    /// Devices with queues that need orders.
    dirty_head: u32,
    dirty_tail: u32,
    work: u32,
    touched: Cell<u32>,
    floors: Cell<u32>,
    wake: Cell<Option<Instant>>,
    looked: Cell<u64>,
    changed: Vec<QueueId, CHANGED_MAX>,
    /// Changed queues are noted in the table, and not in the list.
    changed_marked: bool,
    changed_devices: Vec<DeviceId, CHANGED_MAX>,
    changed_all: bool,
    timer_fired: bool,
    /// When something happened last.
    now: Instant,
    stall: Duration,
    /// How often it is halved for the queue that was passed over last.
    stall_halvings: u8,
    /// When the progress of those that may run is looked at, if any is held that has work.
    progress_due: Option<Instant>,
    /// A queue is held that has work, so progress matters.
    is_contended: bool,
    /// Share of the device time that lower priorities keep.
    floor_permille: u16,
    /// Devices whose queues have several priorities.
    devices_mixed: u32,
    /// When device time of lower priorities was looked at last, and when it is to be.
    floor_looked: Instant,
    floor_due: Option<Instant>,
    edges: usize,
    stats: Stats,
}

/// The state machine of a scheduler. `P` decides, `S` lends the tables.
///
/// ```
/// # use xsched_core::policy::{Changed, Decisions, Policy, QueueTable, Urgency, Verdict};
/// # use xsched_core::message::Order;
/// # use xsched_core::level::Level;
/// use xsched_core::scheduler::{Attach, Inline, Scheduler};
/// use xsched_core::time::Instant;
/// # struct HoldAll;
/// # impl Policy for HoldAll {
/// #     fn name(&self) -> &'static str { "hold-all" }
/// #     fn decide(
/// #         &mut self, _: Instant, _: Changed<'_>, queues: &QueueTable<'_>,
/// #         out: &mut Decisions<'_>,
/// #     ) {
/// #         queues.iter().for_each(|info| out.set(info.id, Verdict::Hold(Urgency::NOW)));
/// #     }
/// # }
///
/// // Room for four queues on one device, and for four waits.
/// let mut scheduler = Scheduler::new(HoldAll, Inline::<4, 1, 4>::new());
/// let queue = scheduler.attach(Instant::ZERO, Attach::default())?;
/// let order = Order::Hold { epoch: 1, level: Level::Block };
/// assert_eq!(scheduler.poll_order(Instant::ZERO), Some((queue, order)));
/// # Ok::<(), xsched_core::scheduler::SchedulerError>(())
/// ```
#[derive(Debug)]
pub struct Scheduler<P, S> {
    policy: P,
    storage: S,
    lists: Lists,
}

impl<P: Policy, S: Storage> Scheduler<P, S> {
    /// A scheduler with empty tables. The storage is cleared.
    #[must_use]
    pub fn new(policy: P, mut storage: S) -> Self {
        let parts = storage.parts();
        let count = parts.queues.len().min(END as usize) as u32;
        for (slot, next) in parts.queues.iter_mut().zip(1..) {
            *slot = QueueSlot::default();
            slot.bucket_next = if next < count { next } else { NONE };
        }
        parts.devices.fill_with(DeviceSlot::default);
        let lists = Lists {
            free: if count == 0 { NONE } else { 0 },
            dirty_head: END,
            dirty_tail: END,
            work: END,
            touched: Cell::new(END),
            floors: Cell::new(END),
            wake: Cell::new(None),
            looked: Cell::new(0),
            changed: Vec::new(),
            changed_marked: false,
            changed_devices: Vec::new(),
            changed_all: true,
            timer_fired: false,
            now: Instant::ZERO,
            stall: STALL,
            stall_halvings: 0,
            progress_due: None,
            is_contended: false,
            floor_permille: 0,
            devices_mixed: 0,
            floor_looked: Instant::ZERO,
            floor_due: None,
            edges: 0,
            stats: Stats::default(),
        };
        Self { policy, storage, lists }
    }

    fn state(&mut self) -> State<'_, P> {
        let parts = self.storage.parts();
        State {
            policy: &mut self.policy,
            queues: parts.queues,
            devices: parts.devices,
            edges: parts.edges,
            lists: &mut self.lists,
        }
    }

    fn state_at(&mut self, now: Instant) -> State<'_, P> {
        self.lists.now = now;
        self.state()
    }

    /// The tables themselves, for a record of them.
    pub(crate) const fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> QueueTable<'_> {
        let (queues, devices) = self.storage.view();
        QueueTable { queues, devices, looked: &self.lists.looked }
    }

    /// The policy in charge.
    #[must_use]
    pub const fn policy(&self) -> &P {
        &self.policy
    }

    /// Returns whether on each device all queues have the same priority.
    #[must_use]
    pub const fn are_priorities_equal(&self) -> bool {
        self.lists.devices_mixed == 0
    }

    /// Permille of the device time that queues of lower priorities keep: see
    /// [`PolicyHint::Floor`]. 0 under a policy that does not hold by priority.
    #[must_use]
    pub fn floor_permille(&self) -> u16 {
        if floor::is_by_priority(&self.policy) { self.lists.floor_permille } else { 0 }
    }

    /// Counts of what was done so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.lists.stats
    }

    /// Says what holds cost on a device, for [`LevelChoice::UpTo`].
    ///
    /// # Errors
    /// [`SchedulerError::UnknownDevice`].
    pub fn set_cost(&mut self, device: DeviceId, cost: CostModel) -> Result<(), SchedulerError> {
        let parts = self.storage.parts();
        let slot = parts.devices.get_mut(device.index()).ok_or(SchedulerError::UnknownDevice)?;
        slot.cost = cost;
        Ok(())
    }

    /// Returns the costs of holds on a device: those set with [`Scheduler::set_cost`], corrected by
    /// the measured durations of holds at Lv3 and of their ends. `None` for an unknown device.
    #[must_use]
    pub fn cost(&self, device: DeviceId) -> Option<CostModel> {
        let (_, devices) = self.storage.view();
        devices.get(device.index()).map(|slot| slot.measured.correct(slot.cost))
    }

    /// Adds a queue. It counts as running until an order says otherwise; poll for orders before its
    /// first command, so that a new queue cannot slip past the policy.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownDevice`] and [`SchedulerError::TableFull`].
    pub fn attach(&mut self, now: Instant, attach: Attach) -> Result<QueueId, SchedulerError> {
        self.state_at(now).attach(now, attach)
    }

    /// Removes a queue. Waits for its events that are not reached end with an error.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn detach(&mut self, now: Instant, queue: QueueId) -> Result<(), SchedulerError> {
        let mut state = self.state_at(now);
        let index = state.find(queue)?;
        state.detach(now, index);
        Ok(())
    }

    /// Takes a report of a queue.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`], and [`SchedulerError::BadReport`] for a report that cannot
    /// be true; it is ignored.
    pub fn handle_report(
        &mut self,
        now: Instant,
        queue: QueueId,
        report: &Report,
    ) -> Result<(), SchedulerError> {
        let mut state = self.state_at(now);
        let index = state.find(queue)?;
        state.report(now, index, report)
    }

    /// Replaces the hints of a queue.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn set_hints(
        &mut self,
        now: Instant,
        queue: QueueId,
        hints: Hints,
    ) -> Result<(), SchedulerError> {
        let mut state = self.state_at(now);
        let index = state.find(queue)?;
        state.set_hints(now, index, hints);
        Ok(())
    }

    /// Changes how the level of a queue's holds is chosen. A hold that is in effect is ordered
    /// again at the new level.
    ///
    /// # Errors
    /// [`SchedulerError::UnknownQueue`].
    pub fn set_level(&mut self, queue: QueueId, choice: LevelChoice) -> Result<(), SchedulerError> {
        let mut state = self.state();
        let index = state.find(queue)?;
        state.set_level(index, choice);
        Ok(())
    }

    /// Passes a hint on to the policy. Returns false if it has no use for it, and for one out of
    /// its range, which it is not told of: see [`PolicyHint::checked`].
    ///
    /// [`PolicyHint::Stall`] is for the scheduler itself: it sets the stall time, [`STALL`] at
    /// first. A queue that may run while others are held is passed over if nothing of its device
    /// retires for this time, or twice this while a held queue has commands in flight: the others
    /// run beside it as if it had no work, until it retires a command. It may wait for one of them,
    /// in ways that no driver tells of. Where it went on as soon as it was passed over, it is
    /// passed over sooner the next time.
    ///
    /// [`PolicyHint::Floor`] is so as well, and counts under policies that hold by priority
    /// ([`MayHold::Lower`](crate::policy::MayHold::Lower) and
    /// [`MayHold::Peers`](crate::policy::MayHold::Peers)): while a queue of a lower priority than
    /// the highest ready one of its device has work and is held, those of lower priorities together
    /// keep this share of the device time over each second. What they use in pauses counts. What is
    /// missing is given in a slice, in which the highest priority holds. 0 at first.
    pub fn hint_policy(&mut self, hint: PolicyHint) -> bool {
        if let PolicyHint::Stall(stall) = hint {
            let is_in_range = hint.checked().is_ok();
            if is_in_range {
                self.lists.stall = stall.unwrap_or(Duration::MAX);
            }
            return is_in_range;
        }
        if let PolicyHint::Floor(permille) = hint {
            let is_in_range = hint.checked().is_ok();
            if is_in_range {
                self.lists.floor_permille = permille;
                self.state().end_slices();
            }
            return is_in_range;
        }
        let progress = self.policy.needs().progress_every;
        // A timeslice of nothing would have the policy asked again and again at once.
        let used = hint.checked().is_ok() && self.policy.configure(hint);
        self.lists.changed_all |= used;
        if self.policy.needs().progress_every != progress {
            self.state().progress_changed();
        }
        used
    }

    /// Puts another policy in charge and returns the old one. Hints stay; verdicts start afresh,
    /// and the next [`Scheduler::poll_order`] brings them into force.
    pub fn set_policy(&mut self, policy: P) -> P {
        let old = core::mem::replace(&mut self.policy, policy);
        self.state().policy_changed();
        if self.policy.needs().progress_every != old.needs().progress_every {
            self.state().progress_changed();
        }
        old
    }

    /// Asks whether the next command of `waiter`, number `cmd`, may wait for `event`, and remembers
    /// the wait if so.
    ///
    /// Returns false if there is nothing to wait for: the event is reached, or it belongs to an
    /// earlier command of the same queue.
    ///
    /// The work does not depend on the number of waits, unless the table of waits is full, or
    /// `waiter` was asked for the same command before, or a queue waits for a command that `waiter`
    /// has not submitted.
    ///
    /// # Errors
    /// [`SchedulerError::WouldDeadlock`], [`SchedulerError::UnknownQueue`] for either queue, and
    /// [`SchedulerError::WaitTableFull`].
    pub fn admit_wait(
        &mut self,
        waiter: QueueId,
        cmd: CmdId,
        event: EventRef,
    ) -> Result<bool, SchedulerError> {
        self.state().admit_wait(waiter, cmd, event)
    }

    /// The next order, or `None`. Asks the policy first if anything changed. Call again until
    /// `None`.
    #[must_use]
    pub fn poll_order(&mut self, now: Instant) -> Option<(QueueId, Order)> {
        let mut state = self.state_at(now);
        state.decide_if_due(now);
        state.arm_checks(now);
        state.next_order(now)
    }

    /// When [`Scheduler::handle_timeout`] wants to be called, if at all.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let Lists { progress_due, floor_due, .. } = self.lists;
        [self.lists.wake.get(), progress_due, floor_due].into_iter().flatten().min()
    }

    /// Tells the scheduler that time has passed. Calling it early or for nothing does nothing. Poll
    /// for orders afterwards.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.lists.wake.get().is_some_and(|due| now >= due) {
            self.lists.wake.set(None);
            self.lists.timer_fired = true;
        }
        if self.lists.progress_due.is_some_and(|due| now >= due) {
            self.state_at(now).check_progress(now);
        }
        if self.lists.floor_due.is_some_and(|due| now >= due) {
            self.state_at(now).check_floor(now);
        }
    }

    /// Makes the next decision a full one: [`Changed::All`](crate::policy::Changed::All). Policies
    /// need not look at queues that are idle and have not changed.
    pub fn reconsider_all(&mut self) {
        self.lists.changed_all = true;
    }

    /// Makes the next decision a full one in which all queues, idle ones too, count as changed.
    ///
    /// It is the recovery path after missed updates: see [`Scheduler::reconsider_all`] for the
    /// cheaper one.
    pub fn invalidate_all(&mut self) {
        self.state().all_changed();
    }
}
