//! Whether a [unit](crate::unit) fills the device, or leaves room for others beside it.
//!
//! A program that launches kernel by kernel may need the device for a part of the time alone: while
//! the host makes the next launch ready, the device has nothing to do. Several such programs get
//! more done at a time than one after the other. A unit leaves room if its pauses took more than a
//! quarter of the last milliseconds in which it had the device to itself; then it counts as such
//! for a second. What it had launched while it was held runs without pauses when it is let go, and
//! does not count.
//!
//! A pause may have two reasons. The host waited for what ran, and goes on now that it has: the
//! sooner that runs, the sooner the next. Or the host is slower than the device, and launches no
//! later if others have the device meanwhile. A unit is bound by its host if it used less
//! than half of the time, and the host has not waited for some of the device's time slices. Lower
//! priorities may run beside it: what they cost is at most a time slice each time that it waits.
//!
//! Ends are seen late, and short pauses not at all. So what was used is what the unit says of it,
//! which it does when commands have ended. Whether lower priorities do cost no more is tried: if
//! fewer of its commands end beside them than alone in the same time, and its host waits longer,
//! they are held again, for four seconds at first, and longer each time, up to two minutes. If
//! fewer end and its host waits no longer, the host was late for another reason.
//!
//! ```
//! use xsched_core::filling::{Filling, Step};
//! use xsched_core::time::{Duration, Instant};
//!
//! let (mut now, mut filling) = (Instant::ZERO, Filling::default());
//! assert!(!filling.leaves_room(now), "nothing is known");
//! for _ in 0..200 {
//!     for (has_work, us) in [(true, 20), (false, 30)] {
//!         now += Duration::from_us(us);
//!         let alone = Duration::from_us(us);
//!         let used = if has_work { alone } else { Duration::ZERO };
//!         let step = Step { time: alone, has_work, used, ended: 1, waited: Some(Duration::ZERO) };
//!         filling.count(step, now);
//!     }
//! }
//! assert!(filling.leaves_room(now));
//! assert!(filling.is_host_bound(now), "the host has not waited");
//! assert!(!filling.leaves_room(now + Duration::from_ms(1_000)), "that may have changed");
//! ```

use crate::time::{Duration, Instant};

/// Pauses that take more than this part leave room.
const PART: u64 = 4;
/// A unit that used more than this part of the time is not bound by its host.
const HOST_PART: u64 = 2;
/// A host that has not waited for so long while its unit had the device to itself rarely does: four
/// time slices of an NVIDIA GPU.
const UNWAITED: Duration = Duration::from_ms(8);
/// So much of the time says how it is.
const ENOUGH: Duration = Duration::from_ms(4);
/// For so long a unit counts as it was last seen alone.
const KEPT: Duration = Duration::from_ms(1_000);

/// So long a unit runs beside lower priorities before it is said how it gets on.
const TRIED: Duration = Duration::from_ms(100);
/// Fewer of its commands end beside them if it is less than three of so many.
const FEWER: u64 = 4;
/// The same, if it is clear sooner: half of it.
const TRIED_BRIEFLY: Duration = Duration::from_ms(50);
const FAR_FEWER: u64 = 6;
/// For so long lower priorities are held again then, at first and at most.
const AGAIN: [Duration; 2] = [Duration::from_ms(4_000), Duration::from_ms(128_000)];

/// Some time in which a unit had the device, to itself or beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How long that was.
    pub time: Duration,
    /// It had work then, or was in a pause.
    pub has_work: bool,
    /// How long commands took that it has said to have ended in it.
    pub used: Duration,
    /// How many these were.
    pub ended: u64,
    /// For how long its host has waited for the device in it, not zero if it has, or asked and
    /// heard that it was done. `None` if that is not known.
    pub waited: Option<Duration>,
}

/// Knows whether a unit leaves room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    /// Of the time in which it had the device to itself, with work and without.
    work: Duration,
    pause: Duration,
    /// For how long it had the device to itself since its host waited.
    unwaited: Duration,
    host: Host,
    trial: Trial,
    /// It may still run what it launched while it was held.
    is_behind: bool,
    /// Until then it leaves room, and is bound by its host.
    until: Instant,
    host_until: Instant,
}

impl Filling {
    /// It had the device to itself up to now.
    pub fn count(&mut self, step: Step, now: Instant) {
        self.unwaited += step.time;
        self.note_waited(step);
        if self.is_behind {
            self.is_behind = step.has_work;
            return;
        }
        self.trial.alone(step);
        let until = |is_so| if is_so { now + KEPT } else { Instant::ZERO };
        if let Some(is_bound) = self.host.count(step) {
            let rarely_waits = self.unwaited >= UNWAITED;
            self.host_until = until(is_bound && rarely_waits && self.trial.may_begin(now));
        }
        let part = if step.has_work { &mut self.work } else { &mut self.pause };
        *part += step.time;
        let all = self.work + self.pause;
        if all < ENOUGH {
            return;
        }
        self.until = until(self.pause > all.per(PART));
        (self.work, self.pause) = (self.work.per(2), self.pause.per(2));
    }

    /// It ran beside others up to now.
    pub fn beside(&mut self, step: Step, now: Instant) {
        self.note_waited(step);
        if self.is_host_bound(now) && self.trial.beside(step, now) {
            self.host_until = Instant::ZERO;
        }
    }

    /// It did not run up to now.
    pub fn off(&mut self, step: Step) {
        self.note_waited(step);
    }

    fn note_waited(&mut self, step: Step) {
        if step.waited != Some(Duration::ZERO) {
            self.unwaited = Duration::ZERO;
        }
    }

    /// It was held up to now.
    pub const fn let_go(&mut self) {
        self.is_behind = true;
    }

    /// Whether it may be found to be bound by its host, if it is looked at more often than its host
    /// waits.
    #[must_use]
    pub fn may_be_host_bound(&self, now: Instant) -> bool {
        self.host.is_likely && !self.is_host_bound(now) && self.trial.may_begin(now)
    }

    /// Whether its pauses leave room for others.
    #[must_use]
    pub fn leaves_room(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Whether it is bound by its host.
    #[must_use]
    pub fn is_host_bound(&self, now: Instant) -> bool {
        now < self.host_until
    }
}

/// Of the time in which a unit had the device to itself, up to when it last said what it used.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    alone: Duration,
    used: Duration,
    /// What was said last.
    is_likely: bool,
}

impl Host {
    /// Whether it is bound by its host, once that can be said. It cannot between two times that it
    /// says what it used: that may be much at once.
    fn count(&mut self, step: Step) -> Option<bool> {
        self.alone += step.time;
        self.used += step.used;
        if step.used == Duration::ZERO || self.alone < UNWAITED {
            return None;
        }
        if self.alone.per(2) >= UNWAITED {
            (self.alone, self.used) = (self.alone.per(2), self.used.per(2));
        }
        self.is_likely = self.used < self.alone.per(HOST_PART);
        Some(self.is_likely)
    }
}

/// How many commands ended in some time, both counted from one end to another, and for how long
/// the host waited meanwhile and before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    time: Duration,
    ended: u64,
    waited: Duration,
    /// The time since the last end, if there was one.
    since: Option<Duration>,
}

impl Rate {
    fn count(&mut self, step: Step) {
        self.since = self.since.map(|since| since + step.time);
        self.waited += step.waited.unwrap_or_default();
        if step.ended > 0
            && let Some(since) = self.since.replace(Duration::ZERO)
        {
            self.time += since;
            // What it says may make no sense.
            self.ended = self.ended.saturating_add(step.ended);
        }
    }

    /// For how long the host did not wait, in nanoseconds.
    fn unwaited_ns(self) -> u64 {
        self.time.as_ns().saturating_sub(self.waited.as_ns())
    }

    /// Whether less than three of so many parts of what is got alone is got beside others, because
    /// its host waits for longer. That cannot be told of one that mostly waits.
    fn is_below(self, parts: u64, alone: Self) -> bool {
        let product = |got: u64, of: Duration, part: u64| {
            u128::from(got) * u128::from(of.as_ns()) * u128::from(part)
        };
        let less = |beside: u64, by_itself: u64| {
            product(beside, alone.time, parts) < product(by_itself, self.time, 3)
        };
        let waits_mostly = alone.unwaited_ns() < alone.time.per(2).as_ns();
        let waits_longer = less(self.unwaited_ns(), alone.unwaited_ns());
        less(self.ended, alone.ended) && (waits_mostly || waits_longer)
    }

    /// Half of it.
    const fn half(self) -> Self {
        let (time, waited) = (self.time.per(2), self.waited.per(2));
        Self { time, ended: self.ended / 2, waited, ..self }
    }

    /// Something else follows than what it counts.
    const fn pause(&mut self) {
        self.since = None;
    }
}

/// How a unit gets on beside lower priorities, and alone.
#[derive(Clone, Copy, Debug)]
struct Trial {
    alone: Rate,
    beside: Rate,
    /// Until then there is none, and so long it will be to the next but one.
    until: Instant,
    again: Duration,
}

impl Default for Trial {
    fn default() -> Self {
        let (alone, beside) = (Rate::default(), Rate::default());
        Self { alone, beside, until: Instant::ZERO, again: AGAIN[0] }
    }
}

impl Trial {
    fn may_begin(&self, now: Instant) -> bool {
        now >= self.until
    }

    fn alone(&mut self, step: Step) {
        self.beside.pause();
        self.alone.count(step);
        if self.alone.time >= TRIED {
            self.alone = self.alone.half();
        }
    }

    /// Whether it has turned out to get on less well.
    fn beside(&mut self, step: Step, now: Instant) -> bool {
        self.alone.pause();
        self.beside.count(step);
        if self.beside.time < TRIED_BRIEFLY {
            return false;
        }
        if self.beside.is_below(FAR_FEWER, self.alone) {
            return self.put_off(now);
        }
        if self.beside.time < TRIED {
            return false;
        }
        if self.beside.is_below(FEWER, self.alone) {
            return self.put_off(now);
        }
        (self.beside, self.again) = (Rate::default(), AGAIN[0]);
        false
    }

    fn put_off(&mut self, now: Instant) -> bool {
        self.until = now + self.again;
        self.again = (self.again + self.again).min(AGAIN[1]);
        self.beside = Rate::default();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT: Option<Duration> = Some(Duration::ZERO);

    /// So many steps of work and of a pause, in µs. The host waits in each for so many.
    fn run(filling: &mut Filling, steps: u32, us: [u64; 2], waited_us: u64) -> Instant {
        let mut now = Instant::from_ns(1);
        for _ in 0..steps {
            for (has_work, us) in [true, false].into_iter().zip(us) {
                now += Duration::from_us(us);
                let alone = Duration::from_us(us);
                let used = if has_work { alone } else { Duration::ZERO };
                let waited = Some(Duration::from_us(waited_us));
                filling.count(Step { time: alone, has_work, used, ended: 1, waited }, now);
            }
        }
        now
    }

    fn after(filling: &mut Filling, steps: u32, work_us: u64, pause_us: u64) -> bool {
        let now = run(filling, steps, [work_us, pause_us], 1);
        assert!(!filling.is_host_bound(now), "its host waits each time");
        filling.leaves_room(now)
    }

    #[test]
    fn who_pauses_without_waiting_is_bound_by_its_host() {
        let is_bound = |us, waited_us| {
            let mut filling = Filling::default();
            let now = run(&mut filling, 200, us, waited_us);
            filling.is_host_bound(now)
        };
        assert!(is_bound([20, 30], 0));
        assert!(!is_bound([20, 30], 1));
        assert!(!is_bound([2_000, 3_000], 1), "it waits each 5 ms");
        assert!(!is_bound([30, 20], 0), "it needs most of the device");
        let mut filling = Filling::default();
        let now = Instant::from_ns(1);
        for _ in 0..200 {
            for has_work in [true, false] {
                let alone = Duration::from_us(if has_work { 20 } else { 30 });
                let used = if has_work { alone } else { Duration::ZERO };
                filling.count(Step { time: alone, has_work, used, ended: 1, waited: None }, now);
            }
        }
        assert!(filling.leaves_room(now) && !filling.is_host_bound(now), "nothing says it");
        let [alone, used] = [20, 1].map(Duration::from_ms);
        let once = |waited| {
            let mut filling = Filling::default();
            let step = Step { time: alone, has_work: true, used, ended: 1, waited };
            filling.count(step, now);
            filling.count(step, now);
            filling.is_host_bound(now)
        };
        assert!(!once(None) && once(NOT), "in one step");
    }

    #[test]
    fn waits_count_whenever_they_are() {
        let [ms, used] = [Duration::from_ms(4), Duration::from_ms(1)];
        let is_bound = |between: &dyn Fn(&mut Filling, Step)| {
            let mut filling = Filling::default();
            let step = Step { time: ms, has_work: true, used, ended: 1, waited: NOT };
            filling.count(step, Instant::ZERO);
            between(&mut filling, Step { waited: Some(used), ..step });
            filling.count(step, Instant::ZERO);
            filling.is_host_bound(Instant::ZERO)
        };
        assert!(is_bound(&|_, _| {}));
        assert!(!is_bound(&|filling, waits| filling.off(waits)), "it did not run");
        assert!(!is_bound(&|filling, waits| filling.beside(waits, Instant::ZERO)));
    }

    /// Steps of 100 µs, of which so many in ten are seen as pauses. It says what it used each time
    /// that so many ended.
    fn is_bound(pauses: u32, used_us: u64, ended: u32) -> bool {
        let (mut filling, mut was_bound) = (Filling::default(), false);
        let alone = Duration::from_us(100);
        for step in 1..=1_000 {
            let now = Instant::ZERO + Duration::from_us(u64::from(step) * 100);
            let has_ended = step % ended == 0;
            let used = Duration::from_us(if has_ended { used_us * u64::from(ended) } else { 0 });
            let has_work = step % 10 >= pauses;
            let ended = u64::from(has_ended);
            filling.count(Step { time: alone, has_work, used, ended, waited: NOT }, now);
            was_bound |= filling.is_host_bound(now);
        }
        was_bound
    }

    #[test]
    fn pauses_are_as_long_as_what_it_says_leaves() {
        assert!(is_bound(2, 30, 1) && is_bound(2, 30, 200), "ends are seen late");
        assert!(!is_bound(2, 60, 1) && !is_bound(2, 60, 200));
        assert!(is_bound(0, 30, 1), "no pause is seen");
        assert!(!is_bound(2, 100, 500), "50 ms at once");
    }

    /// For how long lower priorities run in a minute beside one of whose commands so many percent
    /// end then. Its host waits for so many percent of the time, alone and beside them.
    fn beside_ms(percent: u64, waited: [u64; 2]) -> u64 {
        let (mut filling, mut beside) = (Filling::default(), 0);
        let (time, used) = (Duration::from_ms(1), Duration::from_us(200));
        for ms in 1..=60_000 {
            let now = Instant::ZERO + Duration::from_ms(ms);
            let is_beside = filling.is_host_bound(now);
            // It always says how much has ended since the last time, four milliseconds ago, and
            // waits each twenty.
            let ended = match ms % 4 {
                0 if is_beside => percent,
                0 => 100,
                _ => 0,
            };
            let used = if ended > 0 { used + used } else { Duration::ZERO };
            let waits = if ms % 20 == 0 { 200 } else { 0 };
            let waited = Some(Duration::from_us(waits * waited[usize::from(is_beside)]));
            let step = Step { time, has_work: true, used, ended, waited };
            if is_beside {
                filling.beside(step, now);
                beside += 1;
            } else {
                filling.count(step, now);
            }
        }
        beside
    }

    #[test]
    fn lower_priorities_are_held_again_if_fewer_commands_end_beside_them() {
        for alone in [0, 20, 100] {
            let beside_ms = |percent| beside_ms(percent, [alone, alone + 100 - percent]);
            assert!((52_000..60_000).contains(&beside_ms(100)), "{alone} {}", beside_ms(100));
            assert!((52_000..60_000).contains(&beside_ms(80)), "{alone} {}", beside_ms(80));
            assert!((400..900).contains(&beside_ms(65)), "{alone} {}", beside_ms(65));
            assert!((150..300).contains(&beside_ms(40)), "{alone} {}", beside_ms(40));
        }
    }

    #[test]
    fn a_host_that_is_late_without_waiting_is_not_late_because_of_others() {
        for percent in [70, 40, 1] {
            assert!((52_000..60_000).contains(&beside_ms(percent, [10, 10])));
        }
    }

    #[test]
    fn what_makes_no_sense_harms_nothing() {
        let (time, used) = (Duration::from_ms(10), Duration::MAX);
        for used in [Duration::from_ns(1), used] {
            let mut filling = Filling::default();
            for ms in 0..100 {
                let now = Instant::ZERO + Duration::from_ms(ms);
                let step = Step { time, has_work: true, used, ended: u64::MAX, waited: Some(used) };
                filling.count(step, now);
                filling.beside(step, now);
            }
        }
    }

    #[test]
    fn who_begins_to_wait_is_not_bound_any_more() {
        let mut filling = Filling::default();
        let now = run(&mut filling, 200, [20, 30], 0);
        assert!(filling.is_host_bound(now));
        let now = run(&mut filling, 200, [20, 30], 1);
        assert!(!filling.is_host_bound(now) && filling.leaves_room(now));
    }

    #[test]
    fn pauses_of_more_than_a_quarter_leave_room() {
        assert!(after(&mut Filling::default(), 100, 70, 30));
        assert!(!after(&mut Filling::default(), 100, 80, 20));
        assert!(!after(&mut Filling::default(), 39, 60, 40), "too little is known");
    }

    #[test]
    fn a_program_may_change() {
        let mut filling = Filling::default();
        assert!(after(&mut filling, 200, 20, 30));
        assert!(!after(&mut filling, 4, 5_000, 200));
        assert!(after(&mut filling, 200, 20, 30));
    }

    #[test]
    fn what_was_launched_meanwhile_does_not_count() {
        let mut filling = Filling::default();
        assert!(after(&mut filling, 200, 20, 30));
        filling.let_go();
        assert!(after(&mut filling, 1, 20_000, 30));
        assert!(!after(&mut filling, 1, 20_000, 30));
    }
}
