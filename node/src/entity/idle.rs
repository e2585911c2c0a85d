//! Short pauses in the work of a process on a GPU.
//!
//! A program that computes step by step has nothing on the device between two steps, as a language
//! model between two tokens. If others ran in each of these pauses, each step would wait until they
//! have stopped again. A process whose pauses were short, but for one in four, therefore counts as
//! ready in the next one as well, for up to twice as long as the longest short one of the last
//! eight. A pause is short if it takes no
//! more than a quarter of the work in front of it, and no more than a millisecond; one of up to
//! 0.3 ms always is, as others could hardly have begun and stopped again in it.
//!
//! ```
//! use xsched_core::time::{Duration, Instant};
//! use xsched_node::entity::IdleGrace;
//!
//! let (mut now, mut grace) = (Instant::ZERO, IdleGrace::new(Instant::ZERO));
//! for step in 0..3 {
//!     assert!(grace.observe(true, now));
//!     now += Duration::from_ms(2);
//!     // After two pauses of 0.2 ms the third is expected to be as short.
//!     assert_eq!(grace.observe(false, now), step == 2);
//!     now += Duration::from_us(200);
//! }
//! assert!(grace.observe(false, now), "it may still go on");
//! assert!(!grace.observe(false, now + Duration::from_us(200)));
//! ```

use xsched_core::time::{Duration, Instant};

/// Longest short pause: a tenth of a turn, which waiting for it may cost others.
const MAX: Duration = Duration::from_ms(1);
/// Pauses up to this one are always short: on an H200 a change of processes takes 0.1 ms, and a
/// process that is held runs on to its next gate, 0.3 ms apart.
const ALWAYS_SHORT: Duration = Duration::from_us(300);
/// Part of the work in front of it that a longer short pause takes at most.
const PART_OF_WORK: u64 = 4;
/// Pauses that are remembered. A host that was late once must not have the next steps wait for
/// others: with two, the P99 of a decoder's token beside a training was 1.28 to 1.33 times that
/// alone, and with a count of up to eight it was 1.05 (`benches/results/h200-2026-11-29-house`).
const REMEMBERED: usize = 8;
/// Short pauses for each long one, and at least two, by which the next one is expected to be short.
const SHORT_PER_LONG: usize = 3;
const SHORT_MIN: usize = 2;

/// A pause that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Short(Duration),
    Long,
}

/// Estimator of the length of a process's next pause.
#[derive(Clone, Copy, Debug)]
pub struct IdleGrace {
    has_work: bool,
    /// Since when the process has had work or none, or could run.
    since: Instant,
    /// Length of its last work that could run.
    work: Duration,
    /// Last pauses, the newest first.
    pauses: [Option<Pause>; REMEMBERED],
    /// End of the grace of this pause.
    until: Instant,
}

impl IdleGrace {
    /// The estimator of a process without work, of which nothing is known.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        let (work, pauses) = (Duration::ZERO, [None; REMEMBERED]);
        Self { has_work: false, since: now, work, pauses, until: Instant::ZERO }
    }

    /// Notes whether the process has work. True if it counts as ready.
    pub fn observe(&mut self, has_work: bool, now: Instant) -> bool {
        if has_work != self.has_work {
            let passed = now.since(std::mem::replace(&mut self.since, now));
            self.has_work = has_work;
            if has_work {
                self.note_pause(passed);
            } else {
                self.work = passed;
                self.until = now + self.expected();
            }
        }
        if now >= self.until {
            self.until = Instant::ZERO;
        }
        has_work || self.until > Instant::ZERO
    }

    /// Returns whether the process had work when it was observed last.
    #[must_use]
    pub const fn has_work(&self) -> bool {
        self.has_work
    }

    /// Notes that a hold has ended: held time is no work.
    pub const fn release(&mut self, now: Instant) {
        if self.has_work {
            self.since = now;
        }
    }

    /// End of the grace of the present pause, if there is one.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        (!self.has_work && self.until > Instant::ZERO).then_some(self.until)
    }

    fn note_pause(&mut self, passed: Duration) {
        self.until = Instant::ZERO;
        if self.work == Duration::ZERO {
            return;
        }
        let is_short = passed <= self.limit();
        self.pauses.rotate_right(1);
        self.pauses[0] = Some(if is_short { Pause::Short(passed) } else { Pause::Long });
    }

    /// The longest pause after its last work that is short.
    fn limit(&self) -> Duration {
        self.work.per(PART_OF_WORK).clamp(ALWAYS_SHORT, MAX)
    }

    /// Grace of a pause that begins now.
    fn expected(&self) -> Duration {
        let known = || self.pauses.iter().flatten();
        let (mut short, mut longest) = (0, Duration::ZERO);
        for pause in known() {
            if let Pause::Short(length) = pause {
                (short, longest) = (short + 1, longest.max(*length));
            }
        }
        let long = known().count() - short;
        let is_expected = short >= SHORT_MIN && short >= long * SHORT_PER_LONG;
        if is_expected { longest.times(2).min(self.limit()) } else { Duration::ZERO }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Pauses after work and pauses of these lengths in µs, the last work being over, and when.
    fn after(steps: &[(u64, u64)], work_us: u64) -> (IdleGrace, Instant) {
        let (mut now, mut grace) = (Instant::ZERO, IdleGrace::new(Instant::ZERO));
        for (work, pause) in steps {
            grace.observe(true, now);
            now += Duration::from_us(*work);
            grace.observe(false, now);
            now += Duration::from_us(*pause);
        }
        grace.observe(true, now);
        now += Duration::from_us(work_us);
        grace.observe(false, now);
        (grace, now)
    }

    fn waits_us(steps: &[(u64, u64)], work_us: u64) -> u64 {
        let (grace, now) = after(steps, work_us);
        grace.due().map_or(0, |due| due.since(now).as_ns() / 1_000)
    }

    #[test]
    fn the_next_pause_is_taken_to_be_as_long_as_the_longest_of_late_twice() {
        assert_eq!(waits_us(&[(2_000, 150), (2_000, 200)], 2_000), 400);
        assert_eq!(waits_us(&[(2_000, 200)], 2_000), 0, "one may be chance");
        assert_eq!(waits_us(&[(2_000, 400), (2_000, 400)], 2_000), 500, "a quarter of the work");
        assert_eq!(waits_us(&[(90_000, 900), (90_000, 900)], 90_000), 1_000, "and not longer");
        let mut steps = vec![(9_000, 400)];
        steps.extend([(9_000, 100); 7]);
        assert_eq!(waits_us(&steps, 9_000), 800, "the eighth last was 400");
        steps.push((9_000, 100));
        assert_eq!(waits_us(&steps, 9_000), 200);
    }

    #[test]
    fn who_works_little_is_not_waited_for() {
        assert_eq!(waits_us(&[(50, 600); 10], 50), 0);
        assert_eq!(waits_us(&[(2_000, 600); 10], 2_000), 0);
    }

    #[test]
    fn others_get_nothing_done_in_the_shortest() {
        assert_eq!(waits_us(&[(20, 100); 3], 20), 200);
        assert_eq!(waits_us(&[(20, 250); 3], 20), 300, "and no longer than that");
        assert_eq!(waits_us(&[(20, 310); 3], 20), 0);
    }

    #[test]
    fn one_long_pause_of_four_changes_nothing() {
        let (short, long) = ((2_000, 200), (2_000, 20_000));
        let mut steps = vec![short; 9];
        steps.push(long);
        assert_eq!(waits_us(&steps, 2_000), 400);
        steps.push(long);
        assert_eq!(waits_us(&steps, 2_000), 400, "six of eight");
        steps.push(long);
        assert_eq!(waits_us(&steps, 2_000), 0);
        steps.extend([short; 5]);
        assert_eq!(waits_us(&steps, 2_000), 0, "five of eight");
        steps.push(short);
        assert_eq!(waits_us(&steps, 2_000), 400);
        assert_eq!(waits_us(&[short, long, short, short], 2_000), 400);
        assert_eq!(waits_us(&[short, long, short], 2_000), 0);
    }

    #[test]
    fn what_is_held_does_not_work() {
        let (mut grace, mut now) = after(&[(4_000, 500), (4_000, 500)], 4_000);
        now += Duration::from_us(500);
        grace.observe(true, now);
        now += Duration::from_ms(50);
        grace.release(now);
        now += Duration::from_us(1_600);
        assert!(grace.observe(false, now));
        assert_eq!(grace.due(), Some(now + Duration::from_us(400)));
        grace.release(now + Duration::from_us(10));
        assert_eq!(grace.due(), Some(now + Duration::from_us(400)), "it had no work");
    }
}
