//! The policy: which queues should run. Everything else (thresholds, levels, replay, dependencies)
//! belongs to the machines, so a policy can break fairness at worst, never safety.

use core::cell::Cell;
use core::fmt;

use crate::hint::{HintKind, HintKinds, PolicyHint, Priority};
use crate::id::{DeviceId, QueueId};
use crate::level::Level;
use crate::table::bits::members;
use crate::table::slot::{DeviceSlot, NONE, QueueSlot};
use crate::time::{Duration, Instant};

pub use crate::policy_state;
pub use crate::table::{
    DEVICE_WORDS, Field, PolicyState, QUEUE_WORDS, QueueInfo, QueueTable, StateCell, Urgency,
    Verdict,
};

/// A scheduling policy.
///
/// Accounting is edge-triggered, the decision level-triggered: [`Policy::observe`] sees what
/// happens, [`Policy::decide`] says from the table alone which queues should run. A verdict stays
/// until it is replaced, for idle queues too, so `decide` only states what changes. Both must do a
/// bounded amount of work, and `decide` must be idempotent: calling it again without a change must
/// change nothing.
///
/// A policy that holds queues at all must hold those with [`Priority::NO_EXECUTE`], whatever else
/// it says: the conformance suite for policies looks for that. What it remembers of each queue or
/// device it keeps in the table: see [`policy_state!`].
///
/// No driver protects queues from a policy that answers in time and answers badly. One that holds
/// every queue, or changes a verdict at each call, goes on for ever: the lease ends the holds of a
/// policy that panics or hangs, not of one that decides so.
///
/// ```
/// use xsched_core::hint::Priority;
/// use xsched_core::policy::{Changed, Decisions, Policy, QueueTable, Urgency, Verdict};
/// use xsched_core::time::Instant;
///
/// /// Every queue runs, except those that must not.
/// struct Lenient;
///
/// impl Policy for Lenient {
///     fn name(&self) -> &'static str {
///         "lenient"
///     }
///
///     fn decide(
///         &mut self,
///         _now: Instant,
///         changed: Changed<'_>,
///         queues: &QueueTable<'_>,
///         out: &mut Decisions<'_>,
///     ) {
///         for info in changed.queues(queues) {
///             let runs = info.hints.priority != Priority::NO_EXECUTE;
///             out.set(info.id, if runs { Verdict::Run } else { Verdict::Hold(Urgency::NOW) });
///         }
///     }
/// }
/// ```
pub trait Policy {
    /// Short lower-case name.
    fn name(&self) -> &'static str;

    /// Returns the policy's demands on the layers around it. Queues and hints may change the
    /// answer.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// A hint for the policy as a whole. Returns false if the policy has no use for it.
    fn configure(&mut self, hint: PolicyHint) -> bool {
        let _ = hint;
        false
    }

    /// Something happened to a queue. The table already shows the new state. For
    /// [`Event::Detached`] the queue is still in the table, for the last time.
    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let _ = (now, queue, event, queues);
    }

    /// Says which queues should run from now on.
    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    );
}

/// Demands of a policy on the layers around it: see [`Policy::needs`].
///
/// ```
/// use xsched_core::hint::{HintKind, HintKinds};
/// use xsched_core::policy::{MayHold, Needs};
/// use xsched_core::time::Duration;
///
/// // A policy by priority that counts device time.
/// let every = Some(Duration::from_us(250));
/// let hints = HintKinds::of(&[HintKind::Priority]);
/// let needs = Needs { may_hold: MayHold::Lower, progress_every: every, hints };
/// assert_eq!(needs.hints.to_string(), "priority");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Queues that the policy may hold.
    pub may_hold: MayHold,
    /// How often, in device time, a queue must report progress; `None` if the policy does not use
    /// measured device time.
    pub progress_every: Option<Duration>,
    /// Hints of queues that the policy looks at, [`Priority::NO_EXECUTE`] aside: others change
    /// nothing. Drivers find out [`Hints::cpu_priority`](crate::hint::Hints::cpu_priority) only for
    /// a policy that looks at it; the default has all other kinds.
    pub hints: HintKinds,
}

impl Default for Needs {
    fn default() -> Self {
        let hints = HintKinds::ALL.without(HintKinds::of(&[HintKind::CpuPriority]));
        Self { may_hold: MayHold::default(), progress_every: None, hints }
    }
}

/// Set of queues that a policy may hold, beside those with [`Priority::NO_EXECUTE`]. Drivers may
/// leave out the device support, gates say, that only queues need which may be held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MayHold {
    /// None, not even those with [`Priority::NO_EXECUTE`].
    Nothing,
    /// Each for queues of a higher priority on its device: none of the highest priority.
    Lower,
    /// Each for queues of a higher or the same priority on its device: not the only one of the
    /// highest priority.
    Peers,
    /// Any.
    #[default]
    Anything,
}

/// A pointer to a policy is a policy.
macro_rules! forward {
    ($pointer:ty) => {
        impl<P: Policy + ?Sized> Policy for $pointer {
            fn name(&self) -> &'static str {
                (**self).name()
            }
            fn needs(&self) -> Needs {
                (**self).needs()
            }
            fn configure(&mut self, hint: PolicyHint) -> bool {
                (**self).configure(hint)
            }
            fn observe(
                &mut self,
                now: Instant,
                queue: QueueId,
                event: Event,
                queues: &QueueTable<'_>,
            ) {
                (**self).observe(now, queue, event, queues);
            }
            fn decide(
                &mut self,
                now: Instant,
                changed: Changed<'_>,
                queues: &QueueTable<'_>,
                out: &mut Decisions<'_>,
            ) {
                (**self).decide(now, changed, queues, out);
            }
        }
    };
}

forward!(&mut P);
#[cfg(feature = "alloc")]
forward!(alloc::boxed::Box<P>);

/// Change of a queue or its hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The queue was added to the table.
    Attached,
    /// The queue is about to be removed.
    Detached,
    /// The queue has work that it could run.
    Ready,
    /// The queue has no work that it could run.
    Idle,
    /// The queue used this much device time since the last such event.
    Progress {
        /// Device time.
        busy: Duration,
    },
    /// A hold took effect, this deep.
    Held(Level),
    /// The queue runs again after a hold.
    Resumed,
    /// The queue's hints changed.
    Hinted,
    /// The queue stopped obeying because the scheduler's lease ran out.
    FailedOpen,
    /// The queue's device is lost.
    Lost,
}

/// Queues to look at in [`Policy::decide`].
#[derive(Clone, Copy, Debug)]
pub enum Changed<'a> {
    /// Only this changed (nothing, when a timer fired).
    Some {
        /// Queues whose state changed.
        queues: ChangedQueues<'a>,
        /// Devices on which a queue's readiness, priority or presence changed.
        devices: &'a [DeviceId],
    },
    /// Anything may have: compute every verdict. Also after a policy switch, when all verdicts are
    /// back to [`Verdict::Run`] and no device has a floor. A policy that forwards `decide` must not
    /// replace another value by this one: see [`Changed::queues`].
    All,
}

impl Changed<'_> {
    /// The queues to look at that are still in the table: those that changed, and if anything may
    /// have, those that are ready as well, in table order. All others are idle, and were so when
    /// the policy was last asked, with the same hints: if it did right by them then, it may leave
    /// them alone. If another policy was in charge then, their verdict is [`Verdict::Run`].
    pub fn queues<'t>(self, table: &QueueTable<'t>) -> impl Iterator<Item = &'t QueueInfo>
    where
        Self: 't,
    {
        let table = *table;
        let (some, all) = match self {
            Self::Some { queues, .. } => (Some(queues), None),
            Self::All => (None, Some(table.active())),
        };
        let some = some.into_iter().flat_map(ChangedQueues::iter);
        some.filter_map(move |id| table.get(id)).chain(all.into_iter().flatten())
    }
}

/// The queues that changed since a policy was last asked.
#[derive(Clone, Copy)]
pub struct ChangedQueues<'a>(Noted<'a>);

#[derive(Clone, Copy)]
enum Noted<'a> {
    Listed(&'a [QueueId]),
    /// In the table.
    Marked(&'a [QueueSlot]),
}

impl<'a> ChangedQueues<'a> {
    /// None.
    pub const NONE: Self = Self::listed(&[]);

    /// Names `queues` as those that changed.
    #[must_use]
    pub const fn listed(queues: &'a [QueueId]) -> Self {
        Self(Noted::Listed(queues))
    }

    pub(crate) const fn marked(queues: &'a [QueueSlot]) -> Self {
        Self(Noted::Marked(queues))
    }

    /// Each once: in the order in which they changed or, if there are many, in table order. Some
    /// may have left the table since.
    pub fn iter(self) -> impl Iterator<Item = QueueId> + use<'a> {
        let (listed, marked): (&[_], &[_]) = match self.0 {
            Noted::Listed(queues) => (queues, &[]),
            Noted::Marked(queues) => (&[], queues),
        };
        let marked = members(marked, |slot| slot.changed_bits).map(|slot| slot.info.id);
        listed.iter().copied().chain(marked)
    }
}

impl fmt::Debug for ChangedQueues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Where [`Policy::decide`] puts its verdicts.
///
/// A queue runs if its own verdict is [`Verdict::Run`] (as it is from the start) *and* its priority
/// is at least the floor of its device, if one is set.
#[derive(Debug)]
pub struct Decisions<'a> {
    pub(crate) queues: &'a [QueueSlot],
    pub(crate) devices: &'a [DeviceSlot],
    pub(crate) touched: &'a Cell<u32>,
    pub(crate) floors: &'a Cell<u32>,
    pub(crate) wake: &'a Cell<Option<Instant>>,
    pub(crate) calls: u32,
}

impl Decisions<'_> {
    /// Sets the verdict of a queue. Ids that are not in the table are ignored.
    pub fn set(&mut self, queue: QueueId, verdict: Verdict) {
        self.calls = self.calls.saturating_add(1);
        let Some(slot) = self.queues.get(queue.index()).filter(|slot| slot.is(queue)) else {
            return;
        };
        if slot.verdict.replace(verdict) != verdict && slot.touch_next.get() == NONE {
            slot.touch_next.set(self.touched.replace(queue.index() as u32));
        }
    }

    /// Sets the verdicts of all queues of a device at once, without looking at each: those below
    /// `priority` hold, the others run (subject to their own verdict). `None` removes the floor.
    /// The urgency counts for queues that come to be held from now on. Unknown devices are ignored.
    pub fn floor(&mut self, device: DeviceId, priority: Option<Priority>, urgency: Urgency) {
        self.calls = self.calls.saturating_add(1);
        let Some(slot) = self.devices.get(device.index()) else { return };
        let rank = priority.map_or(0, |p| p.rank() as u16);
        slot.floor_urgency.set(urgency);
        if slot.floor_wanted.replace(rank) != rank && slot.floor_next.get() == NONE {
            slot.floor_next.set(self.floors.replace(u32::from(device.0)));
        }
    }

    /// Asks for another [`Policy::decide`] at `at`. The earliest of all requests counts, until it
    /// has fired.
    ///
    /// A time that is not after `now` has fired as soon as it is set. A policy that asks for one at
    /// each call is called again and again, and keeps a processor busy.
    pub fn wake_at(&mut self, at: Instant) {
        let earliest = self.wake.get().map_or(at, |known| known.min(at));
        self.wake.set(Some(earliest));
    }

    /// How many verdicts and floors were set in this round, whether they changed anything or not.
    /// Tests count with it what a policy does.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls
    }
}
