//! A scheduler whose calls and orders are written down.

use super::{Body, Entry, Name, Start};
use crate::cost::CostModel;
use crate::hint::{Hints, PolicyHint};
use crate::id::{CmdId, DeviceId, EventRef, QueueId};
use crate::level::LevelChoice;
use crate::message::{Order, Report};
use crate::policy::Policy;
use crate::scheduler::{Attach, Scheduler, SchedulerError};
use crate::scheduler::{Stats, Storage};
use crate::table::QueueTable;
use crate::time::Instant;

/// Where entries go. Must not block for long: the scheduler waits for it.
pub trait Tape {
    /// Takes an entry.
    fn put(&mut self, entry: &Entry);
}

#[cfg(feature = "alloc")]
impl Tape for alloc::vec::Vec<u8> {
    fn put(&mut self, entry: &Entry) {
        let mut bytes = [0; super::ENTRY_BYTES_MAX];
        let length = entry.encode(&mut bytes);
        self.extend_from_slice(&bytes[..length]);
    }
}

/// A [`Scheduler`] that writes every call and its result to a tape.
///
/// It has the methods of a scheduler. Without a tape each costs one comparison more.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// # use xsched_core::policy::{Changed, Decisions, Policy, QueueTable};
/// use xsched_core::record::Recorded;
/// use xsched_core::scheduler::{Attach, Heap, Scheduler};
/// use xsched_core::time::Instant;
/// # struct Fcfs;
/// # impl Policy for Fcfs {
/// #     fn name(&self) -> &'static str { "fcfs" }
/// #     fn decide(
/// #         &mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>,
/// #     ) {}
/// # }
///
/// let mut scheduler = Recorded::new(Scheduler::new(Fcfs, Heap::new(8, 1, 8)));
/// scheduler.start(Instant::ZERO, Vec::new());
/// scheduler.attach(Instant::ZERO, Attach::default()).expect("room for a queue");
/// let record: Vec<u8> = scheduler.stop().expect("the tape");
/// assert!(!record.is_empty());
/// # }
/// ```
#[derive(Debug)]
pub struct Recorded<P, S, T> {
    scheduler: Scheduler<P, S>,
    tape: Option<T>,
    /// A queue was attached, so that a record which starts now lacks what came of it.
    used: bool,
    /// Hints given to the policy in charge, one of each kind.
    hints: [Option<PolicyHint>; 5],
}

impl<P: Policy, S: Storage, T: Tape> Recorded<P, S, T> {
    /// Wraps a new scheduler, without a tape.
    #[must_use]
    pub const fn new(scheduler: Scheduler<P, S>) -> Self {
        Self { scheduler, tape: None, used: false, hints: [None; 5] }
    }

    /// Starts a record, and returns the tape of the one that was going on.
    pub fn start(&mut self, now: Instant, tape: T) -> Option<T> {
        let old = self.tape.replace(tape);
        let parts = self.scheduler.storage_mut().parts();
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let start = Start {
            queues: count(parts.queues.len()),
            devices: count(parts.devices.len()),
            waits: count(parts.edges.len()),
            fresh: !self.used,
            policy: Name::new(self.scheduler.policy().name()),
        };
        self.note(now, NO_QUEUE, || Body::Start(start));
        self.note_costs(now);
        for hint in self.hints.into_iter().flatten() {
            self.note(now, NO_QUEUE, || Body::PolicyHint(hint));
        }
        if start.fresh {
            // It may have been asked before, with nothing to decide about. As a new one would.
            self.scheduler.reconsider_all();
        } else {
            self.note_attached(now);
        }
        old
    }

    /// Ends the record and returns its tape.
    pub const fn stop(&mut self) -> Option<T> {
        self.tape.take()
    }

    /// The tape, for entries of other sources.
    pub const fn tape(&mut self) -> Option<&mut T> {
        self.tape.as_mut()
    }

    fn note(&mut self, at: Instant, queue: QueueId, body: impl FnOnce() -> Body) {
        if let Some(tape) = &mut self.tape {
            tape.put(&Entry { at, queue, body: body() });
        }
    }

    /// Records the costs of holds where they have been set: before the first queue is attached.
    fn note_costs(&mut self, now: Instant) {
        let Some(tape) = &mut self.tape else { return };
        let devices = self.scheduler.storage_mut().parts().devices;
        let said = devices.iter().zip(0..).filter(|(slot, _)| slot.cost != CostModel::default());
        for (slot, device) in said {
            let body = Body::Cost { device: DeviceId(device), cost: slot.cost };
            tape.put(&Entry { at: now, queue: NO_QUEUE, body });
        }
    }

    fn note_attached(&mut self, now: Instant) {
        let Some(tape) = &mut self.tape else { return };
        let parts = self.scheduler.storage_mut().parts();
        for slot in parts.queues.iter().filter(|slot| slot.live) {
            let info = &slot.info;
            let attach = Attach {
                device: info.device,
                process: info.process,
                hints: info.hints,
                level: slot.level_choice(),
                threshold: info.threshold,
                context_permille: info.context_permille.into(),
            };
            tape.put(&Entry { at: now, queue: info.id, body: Body::Attach(attach) });
        }
    }

    /// [`Scheduler::table`].
    #[must_use]
    pub fn table(&self) -> QueueTable<'_> {
        self.scheduler.table()
    }

    /// As [`Scheduler::are_priorities_equal`].
    #[must_use]
    pub const fn are_priorities_equal(&self) -> bool {
        self.scheduler.are_priorities_equal()
    }

    /// [`Scheduler::policy`].
    #[must_use]
    pub const fn policy(&self) -> &P {
        self.scheduler.policy()
    }

    /// [`Scheduler::floor_permille`].
    #[must_use]
    pub fn floor_permille(&self) -> u16 {
        self.scheduler.floor_permille()
    }

    /// [`Scheduler::stats`].
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.scheduler.stats()
    }

    /// [`Scheduler::set_cost`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn set_cost(
        &mut self,
        now: Instant,
        device: DeviceId,
        cost: CostModel,
    ) -> Result<(), SchedulerError> {
        self.scheduler.set_cost(device, cost)?;
        self.note(now, NO_QUEUE, || Body::Cost { device, cost });
        Ok(())
    }

    /// [`Scheduler::cost`].
    #[must_use]
    pub fn cost(&self, device: DeviceId) -> Option<CostModel> {
        self.scheduler.cost(device)
    }

    /// [`Scheduler::attach`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn attach(&mut self, now: Instant, attach: Attach) -> Result<QueueId, SchedulerError> {
        self.used = true;
        let id = self.scheduler.attach(now, attach)?;
        self.note(now, id, || Body::Attach(attach));
        Ok(id)
    }

    /// [`Scheduler::detach`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn detach(&mut self, now: Instant, queue: QueueId) -> Result<(), SchedulerError> {
        self.note(now, queue, || Body::Detach);
        self.scheduler.detach(now, queue)
    }

    /// [`Scheduler::handle_report`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn handle_report(
        &mut self,
        now: Instant,
        queue: QueueId,
        report: &Report,
    ) -> Result<(), SchedulerError> {
        self.note(now, queue, || Body::Report(*report));
        self.scheduler.handle_report(now, queue, report)
    }

    /// [`Scheduler::set_hints`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn set_hints(
        &mut self,
        now: Instant,
        queue: QueueId,
        hints: Hints,
    ) -> Result<(), SchedulerError> {
        self.note(now, queue, || Body::Hint(hints));
        self.scheduler.set_hints(now, queue, hints)
    }

    /// [`Scheduler::set_level`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn set_level(
        &mut self,
        now: Instant,
        queue: QueueId,
        choice: LevelChoice,
    ) -> Result<(), SchedulerError> {
        self.note(now, queue, || Body::Level(choice));
        self.scheduler.set_level(queue, choice)
    }

    /// [`Scheduler::hint_policy`].
    pub fn hint_policy(&mut self, now: Instant, hint: PolicyHint) -> bool {
        self.note(now, NO_QUEUE, || Body::PolicyHint(hint));
        let taken = self.scheduler.hint_policy(hint);
        if taken {
            self.hints[match hint {
                PolicyHint::Timeslice(_) => 0,
                PolicyHint::K(_) => 1,
                PolicyHint::Ageing(_) => 2,
                PolicyHint::Stall(_) => 3,
                PolicyHint::Floor(_) => 4,
            }] = Some(hint);
        }
        taken
    }

    /// [`Scheduler::set_policy`].
    pub fn set_policy(&mut self, now: Instant, policy: P) -> P {
        let name = Name::new(policy.name());
        // The last two are none of the policy's.
        self.hints[..3].fill(None);
        self.note(now, NO_QUEUE, || Body::Policy(name));
        self.scheduler.set_policy(policy)
    }

    /// [`Scheduler::admit_wait`].
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn admit_wait(
        &mut self,
        now: Instant,
        waiter: QueueId,
        cmd: CmdId,
        event: EventRef,
    ) -> Result<bool, SchedulerError> {
        self.note(now, waiter, || Body::Admit { cmd, event });
        self.scheduler.admit_wait(waiter, cmd, event)
    }

    /// [`Scheduler::poll_order`].
    #[must_use]
    pub fn poll_order(&mut self, now: Instant) -> Option<(QueueId, Order)> {
        let order = self.scheduler.poll_order(now);
        match order {
            Some((id, order)) => self.note(now, id, || Body::Order(order)),
            None => self.note(now, NO_QUEUE, || Body::Rest),
        }
        order
    }

    /// [`Scheduler::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.scheduler.poll_timeout()
    }

    /// [`Scheduler::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.scheduler.poll_timeout().is_some_and(|due| now >= due) {
            self.note(now, NO_QUEUE, || Body::Timeout);
            self.scheduler.handle_timeout(now);
        }
    }

    /// [`Scheduler::reconsider_all`].
    pub fn reconsider_all(&mut self, now: Instant) {
        self.note(now, NO_QUEUE, || Body::Reconsider);
        self.scheduler.reconsider_all();
    }
}

/// The queue of an entry that concerns no queue.
const NO_QUEUE: QueueId = QueueId::new(0, 0);
