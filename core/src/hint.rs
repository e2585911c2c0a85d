//! Hints: what users tell a policy about a queue. Ranges are those of the C API; a value outside is
//! an error, not a clamp.

use core::fmt;

use crate::time::Duration;

/// A priority: −255 (lowest) to 255 (highest), or [`Priority::NO_EXECUTE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(i16);

impl Priority {
    /// The queue must not run at all while a priority policy is in charge.
    pub const NO_EXECUTE: Self = Self(-256);
    /// The lowest priority that runs.
    pub const MIN: Self = Self(-255);
    /// The priority of a queue without this hint.
    pub const DEFAULT: Self = Self(0);
    /// The highest priority.
    pub const MAX: Self = Self(255);

    /// The priority with this value, −256 to 255.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other value.
    pub const fn new(value: i32) -> Result<Self, OutOfRange> {
        if value < -256 || value > 255 {
            return Err(OutOfRange { hint: "priority", min: -256, max: 255, value: value as i64 });
        }
        Ok(Self(value as i16))
    }

    /// The value, −256 to 255.
    #[must_use]
    pub const fn get(self) -> i16 {
        self.0
    }

    /// Position on the scale, 0 (`NO_EXECUTE`) to 511 (`MAX`).
    #[must_use]
    pub const fn rank(self) -> usize {
        (self.0 + 256) as usize
    }

    /// The inverse of [`Priority::rank`]; ranks above 511 give [`Priority::MAX`].
    #[must_use]
    pub const fn from_rank(rank: usize) -> Self {
        if rank > 511 { Self::MAX } else { Self(rank as i16 - 256) }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A laxity hint: the queue may be late by `lax`; until then it has one priority, after that
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Laxity {
    /// How long after becoming ready the queue is not yet urgent.
    pub lax: Duration,
    /// Priority until then.
    pub lax_priority: Priority,
    /// Priority from then on.
    pub critical_priority: Priority,
}

/// A kind of hint for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HintKind {
    /// [`Hints::priority`].
    Priority,
    /// [`Hints::utilization`].
    Share,
    /// [`Hints::weight`].
    Weight,
    /// [`Hints::deadline`].
    Deadline,
    /// [`Hints::laxity`].
    Laxity,
    /// [`Hints::active_window`].
    ActiveWindow,
    /// [`Hints::cpu_priority`].
    CpuPriority,
}

impl HintKind {
    /// All kinds, in the order in which messages list them.
    pub const ALL: [Self; 7] = [
        Self::Priority,
        Self::Share,
        Self::Weight,
        Self::Deadline,
        Self::Laxity,
        Self::ActiveWindow,
        Self::CpuPriority,
    ];

    /// Words for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Share => "share",
            Self::Weight => "weight",
            Self::Deadline => "deadline",
            Self::Laxity => "laxity",
            Self::ActiveWindow => "active window",
            Self::CpuPriority => "CPU priority",
        }
    }
}

/// A set of kinds of hints.
///
/// ```
/// use xsched_core::hint::{HintKind, HintKinds};
///
/// let kinds = HintKinds::of(&[HintKind::Deadline, HintKind::Priority]);
/// assert_eq!(kinds.to_string(), "priority, deadline");
/// let rest = kinds.without(HintKinds::of(&[HintKind::Priority]));
/// assert!(rest.contains(HintKind::Deadline) && !rest.contains(HintKind::Priority));
/// assert!(rest.without(kinds).is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HintKinds(u8);

impl HintKinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Each kind.
    pub const ALL: Self = Self::of(&HintKind::ALL);

    /// Set of the listed kinds.
    #[must_use]
    pub const fn of(kinds: &[HintKind]) -> Self {
        let (mut bits, mut rest) = (0, kinds);
        while let [kind, others @ ..] = rest {
            (bits, rest) = (bits | bit(*kind), others);
        }
        Self(bits)
    }

    /// Returns whether the set has a kind.
    #[must_use]
    pub const fn contains(self, kind: HintKind) -> bool {
        self.0 & bit(kind) != 0
    }

    /// Kinds of either set.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Kinds of this set that are not in the other one.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns whether the set has no kind.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each kind, in the order of [`HintKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = HintKind> {
        HintKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

const fn bit(kind: HintKind) -> u8 {
    1 << kind as u8
}

impl fmt::Display for HintKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, kind.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for HintKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Everything users can say about one queue.
// In memory in this order: the scheduler mostly looks at the priority alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[non_exhaustive]
pub struct Hints {
    /// Priority.
    pub priority: Priority,
    /// Share of the device in percent, 0 to 100, for partition policies.
    pub utilization: Option<u8>,
    /// Weight for fair policies, at least 1.
    pub weight: u32,
    /// Deadline after becoming ready.
    pub deadline: Option<Duration>,
    /// Laxity after becoming ready.
    pub laxity: Option<Laxity>,
    /// The queue belongs to the active window.
    pub active_window: bool,
    /// Priority of the thread that submits, see [`Hints::set_cpu_priority`].
    pub cpu_priority: i16,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            priority: Priority::DEFAULT,
            utilization: None,
            weight: 1,
            deadline: None,
            laxity: None,
            active_window: false,
            cpu_priority: 0,
        }
    }
}

impl Hints {
    /// Hints with a priority and nothing else.
    #[must_use]
    pub fn with_priority(priority: Priority) -> Self {
        Self { priority, ..Self::default() }
    }

    /// Sets the share.
    ///
    /// # Errors
    /// [`OutOfRange`] above 100 percent.
    pub fn set_utilization(&mut self, percent: u8) -> Result<(), OutOfRange> {
        if percent > 100 {
            let value = i64::from(percent);
            return Err(OutOfRange { hint: "utilization", min: 0, max: 100, value });
        }
        self.utilization = Some(percent);
        Ok(())
    }

    /// Sets the deadline.
    ///
    /// # Errors
    /// [`OutOfRange`] for 0 and above a day.
    pub fn set_deadline(&mut self, after_ready: Duration) -> Result<(), OutOfRange> {
        within_a_day("deadline in ns", after_ready)?;
        self.deadline = Some(after_ready);
        Ok(())
    }

    /// Sets the laxity.
    ///
    /// # Errors
    /// [`OutOfRange`] for a laxity of 0 or above a day.
    pub fn set_laxity(&mut self, laxity: Laxity) -> Result<(), OutOfRange> {
        within_a_day("laxity in ns", laxity.lax)?;
        self.laxity = Some(laxity);
        Ok(())
    }

    /// Sets the priority that the operating system gives the submitting thread, higher for more
    /// urgent ones. On Linux (sched(7)): −20 for `SCHED_IDLE`; the negated nice value, −19 to 20,
    /// for ordinary threads; 100 plus the priority, 101 to 199, for `SCHED_FIFO` and `SCHED_RR`;
    /// 200 for `SCHED_DEADLINE`.
    ///
    /// # Errors
    /// [`OutOfRange`] below −20 and above 200.
    pub fn set_cpu_priority(&mut self, priority: i16) -> Result<(), OutOfRange> {
        if !(-20..=200).contains(&priority) {
            let value = i64::from(priority);
            return Err(OutOfRange { hint: "CPU priority", min: -20, max: 200, value });
        }
        self.cpu_priority = priority;
        Ok(())
    }

    /// Copy that no hint keeps from running: [`Priority::MIN`] stands wherever these have
    /// [`Priority::NO_EXECUTE`], which is in the priority and in both of the laxity. For a queue
    /// that is to come to its end.
    #[must_use]
    pub fn without_no_execute(self) -> Self {
        let runs = |priority: Priority| priority.max(Priority::MIN);
        let laxity = self.laxity.map(|laxity| Laxity {
            lax_priority: runs(laxity.lax_priority),
            critical_priority: runs(laxity.critical_priority),
            ..laxity
        });
        Self { priority: runs(self.priority), laxity, ..self }
    }

    /// Kinds of hints that differ from those of a queue without hints.
    #[must_use]
    pub fn kinds(&self) -> HintKinds {
        let each = HintKind::ALL.into_iter().map(|kind| HintKinds::of(&[kind]));
        let set = each.filter(|kind| self.only(*kind) != Self::default());
        set.fold(HintKinds::NONE, HintKinds::with)
    }

    /// Copy that has hints of these kinds alone.
    #[must_use]
    pub fn only(&self, kinds: HintKinds) -> Self {
        let mut hints = Self::default();
        for kind in kinds.iter() {
            match kind {
                HintKind::Priority => hints.priority = self.priority,
                HintKind::Share => hints.utilization = self.utilization,
                HintKind::Weight => hints.weight = self.weight,
                HintKind::Deadline => hints.deadline = self.deadline,
                HintKind::Laxity => hints.laxity = self.laxity,
                HintKind::ActiveWindow => hints.active_window = self.active_window,
                HintKind::CpuPriority => hints.cpu_priority = self.cpu_priority,
            }
        }
        hints
    }

    /// Sets the weight.
    ///
    /// # Errors
    /// [`OutOfRange`] for 0 and above 1,000,000.
    pub fn set_weight(&mut self, weight: u32) -> Result<(), OutOfRange> {
        if !(1..=1_000_000).contains(&weight) {
            let value = i64::from(weight);
            return Err(OutOfRange { hint: "weight", min: 1, max: 1_000_000, value });
        }
        self.weight = weight;
        Ok(())
    }
}

const fn within_a_day(hint: &'static str, span: Duration) -> Result<(), OutOfRange> {
    const DAY_NS: i64 = 86_400_000_000_000;
    let ns = span.as_ns();
    if ns == 0 || ns > DAY_NS as u64 {
        let value = if ns > i64::MAX as u64 { i64::MAX } else { ns as i64 };
        return Err(OutOfRange { hint, min: 1, max: DAY_NS, value });
    }
    Ok(())
}

/// A hint for a policy as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyHint {
    /// Length of a round, or of a turn, 100 µs to 10 s.
    Timeslice(Duration),
    /// How many queues run at once under K-EDF, at least 1.
    K(u32),
    /// After what time a waiting queue has a turn under a strict policy, 1 ms to a day; `None`:
    /// never.
    Ageing(Option<Duration>),
    /// For the scheduler, whatever the policy: time after which a queue that holds others is passed
    /// over if nothing of its device retires, 1 ms to a day; `None`: never. See
    /// [`Scheduler::hint_policy`](crate::scheduler::Scheduler::hint_policy).
    Stall(Option<Duration>),
    /// For the scheduler, under policies by priority: permille of the device time that queues below
    /// the highest priority keep, 0 to 500. See
    /// [`Scheduler::hint_policy`](crate::scheduler::Scheduler::hint_policy).
    Floor(u16),
}

impl PolicyHint {
    /// The hint, if its value is in range.
    ///
    /// # Errors
    /// [`OutOfRange`] if not.
    pub const fn checked(self) -> Result<Self, OutOfRange> {
        match self {
            Self::Timeslice(span) => Self::timeslice(span),
            Self::K(k) => Self::k(k),
            Self::Ageing(age) => Self::ageing(age),
            Self::Stall(stall) => Self::stall(stall),
            Self::Floor(permille) => Self::floor(permille),
        }
    }

    /// The number of queues that run at once, 1 to 65,536.
    ///
    /// # Errors
    /// [`OutOfRange`] outside.
    pub const fn k(k: u32) -> Result<Self, OutOfRange> {
        if k == 0 || k > 65_536 {
            return Err(OutOfRange { hint: "k", min: 1, max: 65_536, value: k as i64 });
        }
        Ok(Self::K(k))
    }

    /// Ageing after a time of 1 ms to a day, or none.
    ///
    /// # Errors
    /// [`OutOfRange`] outside.
    pub const fn ageing(age: Option<Duration>) -> Result<Self, OutOfRange> {
        match up_to_a_day(age, "ageing in µs") {
            Ok(()) => Ok(Self::Ageing(age)),
            Err(error) => Err(error),
        }
    }

    /// A stall time of 1 ms to a day, or none.
    ///
    /// # Errors
    /// [`OutOfRange`] outside.
    pub const fn stall(stall: Option<Duration>) -> Result<Self, OutOfRange> {
        match up_to_a_day(stall, "stall in µs") {
            Ok(()) => Ok(Self::Stall(stall)),
            Err(error) => Err(error),
        }
    }

    /// A floor of 0 to 500 permille.
    ///
    /// # Errors
    /// [`OutOfRange`] above.
    pub const fn floor(permille: u16) -> Result<Self, OutOfRange> {
        if permille > 500 {
            let value = permille as i64;
            return Err(OutOfRange { hint: "floor in permille", min: 0, max: 500, value });
        }
        Ok(Self::Floor(permille))
    }

    /// A timeslice, 100 µs to 10 s.
    ///
    /// # Errors
    /// [`OutOfRange`] outside.
    pub const fn timeslice(span: Duration) -> Result<Self, OutOfRange> {
        let us = span.as_ns() / 1_000;
        if us < 100 || us > 10_000_000 {
            let value = us as i64;
            return Err(OutOfRange { hint: "timeslice in µs", min: 100, max: 10_000_000, value });
        }
        Ok(Self::Timeslice(span))
    }
}

const fn up_to_a_day(span: Option<Duration>, hint: &'static str) -> Result<(), OutOfRange> {
    const DAY_US: u64 = 86_400_000_000;
    let Some(span) = span else { return Ok(()) };
    let us = span.as_ns() / 1_000;
    if us < 1_000 || us > DAY_US {
        return Err(OutOfRange { hint, min: 1_000, max: DAY_US as i64, value: us as i64 });
    }
    Ok(())
}

/// A hint outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Name of the hint.
    pub hint: &'static str,
    /// Smallest allowed value.
    pub min: i64,
    /// Largest allowed value.
    pub max: i64,
    /// Value that was given.
    pub value: i64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hint, min, max, value } = self;
        write!(f, "{hint} must be {min} to {max}, is {value}")
    }
}

impl core::error::Error for OutOfRange {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_not_clamped() {
        assert!(Priority::new(-257).is_err());
        assert!(Priority::new(256).is_err());
        assert_eq!(Priority::new(-256), Ok(Priority::NO_EXECUTE));
        assert!(Hints::default().set_utilization(101).is_err());
        assert!(Hints::default().set_weight(0).is_err());
        assert!(Hints::default().set_deadline(Duration::ZERO).is_err());
        assert!(Hints::default().set_deadline(Duration::from_ms(40)).is_ok());
        let (lax_priority, critical_priority) = (Priority::MIN, Priority::MAX);
        let laxity = |lax| Laxity { lax, lax_priority, critical_priority };
        assert!(Hints::default().set_laxity(laxity(Duration::MAX)).is_err());
        assert!(Hints::default().set_laxity(laxity(Duration::from_ms(2_200))).is_ok());
        assert!(PolicyHint::k(0).is_err());
        assert_eq!(PolicyHint::k(16), Ok(PolicyHint::K(16)));
        assert!(Hints::default().set_cpu_priority(-21).is_err());
        assert!(Hints::default().set_cpu_priority(200).is_ok());
        assert!(PolicyHint::ageing(Some(Duration::from_us(999))).is_err());
        assert!(PolicyHint::ageing(Some(Duration::MAX)).is_err());
        assert!(PolicyHint::ageing(Some(Duration::from_ms(86_400_000))).is_ok());
        assert!(PolicyHint::timeslice(Duration::from_us(99)).is_err());
        assert!(PolicyHint::timeslice(Duration::from_ms(10_000)).is_ok());
    }

    #[test]
    fn kinds_are_those_that_are_set() {
        assert!(Hints::default().kinds().is_empty());
        let mut hints = Hints::with_priority(Priority(7));
        hints.set_deadline(Duration::from_ms(40)).unwrap();
        hints.set_cpu_priority(-3).unwrap();
        let kinds = [HintKind::Priority, HintKind::Deadline, HintKind::CpuPriority];
        assert_eq!(hints.kinds(), HintKinds::of(&kinds));
        assert_eq!(hints.only(HintKinds::ALL), hints);
        let [priority, ..] = kinds;
        assert_eq!(hints.only(HintKinds::of(&[priority])), Hints::with_priority(Priority(7)));
        assert_eq!(HintKinds::ALL.iter().count(), HintKind::ALL.len());
    }

    #[test]
    fn no_priority_is_left_with_which_nothing_runs() {
        let (never, some) = (Priority::NO_EXECUTE, Priority(7));
        let lax = Duration::from_ms(1);
        for (lax_priority, critical_priority) in [(never, some), (some, never), (never, never)] {
            let mut hints = Hints::with_priority(never);
            hints.set_laxity(Laxity { lax, lax_priority, critical_priority }).unwrap();
            let hints = hints.without_no_execute();
            let laxity = hints.laxity.unwrap();
            assert_eq!(hints.priority, Priority::MIN);
            assert_eq!(laxity.lax_priority, lax_priority.max(Priority::MIN));
            assert_eq!(laxity.critical_priority, critical_priority.max(Priority::MIN));
            assert_eq!(laxity.lax, lax);
        }
        let others = Hints { weight: 3, ..Hints::with_priority(some) };
        assert_eq!(others.without_no_execute(), others);
    }

    #[test]
    fn ranks_cover_the_scale() {
        assert_eq!(Priority::NO_EXECUTE.rank(), 0);
        assert_eq!(Priority::MAX.rank(), 511);
        for rank in 0..512 {
            assert_eq!(Priority::from_rank(rank).rank(), rank);
        }
    }
}
