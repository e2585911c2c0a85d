//! Detection whether a process fills its GPU, or leaves room for others beside it.
//!
//! A program that launches kernel by kernel may need the device for a part of the time alone: while
//! the host makes the next launch ready, the device has nothing to do. Several such programs get
//! more done at a time than one after the other. A process [leaves room](Claim::Part) if it
//! used less than three quarters of the last milliseconds in which it had the device to itself.
//! Work that was launched during a hold runs without pauses after it, and does not count.
//!
//! A pause may have two reasons. The host waited for what ran, and goes on now that it has: the
//! sooner that runs, the sooner the next. Or the host is slower than the device, and launches no
//! later if others have the device meanwhile. A process is [bound by its host](Claim::Little)
//! if it used less than half of the time, and the host has not waited for some of the device's time
//! slices. Lower priorities may run beside it: they cost at most a time slice each time that it
//! waits.
//!
//! Ends are seen late, and short pauses not at all. Used time is therefore what the process says of
//! it, which it does when commands have ended. Whether lower priorities do cost no more is tried:
//! if [fewer](Trial) of its commands end beside them than alone in the same time, and its host
//! waits longer, they are held again, for forty trials at first, and longer each time. If fewer end
//! and its host waits no longer, the host was late for another reason.
//!
//! ```
//! use xsched_core::message::Claim;
//! use xsched_core::time::{Duration, Instant};
//! use xsched_node::entity::{HostBoundDetector, Step};
//!
//! let (mut now, mut detector) = (Instant::ZERO, HostBoundDetector::default());
//! assert_eq!(detector.claim(now), Claim::Whole, "nothing is known");
//! for _ in 0..200 {
//!     for (has_work, us) in [(true, 20), (false, 30)] {
//!         now += Duration::from_us(us);
//!         let time = Duration::from_us(us);
//!         let used = if has_work { time } else { Duration::ZERO };
//!         let step = Step { time, has_work, used, ended: 1, waited: Some(Duration::ZERO) };
//!         detector.ran_alone(step, now);
//!     }
//! }
//! assert_eq!(detector.claim(now), Claim::Little, "the host has not waited");
//! assert_eq!(detector.claim(now + Duration::from_ms(1_000)), Claim::Whole, "this may change");
//! ```

use xsched_core::message::Claim;
use xsched_core::time::{Duration, Instant};

/// Time alone after which something can be said, and for which a host has not waited that rarely
/// does: four time slices of an NVIDIA GPU.
const MIN_SAMPLE: Duration = Duration::from_ms(8);
/// Parts of [`WHOLE`] of the time that a process uses less than if it leaves room, and if it is
/// bound by its host.
const PARTIAL: u64 = 3;
const HOST_BOUND: u64 = 2;
const WHOLE: u64 = 4;
/// Time for which a process counts as it was last seen alone.
const VALID_FOR: Duration = Duration::from_ms(1_000);
/// Pause after a trial that has failed, in trials, at first and at most: a first one makes 2.5 % of
/// the time worse.
const BACKOFF_TRIALS: [u64; 2] = [40, 1_280];

/// Some time in the life of a process that is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Length of the step.
    pub time: Duration,
    /// The process had work then, or was in a pause.
    pub has_work: bool,
    /// Device time of the commands that it has said to have ended in it.
    pub used: Duration,
    /// Number of these.
    pub ended: u64,
    /// Time for which its host has waited for the device, not zero if it has, or asked and heard
    /// that it was done. `None` if that is not known.
    pub waited: Option<Duration>,
}

/// How others beside a process that is bound by its host are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Time beside others after which it is judged.
    pub window: Duration,
    /// Percent of the commands that end alone of which as many end beside others.
    pub least_percent: u8,
}

impl Default for Trial {
    fn default() -> Self {
        Self { window: Duration::from_ms(100), least_percent: 75 }
    }
}

/// Detector of processes that leave room, and of those that are bound by their hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostBoundDetector {
    /// Of the time that it had the device to itself, up to when it last said what it used: all, and
    /// what it used.
    alone: Duration,
    used: Duration,
    /// Time for which it had the device to itself since its host waited.
    unwaited: Duration,
    /// The process may still run what it launched while it was held.
    drains_backlog: bool,
    /// The process used less than half of the time by its last report.
    uses_little: bool,
    found: Claim,
    /// Up to then that holds.
    until: Instant,
    trials: Trials,
}

impl HostBoundDetector {
    /// Has others be tried like this from now on.
    pub const fn set_trial(&mut self, trial: Trial) {
        self.trials.trial = trial;
    }

    /// Counts time in which the process had the device to itself, up to now.
    pub fn ran_alone(&mut self, step: Step, now: Instant) {
        self.unwaited += step.time;
        self.note_waited(step);
        if self.drains_backlog {
            self.drains_backlog = step.has_work;
            return;
        }
        self.trials.ran_alone(step);
        self.alone += step.time;
        self.used += step.used;
        // Between two times that it says what it used, that may be much at once.
        if step.used == Duration::ZERO || self.alone < MIN_SAMPLE {
            return;
        }
        if self.alone.per(2) >= MIN_SAMPLE {
            (self.alone, self.used) = (self.alone.per(2), self.used.per(2));
        }
        self.uses_little = self.uses_less_than(HOST_BOUND);
        let rarely_waits = self.unwaited >= MIN_SAMPLE;
        self.found = if self.uses_little && rarely_waits && self.trials.may_begin(now) {
            Claim::Little
        } else if self.uses_less_than(PARTIAL) {
            Claim::Part
        } else {
            Claim::Whole
        };
        self.until = now + VALID_FOR;
    }

    /// Counts time in which the process ran beside others, up to now.
    pub fn ran_beside_others(&mut self, step: Step, now: Instant) {
        self.note_waited(step);
        if self.claim(now) == Claim::Little && self.trials.has_failed(step, now) {
            self.found = Claim::Part;
        }
    }

    /// Counts time in which the process did not run, up to now.
    pub fn did_not_run(&mut self, step: Step) {
        self.note_waited(step);
    }

    fn note_waited(&mut self, step: Step) {
        if step.waited != Some(Duration::ZERO) {
            self.unwaited = Duration::ZERO;
        }
    }

    fn uses_less_than(&self, parts: u64) -> bool {
        self.used.times(WHOLE) < self.alone.times(parts)
    }

    /// Notes that a hold has ended.
    pub const fn release(&mut self) {
        self.drains_backlog = true;
    }

    /// Returns whether the process may be found to be bound by its host if it is seen more often
    /// than its host waits.
    #[must_use]
    pub fn may_be_host_bound(&self, now: Instant) -> bool {
        self.uses_little && self.claim(now) != Claim::Little && self.trials.may_begin(now)
    }

    /// Claim that the process was last found to have, or [`Claim::Whole`] if that was long ago.
    #[must_use]
    pub fn claim(&self, now: Instant) -> Claim {
        if now < self.until { self.found } else { Claim::Whole }
    }
}

/// Commands that ended in some time, both counted from one end to another, and the time that the
/// host waited meanwhile and before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    time: Duration,
    ended: u64,
    waited: Duration,
    /// Time since the last end, if there was one.
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
            // A process may say anything.
            self.ended = self.ended.saturating_add(step.ended);
        }
    }

    /// Time in which the host did not wait.
    fn unwaited(self) -> Duration {
        Duration::from_ns(self.time.as_ns().saturating_sub(self.waited.as_ns()))
    }

    /// Returns whether less than this part of what ended alone ended beside others, because the
    /// host waited longer. Of a host that mostly waits this is not known, and taken to be so.
    fn is_below(self, percent: u8, alone: Self) -> bool {
        let product = |got: u64, of: Duration, factor: u64| {
            u128::from(got) * u128::from(of.as_ns()) * u128::from(factor)
        };
        let less = |beside: u64, by_itself: u64| {
            product(beside, alone.time, 100) < product(by_itself, self.time, percent.into())
        };
        let mostly_waits = alone.unwaited() < alone.time.per(2);
        let waits_longer = less(self.unwaited().as_ns(), alone.unwaited().as_ns());
        less(self.ended, alone.ended) && (mostly_waits || waits_longer)
    }

    /// Half of it.
    const fn half(self) -> Self {
        let (time, waited) = (self.time.per(2), self.waited.per(2));
        Self { time, ended: self.ended / 2, waited, ..self }
    }
}

/// Compares how a process gets on beside lower priorities, and alone.
#[derive(Clone, Copy, Debug)]
struct Trials {
    trial: Trial,
    alone: Rate,
    beside: Rate,
    /// Begin of the next one, and the pause after the next one that fails, in trials.
    next: Instant,
    backoff: u64,
}

impl Default for Trials {
    fn default() -> Self {
        let (alone, beside, next) = (Rate::default(), Rate::default(), Instant::ZERO);
        Self { trial: Trial::default(), alone, beside, next, backoff: BACKOFF_TRIALS[0] }
    }
}

impl Trials {
    fn may_begin(&self, now: Instant) -> bool {
        now >= self.next
    }

    fn ran_alone(&mut self, step: Step) {
        self.beside.since = None;
        self.alone.count(step);
        if self.alone.time >= self.trial.window {
            self.alone = self.alone.half();
        }
    }

    /// Counts time beside others. True if the process has turned out to get on less well.
    fn has_failed(&mut self, step: Step, now: Instant) -> bool {
        self.alone.since = None;
        self.beside.count(step);
        if self.beside.time < self.trial.window {
            return false;
        }
        let has_failed = self.beside.is_below(self.trial.least_percent, self.alone);
        if has_failed {
            self.next = now + self.trial.window.times(self.backoff);
            self.backoff = (2 * self.backoff).min(BACKOFF_TRIALS[1]);
        } else {
            self.backoff = BACKOFF_TRIALS[0];
        }
        self.beside = Rate::default();
        has_failed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NOT: Option<Duration> = Some(Duration::ZERO);

    /// Runs steps of work and of a pause of these lengths in µs. The host waits this long in each.
    fn run(
        detector: &mut HostBoundDetector,
        steps: u32,
        us: [u64; 2],
        waited: Option<Duration>,
    ) -> Claim {
        let mut now = Instant::from_ns(1);
        for _ in 0..steps {
            for (has_work, us) in [true, false].into_iter().zip(us) {
                now += Duration::from_us(us);
                let time = Duration::from_us(us);
                let used = if has_work { time } else { Duration::ZERO };
                detector.ran_alone(Step { time, has_work, used, ended: 1, waited }, now);
            }
        }
        detector.claim(now)
    }

    /// The demand of a process whose host waits each time.
    fn after(detector: &mut HostBoundDetector, steps: u32, work_us: u64, pause_us: u64) -> Claim {
        run(detector, steps, [work_us, pause_us], Some(Duration::from_us(1)))
    }

    #[test]
    fn who_pauses_without_waiting_is_bound_by_its_host() {
        let claim = |us, waited| run(&mut HostBoundDetector::default(), 200, us, waited);
        assert_eq!(claim([20, 30], NOT), Claim::Little);
        let waits = Some(Duration::from_us(1));
        assert_eq!(claim([20, 30], waits), Claim::Part);
        assert_eq!(claim([2_000, 3_000], waits), Claim::Part, "it waits each 5 ms");
        assert_eq!(claim([30, 20], NOT), Claim::Part, "it needs most of the device");
        assert_eq!(claim([20, 30], None), Claim::Part, "nothing says it");
        let [time, used] = [20, 1].map(Duration::from_ms);
        let once = |waited| {
            let mut detector = HostBoundDetector::default();
            let step = Step { time, has_work: true, used, ended: 1, waited };
            detector.ran_alone(step, Instant::ZERO);
            detector.ran_alone(step, Instant::ZERO);
            detector.claim(Instant::ZERO)
        };
        assert_eq!([once(None), once(NOT)], [Claim::Part, Claim::Little], "in one step");
    }

    #[test]
    fn waits_count_whenever_they_are() {
        let [time, used] = [Duration::from_ms(4), Duration::from_ms(1)];
        let is_bound = |between: &dyn Fn(&mut HostBoundDetector, Step)| {
            let mut detector = HostBoundDetector::default();
            let step = Step { time, has_work: true, used, ended: 1, waited: NOT };
            detector.ran_alone(step, Instant::ZERO);
            between(&mut detector, Step { waited: Some(used), ..step });
            detector.ran_alone(step, Instant::ZERO);
            detector.claim(Instant::ZERO) == Claim::Little
        };
        assert!(is_bound(&|_, _| {}));
        assert!(!is_bound(&|detector, waits| detector.did_not_run(waits)));
        assert!(!is_bound(&|detector, waits| detector.ran_beside_others(waits, Instant::ZERO)));
    }

    /// Returns whether steps of 100 µs, of which this many in ten are seen as pauses, count as
    /// bound by the host. The process says what it used each time that `ended` commands have ended.
    fn is_bound(pauses: u32, used_us: u64, ended: u32) -> bool {
        let (mut detector, mut was_bound) = (HostBoundDetector::default(), false);
        let time = Duration::from_us(100);
        for step in 1..=1_000 {
            let now = Instant::ZERO + Duration::from_us(u64::from(step) * 100);
            let has_ended = step % ended == 0;
            let used = Duration::from_us(if has_ended { used_us * u64::from(ended) } else { 0 });
            let has_work = step % 10 >= pauses;
            let ended = u64::from(has_ended);
            detector.ran_alone(Step { time, has_work, used, ended, waited: NOT }, now);
            was_bound |= detector.claim(now) == Claim::Little;
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

    /// Time for which lower priorities run in a minute beside one of whose commands this percentage
    /// ends then. Its host waits for these percentages of the time, alone and beside them.
    fn beside_ms(percent: u64, waited: [u64; 2]) -> u64 {
        let (mut detector, mut beside) = (HostBoundDetector::default(), 0);
        let (time, used) = (Duration::from_ms(1), Duration::from_us(200));
        for ms in 1..=60_000 {
            let now = Instant::ZERO + Duration::from_ms(ms);
            let is_beside = detector.claim(now) == Claim::Little;
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
                detector.ran_beside_others(step, now);
                beside += 1;
            } else {
                detector.ran_alone(step, now);
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
            assert!((400..900).contains(&beside_ms(40)), "{alone} {}", beside_ms(40));
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
        let (time, most) = (Duration::from_ms(10), Duration::MAX);
        for used in [Duration::from_ns(1), most] {
            let mut detector = HostBoundDetector::default();
            for ms in 0..100 {
                let now = Instant::ZERO + Duration::from_ms(ms);
                let step = Step { time, has_work: true, used, ended: u64::MAX, waited: Some(used) };
                detector.ran_alone(step, now);
                detector.ran_beside_others(step, now);
            }
        }
    }

    #[test]
    fn who_begins_to_wait_is_not_bound_any_more() {
        let mut detector = HostBoundDetector::default();
        assert_eq!(run(&mut detector, 200, [20, 30], NOT), Claim::Little);
        assert_eq!(after(&mut detector, 200, 20, 30), Claim::Part);
    }

    #[test]
    fn pauses_of_more_than_a_quarter_leave_room() {
        assert_eq!(after(&mut HostBoundDetector::default(), 100, 70, 30), Claim::Part);
        assert_eq!(after(&mut HostBoundDetector::default(), 100, 80, 20), Claim::Whole);
        assert_eq!(after(&mut HostBoundDetector::default(), 79, 60, 40), Claim::Whole, "too few");
    }

    #[test]
    fn a_program_may_change() {
        let mut detector = HostBoundDetector::default();
        assert_eq!(after(&mut detector, 400, 20, 30), Claim::Part);
        assert_eq!(after(&mut detector, 8, 5_000, 200), Claim::Whole);
        assert_eq!(after(&mut detector, 1_000, 20, 30), Claim::Part);
    }

    #[test]
    fn what_was_launched_meanwhile_does_not_count() {
        let mut detector = HostBoundDetector::default();
        assert_eq!(after(&mut detector, 400, 20, 30), Claim::Part);
        detector.release();
        assert_eq!(after(&mut detector, 1, 20_000, 30), Claim::Part);
        assert_eq!(after(&mut detector, 2, 20_000, 30), Claim::Whole);
    }
}
