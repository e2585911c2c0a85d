//! Several queues that are held and let go together, as one queue of a scheduler.
//!
//! This is how the daemon of a node has a process on a GPU. The unit is ready while any of its
//! queues has work, and in [short pauses](crate::pauses). What it reports is made up of that and of
//! the device time that it uses; how its queues are held is its driver's business.
//!
//! ```
//! use xsched_core::message::Order;
//! use xsched_core::time::Instant;
//! use xsched_core::unit::Unit;
//!
//! let now = Instant::ZERO;
//! let mut unit = Unit::new(0, now);
//! assert!(unit.look(true, 0, now), "the scheduler is to hear that it has work");
//! assert!(unit.take_report().pending());
//! unit.obey(Order::Run { epoch: 1 }, now);
//! assert!(unit.runs());
//! ```

use crate::filling::{Filling, Step};
use crate::level::Level;
use crate::message::{HoldState, Order, Report};
use crate::pauses::Pauses;
use crate::time::{Duration, Instant};

/// It is looked so long after a hold what has ended, and then each time that a quarter more has
/// passed.
const FIRST_LOOK: Duration = Duration::from_us(50);
/// For so long it is looked for. Later it counts as nothing: one that is held could otherwise take
/// upon itself what others use, however long that is.
const LOOKED: Duration = Duration::from_ms(10);
/// So often it is looked whether a unit is bound by its host.
const SEEN: Duration = Duration::from_ms(2);

/// Time in which a unit ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// All of it.
    pub whole: Duration,
    /// Its part of that. All of it if no other unit ran, which could not use the device then. Zero
    /// if it is not known whether it had work.
    pub part: Duration,
}

impl Ran {
    /// It did not run.
    pub const NOT: Self = Self { whole: Duration::ZERO, part: Duration::ZERO };

    /// It ran for so long while no other unit did.
    #[must_use]
    pub const fn alone(time: Duration) -> Self {
        Self { whole: time, part: time }
    }

    /// So many units ran for so long, it among them.
    #[must_use]
    pub const fn of(running: u64, time: Duration) -> Self {
        Self { whole: time, part: time.per(running) }
    }

    /// Whether it is known that no other unit ran meanwhile.
    fn is_alone(self) -> bool {
        self.part == self.whole && self.whole > Duration::ZERO
    }

    /// What it used at least, in nanoseconds.
    fn least_ns(self) -> u64 {
        if self.part == self.whole { self.part.as_ns() } else { self.part.as_ns() / 2 }
    }
}

/// Several queues that are held and let go together.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    report: Report,
    used: Used,
    pauses: Pauses,
    filling: Filling,
    is_side_by_side: bool,
    is_held: bool,
    by_hand: bool,
    for_gang: bool,
    gives_way: bool,
    /// Reports are wanted each time this much device time has been used.
    progress: Duration,
    /// When [`Unit::count`] was called last, and what it had said then that it had used.
    counted: Instant,
    counted_said: Said,
    turn: Turn,
    /// Its hold, as far as it was looked at.
    stop: Option<Stop>,
}

/// A hold of a unit.
#[derive(Clone, Copy, Debug)]
struct Stop {
    at: Instant,
    /// Up to then the unit had the device.
    ran_until: Instant,
}

/// What a unit had used when it was let go last, by what it is charged and by what it says.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    used_ns: u64,
    said_ns: u64,
}

/// What a unit says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The device time that it has used in all, in nanoseconds.
    pub used_ns: u64,
    /// How many of its commands have ended.
    pub ended: u64,
    /// For how long its host has waited for the device, in microseconds, where a wait or an answer
    /// that it was done counts as one at least. It goes on from 0 after the highest number. `None`
    /// if it cannot say.
    pub waited_us: Option<u32>,
}

impl From<u64> for Said {
    /// It has used so many nanoseconds, and says nothing else.
    fn from(used_ns: u64) -> Self {
        Self { used_ns, ..Self::default() }
    }
}

/// What [`Unit::count`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The scheduler wants to hear now what it used, or is to hear whether it leaves room or is
    /// bound by its host.
    pub is_due: bool,
    /// Its pause is no longer short, so that [`Unit::look`] is to be called.
    pub is_over: bool,
    /// For how long it had the device while it was held, since the last call: as long as commands
    /// went on that ran when it was held. Those that run meanwhile did not have it then: see
    /// [`Unit::owe`].
    pub late: Duration,
}

impl Unit {
    /// A unit that is known from now on, has no work and is not held. It says that it has used
    /// `before_ns` nanoseconds of device time before.
    #[must_use]
    pub fn new(before_ns: u64, now: Instant) -> Self {
        Self {
            report: Report::default(),
            used: Used::new(before_ns, now),
            pauses: Pauses::new(now),
            filling: Filling::default(),
            is_side_by_side: false,
            is_held: false,
            by_hand: false,
            for_gang: false,
            gives_way: false,
            progress: Duration::MAX,
            counted: now,
            counted_said: Said::default(),
            turn: Turn::default(),
            stop: None,
        }
    }

    /// Its device runs it and other units at the same time, and does not change between them.
    pub const fn run_side_by_side(&mut self) {
        self.is_side_by_side = true;
    }

    /// Whether its device runs it and other units at the same time.
    #[must_use]
    pub const fn runs_side_by_side(&self) -> bool {
        self.is_side_by_side
    }

    /// Whether it has work, or is in a short pause.
    #[must_use]
    pub const fn is_loaded(&self) -> bool {
        self.report.pending()
    }

    /// Whether its device mostly waits for its host: see [`filling`](crate::filling).
    #[must_use]
    pub const fn is_host_bound(&self) -> bool {
        self.report.host_bound
    }

    /// Whether it has work and may run.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.is_loaded() && !self.is_held()
    }

    /// Whether its queues are to be held.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.is_held || self.by_hand || self.for_gang
    }

    /// Whether the scheduler lets it run, whatever else it is held for.
    #[must_use]
    pub const fn is_ordered_to_run(&self) -> bool {
        !self.is_held
    }

    /// Whether a user holds it.
    #[must_use]
    pub const fn is_held_by_hand(&self) -> bool {
        self.by_hand
    }

    /// It has work or none, and says that it has used `said_ns` nanoseconds of device time in all.
    /// True if [`Unit::is_loaded`] has changed, which the scheduler is to hear.
    pub fn look(&mut self, has_work: bool, said_ns: u64, now: Instant) -> bool {
        self.note_used(Ran::NOT, said_ns, now);
        let is_loaded = self.pauses.look(has_work, now);
        if is_loaded == self.is_loaded() {
            return false;
        }
        if is_loaded {
            self.report.submitted += 1;
            self.report.launched = self.report.submitted;
            self.report.ready_since = now;
        } else {
            self.report.retired = self.report.submitted;
        }
        true
    }

    /// Time has passed, in which it ran for so long, and it says this of itself. To be called
    /// before it is held or let go.
    pub fn count(&mut self, ran: Ran, said: impl Into<Said>, now: Instant) -> Counted {
        let said = said.into();
        let late = self.note_used(ran, said.used_ns, now);
        let step = self.step(ran, said);
        if ran.is_alone() {
            self.filling.count(step, now);
        } else if ran.part > Duration::ZERO {
            self.filling.beside(step, now);
        } else {
            self.filling.off(step);
        }
        let before = (self.report.leaves_room, self.report.host_bound);
        self.report.leaves_room = self.is_side_by_side || self.filling.leaves_room(now);
        self.report.host_bound = !self.is_side_by_side && self.filling.is_host_bound(now);
        let has_changed = before != (self.report.leaves_room, self.report.host_bound);
        let is_much = self.progress != Duration::MAX && self.used.unreported() >= self.progress;
        let is_over = self.pauses.due().is_some_and(|due| due <= now);
        Counted { is_due: is_much || has_changed, is_over, late }
    }

    /// What the last part of the time brought.
    fn step(&mut self, ran: Ran, said: Said) -> Step {
        let used_ns = self.used.said_ns;
        let before = core::mem::replace(&mut self.counted_said, Said { used_ns, ..said });
        let waited_us =
            said.waited_us.zip(before.waited_us).map(|(now, old)| now.wrapping_sub(old));
        Step {
            time: ran.whole,
            has_work: self.pauses.has_work(),
            used: Duration::from_ns(used_ns - before.used_ns),
            ended: said.ended.saturating_sub(before.ended),
            waited: waited_us.map(|us| Duration::from_us(us.into())),
        }
    }

    /// Notes what it used, and answers for how long it had the device while it was held.
    fn note_used(&mut self, ran: Ran, said_ns: u64, now: Instant) -> Duration {
        let before_ns = self.used.said_ns;
        self.used.count(ran, said_ns, now);
        let late = self.late(self.used.said_ns - before_ns, now);
        if late > Duration::ZERO {
            self.used.count(Ran::alone(late), said_ns, now);
        }
        late
    }

    /// For how long it had the device after it was held, if commands have ended since the last call
    /// that took so long in all. When they ended is known as well as this is called often. They did
    /// not have it for longer than they took, if it ran others in between; and of that, what they
    /// took before the hold is counted already.
    fn late(&mut self, ended_ns: u64, now: Instant) -> Duration {
        let looked = core::mem::replace(&mut self.counted, now);
        if !self.is_held() {
            self.stop = None;
            return Duration::ZERO;
        }
        let stop = self.stop.get_or_insert(Stop { at: looked, ran_until: looked });
        if ended_ns == 0 {
            return Duration::ZERO;
        }
        let until = (looked + now.since(looked).per(2)).min(stop.at + LOOKED);
        let ran = until.since(core::mem::replace(&mut stop.ran_until, until));
        let counted_ns = self.used.total_ns - self.turn.used_ns;
        let left_ns = (self.used.said_ns - self.turn.said_ns).saturating_sub(counted_ns);
        ran.min(Duration::from_ns(ended_ns.min(left_ns)))
    }

    /// Others had the device for so long while this one ran.
    pub fn owe(&mut self, late: Duration) {
        self.used.owed += late;
    }

    /// The time until [`Unit::count`] is to be called although nothing happens: to see what ended
    /// after it was held, or that a pause is no longer short. [`Duration::MAX`] for never.
    #[must_use]
    pub fn left_to_look(&self, now: Instant) -> Duration {
        let pause = self.pauses.due().map_or(Duration::MAX, |due| due.since(now));
        pause.min(self.left_to_end(now))
    }

    /// The time until [`Unit::count`] is to be called to find whether it is bound by its host,
    /// where others wait for that. [`Duration::MAX`] if it is known.
    #[must_use]
    pub fn left_to_see(&self, now: Instant) -> Duration {
        if !self.runs() || self.is_side_by_side || !self.filling.may_be_host_bound(now) {
            return Duration::MAX;
        }
        Duration::from_ns(SEEN.as_ns().saturating_sub(now.since(self.counted).as_ns()))
    }

    /// The time until it is to be looked what ended after it was held, if the scheduler wants to
    /// hear what it used, and something is likely to end.
    fn left_to_end(&self, now: Instant) -> Duration {
        let is_wanted = self.is_loaded() && self.is_held() && self.progress != Duration::MAX;
        let passed = now.since(self.stop.map_or(self.counted, |stop| stop.at));
        if !is_wanted || passed >= LOOKED {
            return Duration::MAX;
        }
        let mut due = FIRST_LOOK;
        while due <= passed {
            due += due.per(4);
        }
        Duration::from_ns(due.as_ns() - passed.as_ns())
    }

    /// The device time until the scheduler wants to hear of it; [`Duration::MAX`] for never.
    #[must_use]
    pub const fn left_to_report(&self) -> Duration {
        if self.progress.as_ns() == Duration::MAX.as_ns() {
            return Duration::MAX;
        }
        Duration::from_ns(self.progress.as_ns().saturating_sub(self.used.unreported().as_ns()))
    }

    /// The device time that it has used.
    #[must_use]
    pub const fn used(&self) -> Duration {
        Duration::from_ns(self.used.total_ns)
    }

    /// What the scheduler is told now.
    pub const fn take_report(&mut self) -> Report {
        self.report.busy = self.used.report();
        self.report
    }

    /// Takes an order of the scheduler, which is then obeyed if the queues are held as
    /// [`Unit::is_held`] says. True if the scheduler is to hear of that.
    pub fn obey(&mut self, order: Order, now: Instant) -> bool {
        match order {
            Order::Run { epoch } => {
                (self.report.epoch, self.report.hold) = (epoch, HoldState::Running);
                self.change(now, |unit| unit.is_held = false);
            }
            Order::Hold { epoch, .. } => {
                self.report.epoch = epoch;
                self.report.hold = HoldState::Held(Level::Deactivate);
                self.change(now, |unit| unit.is_held = true);
            }
            Order::Progress { every } => {
                self.progress = every;
                return false;
            }
            Order::Watch { .. } | Order::Reached { .. } => return false,
        }
        true
    }

    /// Holds it for a user, or ends that, which the scheduler is to hear.
    pub fn hold_by_hand(&mut self, hold: bool, now: Instant) {
        self.change(now, |unit| unit.by_hand = hold);
        self.report.suspended = hold || self.gives_way;
    }

    /// Holds it until the others of its gang may run as well, or ends that. One that gives way
    /// claims nothing, which the scheduler is to hear.
    pub fn hold_for_gang(&mut self, hold: bool, gives_way: bool, now: Instant) {
        self.change(now, |unit| unit.for_gang = hold);
        self.gives_way = gives_way;
        self.report.suspended = self.by_hand || gives_way;
    }

    /// Changes what it is held for.
    fn change(&mut self, now: Instant, change: impl FnOnce(&mut Self)) {
        let was_held = self.is_held();
        change(self);
        if was_held && !self.is_held() {
            self.pauses.let_go(now);
            self.filling.let_go();
            self.turn = Turn { used_ns: self.used.total_ns, said_ns: self.used.said_ns };
        }
    }
}

/// The device time that a unit has used: what it says itself, which knows how long each of its
/// commands takes, within what its driver has seen.
///
/// Time in which no other unit ran is all its own. Of time in which others ran as well it is taken
/// to have used at least half of its part. Since the last time that it said something, it is taken
/// to have used its part.
#[derive(Clone, Copy, Debug)]
struct Used {
    begun: Instant,
    /// What it had said then.
    before_ns: u64,
    said_ns: u64,
    /// Its part of the time in which it ran, and how much that was when it last said something.
    part_ns: u64,
    part_then_ns: u64,
    least_ns: u64,
    most_ns: u64,
    /// For how long others had the device while it ran, as far as that was not taken off yet.
    owed: Duration,
    total_ns: u64,
    reported_ns: u64,
}

impl Used {
    const fn new(before_ns: u64, now: Instant) -> Self {
        Self {
            begun: now,
            before_ns,
            said_ns: 0,
            part_ns: 0,
            part_then_ns: 0,
            least_ns: 0,
            most_ns: 0,
            owed: Duration::ZERO,
            total_ns: 0,
            reported_ns: 0,
        }
    }

    /// It ran for this long since the last call, and says that it has used so much in all.
    fn count(&mut self, ran: Ran, said_ns: u64, now: Instant) {
        let ran = self.pay(ran);
        self.part_ns = self.part_ns.saturating_add(ran.part.as_ns());
        self.least_ns = self.least_ns.saturating_add(ran.least_ns());
        self.most_ns = self.most_ns.saturating_add(ran.whole.as_ns()).max(self.least_ns);
        let said_ns = said_ns.wrapping_sub(self.before_ns).min(now.since(self.begun).as_ns());
        if said_ns > self.said_ns {
            (self.said_ns, self.part_then_ns) = (said_ns, self.part_ns);
        }
        let likely_ns = self.said_ns.saturating_add(self.part_ns - self.part_then_ns);
        self.total_ns = self.total_ns.max(likely_ns.clamp(self.least_ns, self.most_ns));
    }

    /// Takes off what others had.
    fn pay(&mut self, ran: Ran) -> Ran {
        let paid = self.owed.min(ran.part);
        self.owed = self.owed - paid;
        Ran { whole: ran.whole - paid, part: ran.part - paid }
    }

    /// What the scheduler does not know yet.
    const fn unreported(&self) -> Duration {
        Duration::from_ns(self.total_ns - self.reported_ns)
    }

    /// The total, which the scheduler knows from now on.
    const fn report(&mut self) -> Duration {
        self.reported_ns = self.total_ns;
        Duration::from_ns(self.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::ZERO;
    const HOLD: Order = Order::Hold { epoch: 7, level: Level::Deactivate };

    #[test]
    fn it_is_ready_from_the_first_work_to_the_last() {
        let mut unit = Unit::new(0, START);
        let at = Instant::from_ns;
        assert!(!unit.look(false, 0, at(1)));
        assert!(unit.look(true, 0, at(2)));
        assert!(!unit.look(true, 0, at(3)));
        assert_eq!((unit.report.ready_since, unit.is_loaded()), (at(2), true));
        assert!(unit.look(false, 0, at(4)));
        assert!(!unit.is_loaded());
    }

    #[test]
    fn a_hold_by_hand_outlives_that_of_the_scheduler() {
        let mut unit = Unit::new(0, START);
        unit.look(true, 0, START);
        assert!(unit.obey(HOLD, START));
        unit.hold_by_hand(true, START);
        assert!(unit.obey(Order::Run { epoch: 8 }, START));
        assert!(unit.is_held() && unit.report.suspended);
        assert_eq!((unit.report.epoch, unit.report.hold), (8, HoldState::Running));
        unit.hold_by_hand(false, START);
        assert!(unit.runs());
    }

    #[test]
    fn a_hold_for_the_gang_is_none_of_the_scheduler_and_may_claim_nothing() {
        let mut unit = Unit::new(0, START);
        unit.look(true, 0, START);
        unit.hold_for_gang(true, false, START);
        assert!(unit.is_held() && unit.is_ordered_to_run() && !unit.report.suspended);
        unit.hold_for_gang(true, true, START);
        assert!(unit.report.suspended);
        unit.hold_by_hand(true, START);
        unit.hold_for_gang(false, false, START);
        assert!(unit.is_held() && unit.report.suspended);
        unit.hold_for_gang(true, true, START);
        unit.hold_by_hand(false, START);
        assert!(unit.is_held() && unit.report.suspended);
        unit.hold_for_gang(false, false, START);
        assert!(unit.runs() && !unit.report.suspended);
    }

    const fn us(us: u64) -> Duration {
        Duration::from_us(us)
    }

    #[test]
    fn progress_is_wanted_after_so_much_device_time() {
        let mut unit = Unit::new(500, START);
        let at = |us: u64| Instant::from_ns(us * 1_000);
        let alone = |time| Ran::alone(us(time));
        assert!(!unit.count(alone(1_000), 500, at(1_000)).is_due, "the scheduler has not asked");
        assert!(!unit.obey(Order::Progress { every: us(50) }, START));
        unit.take_report();
        assert!(!unit.count(alone(30), 500, at(1_030)).is_due);
        assert_eq!(unit.left_to_report(), us(20));
        assert!(unit.count(alone(30), 500, at(1_060)).is_due);
        assert_eq!(unit.take_report().busy, us(1_060));
    }

    #[test]
    fn a_short_pause_is_work_until_it_is_over() {
        let mut unit = Unit::new(0, START);
        let at = |us: u64| Instant::from_ns(us * 1_000);
        for step in 0..3 {
            unit.look(true, 0, at(step * 2_400));
            unit.look(false, 0, at(step * 2_400 + 2_000));
        }
        assert!(unit.is_loaded());
        assert_eq!(unit.left_to_look(at(7_000)), us(300));
        let mut other = unit;
        assert!(!unit.count(Ran::NOT, 0, at(7_299)).is_over);
        assert!(unit.count(Ran::NOT, 0, at(7_300)).is_over);
        assert!(unit.look(false, 0, at(7_300)), "the scheduler is to hear of it");
        assert_eq!((unit.is_loaded(), unit.left_to_look(at(7_300))), (false, Duration::MAX));
        // What it has while it is held is no work: a quarter of 1.4 ms is waited for.
        other.obey(HOLD, at(7_000));
        other.look(true, 0, at(7_100));
        other.obey(Order::Run { epoch: 8 }, at(9_000));
        other.look(false, 0, at(10_400));
        assert_eq!(other.left_to_look(at(10_400)), us(350));
    }

    /// A process, and how often a microsecond has passed since it connected.
    struct Rig(Used, u64);

    impl Rig {
        fn new() -> Self {
            Self(Used::new(500, START), 0)
        }

        /// So many microseconds pass, and it ran for some of them. What it used, in microseconds.
        fn after(&mut self, us: u64, ran: Ran, said_us: u64) -> u64 {
            self.1 += us;
            let now = Instant::from_ns(self.1 * 1_000);
            self.0.count(ran, 500 + said_us * 1_000, now);
            self.0.total_ns / 1_000
        }

        /// The same where it ran all the time, beside one other.
        fn beside(&mut self, time: u64, said_us: u64) -> u64 {
            self.after(time, Ran { whole: us(time), part: us(time / 2) }, said_us)
        }
    }

    #[test]
    fn what_went_on_after_a_hold_had_the_device_until_it_ended() {
        let mut unit = Unit::new(0, START);
        let at = |us: u64| Instant::from_ns(us * 1_000);
        unit.look(true, 0, at(0));
        let late = |unit: &mut Unit, said, now| unit.count(Ran::NOT, said, at(now)).late;
        assert_eq!(unit.count(Ran::alone(us(100)), 40_000, at(100)).late, Duration::ZERO);
        unit.obey(HOLD, START);
        assert_eq!(late(&mut unit, 40_000, 150), Duration::ZERO);
        // It ended at about 160, but 60 of its 100 are counted. Another one ended at about 230.
        assert_eq!(late(&mut unit, 140_000, 170), us(40));
        assert_eq!(late(&mut unit, 140_000, 200), Duration::ZERO);
        assert_eq!(late(&mut unit, 240_000, 260), us(70));
        assert_eq!(unit.used(), us(210));
        // Others had the device before that one ended, which did not take longer than 20.
        assert_eq!(late(&mut unit, 260_000, 900), us(20));
        unit.obey(Order::Run { epoch: 8 }, START);
        assert_eq!(unit.count(Ran::NOT, 300_000, at(950)).late, Duration::ZERO);
    }

    #[test]
    fn of_a_command_that_others_interrupted_only_what_was_left_at_the_hold_counts() {
        let mut unit = Unit::new(0, START);
        let at = |us: u64| Instant::from_ns(us * 1_000);
        unit.look(true, 0, at(0));
        unit.obey(HOLD, at(0));
        unit.obey(Order::Run { epoch: 8 }, at(0));
        // Two commands of 1,600 were let run for 3,000, and the second one ended much later.
        unit.count(Ran::alone(us(3_000)), 1_600_000, at(3_000));
        unit.obey(HOLD, at(3_000));
        unit.count(Ran::NOT, 1_600_000, at(6_000));
        assert_eq!(unit.count(Ran::NOT, 3_200_000, at(6_500)).late, us(200));
        assert_eq!(unit.used(), us(3_200));
        // The same in the next turn, of which nothing was left.
        unit.obey(Order::Run { epoch: 9 }, at(9_000));
        unit.count(Ran::alone(us(1_700)), 3_200_000, at(10_700));
        unit.obey(HOLD, at(10_700));
        assert_eq!(unit.count(Ran::NOT, 4_800_000, at(11_000)).late, Duration::ZERO);
    }

    #[test]
    fn one_that_is_held_cannot_take_the_time_of_others_upon_itself_for_ever() {
        let mut unit = Unit::new(0, START);
        unit.look(true, 0, START);
        unit.obey(HOLD, START);
        let late = |ms: u64| {
            let now = Instant::from_ns(ms * 1_000_000);
            unit.count(Ran::NOT, now.as_ns(), now).late.as_ns()
        };
        let all: u64 = (1..1_000).map(late).sum();
        assert_eq!(all, LOOKED.as_ns());
    }

    #[test]
    fn time_in_which_a_held_one_went_on_is_not_that_of_those_that_run() {
        let mut unit = Unit::new(0, START);
        unit.look(true, 0, START);
        unit.owe(us(150));
        unit.count(Ran::alone(us(100)), 0, Instant::from_ns(100_000));
        assert_eq!(unit.used(), Duration::ZERO);
        unit.count(Ran::of(2, us(200)), 0, Instant::from_ns(300_000));
        assert_eq!(unit.used(), us(50));
    }

    #[test]
    fn it_is_looked_often_whether_its_host_is_slower() {
        let of = |used_us: u64, steps: u64| {
            let (mut unit, mut now) = (Unit::new(0, START), START);
            unit.look(true, 0, now);
            for step in 1..=steps {
                now += us(5_000);
                // It waits in each step.
                let (used_ns, waited_us) = (step * used_us * 1_000, Some(step as u32));
                let said = Said { used_ns, ended: step, waited_us };
                unit.count(Ran::alone(us(5_000)), said, now);
            }
            assert!(!unit.is_host_bound());
            (unit, now)
        };
        let (unit, now) = of(1_000, 10);
        assert_eq!(unit.left_to_see(now), us(2_000));
        assert_eq!(unit.left_to_see(now + us(1_500)), us(500));
        assert_eq!(of(4_000, 10).0.left_to_see(now), Duration::MAX, "it needs the device");
        assert_eq!(of(1_000, 1).0.left_to_see(now), Duration::MAX, "nothing is known");
        let (mut unit, now) = of(1_000, 10);
        unit.obey(HOLD, now);
        assert_eq!(unit.left_to_see(now), Duration::MAX);
        let (mut unit, now) = of(1_000, 10);
        unit.run_side_by_side();
        assert_eq!(unit.left_to_see(now), Duration::MAX);
        let (mut unit, now) = of(1_000, 10);
        let (said, later) =
            (Said { used_ns: 11_000_000, ended: 11, waited_us: Some(10) }, us(9_000));
        unit.count(Ran::alone(later), said, now + later);
        assert!(unit.is_host_bound());
        assert_eq!(unit.left_to_see(now + later), Duration::MAX, "it is known");
    }

    #[test]
    fn it_is_looked_ever_less_often_what_ends_after_a_hold() {
        let mut unit = Unit::new(0, START);
        let at = |us: u64| Instant::from_ns(us * 1_000);
        unit.look(true, 0, at(0));
        unit.count(Ran::NOT, 0, at(100));
        unit.obey(HOLD, START);
        assert_eq!(unit.left_to_look(at(100)), Duration::MAX, "the scheduler has not asked");
        unit.obey(Order::Progress { every: us(50) }, START);
        let left = [100, 130, 150, 199, 300].map(|us| unit.left_to_look(at(us)));
        assert_eq!(left.map(|left| left.as_ns() / 1_000), [50, 20, 12, 23, 38]);
        unit.count(Ran::NOT, 0, at(300));
        assert_eq!(unit.left_to_look(at(300)).as_ns() / 1_000, 38, "since the hold");
        assert_eq!(unit.left_to_look(at(10_100)), Duration::MAX);
    }

    #[test]
    fn time_in_which_no_other_ran_is_its_own_whatever_it_says() {
        let mut rig = Rig::new();
        let alone = |time| Ran::alone(us(time));
        assert_eq!(rig.after(10, alone(10), 0), 10);
        assert_eq!(rig.after(10, Ran::NOT, 0), 10);
        assert_eq!(rig.after(10, alone(4), 30), 14);
        assert_eq!(rig.after(100, alone(100), 31), 114);
    }

    #[test]
    fn beside_others_it_used_what_it_says_within_bounds() {
        let mut rig = Rig::new();
        assert_eq!(rig.beside(100, 0), 50, "it says nothing yet");
        assert_eq!(rig.beside(0, 30), 50, "what was reported is not taken back");
        assert_eq!([rig.beside(100, 120), rig.beside(20, 120)], [120, 130]);
        assert_eq!(rig.beside(20, 240), 240, "no more than there was");
        assert_eq!(rig.after(400, Ran::NOT, 500), 240);
        // At least half of its part.
        let mut rig = Rig::new();
        for said in 1..=100 {
            rig.beside(4, said / 100);
        }
        assert_eq!(rig.beside(0, 2), 198);
        let mut silent = Rig::new();
        silent.beside(400, 1);
        assert_eq!(silent.beside(800, 2), 300);
    }

    #[test]
    fn where_it_is_not_known_whether_it_had_work_it_used_what_it_says() {
        let mut rig = Rig::new();
        let unknown = Ran { whole: us(100), part: Duration::ZERO };
        assert_eq!([rig.after(100, unknown, 0), rig.after(100, unknown, 120)], [0, 120]);
    }

    #[test]
    fn what_is_reported_is_not_reported_again() {
        let mut rig = Rig::new();
        rig.after(10, Ran::alone(us(10)), 0);
        assert_eq!(rig.0.report(), Duration::from_us(10));
        assert_eq!(rig.0.unreported(), Duration::ZERO);
    }
}
