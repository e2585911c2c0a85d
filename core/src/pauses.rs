//! Short pauses in the work of a [unit](crate::unit).
//!
//! A program that computes step by step has nothing on the device between two steps, as a language
//! model between two tokens. If others were let run in each of these pauses, each step would wait
//! until they have stopped again. So a unit whose last pauses were short counts as having work in
//! the next one as well, for up to twice as long as they took. A pause is short if it takes no more
//! than a quarter of the work in front of it, and no more than a millisecond; and one of up to
//! 0.3 ms always is, as others could hardly have begun and stopped again in it.
//!
//! ```
//! use xsched_core::pauses::Pauses;
//! use xsched_core::time::{Duration, Instant};
//!
//! let (mut now, mut pauses) = (Instant::ZERO, Pauses::new(Instant::ZERO));
//! for step in 0..3 {
//!     assert!(pauses.look(true, now));
//!     now += Duration::from_ms(2);
//!     // After two pauses of 0.2 ms the third is expected to be as short.
//!     assert_eq!(pauses.look(false, now), step == 2);
//!     now += Duration::from_us(200);
//! }
//! assert!(pauses.look(false, now), "it may still go on");
//! assert!(!pauses.look(false, now + Duration::from_us(200)));
//! ```

use crate::time::{Duration, Instant};

/// No longer pause is short.
const LONGEST: Duration = Duration::from_ms(1);
/// Pauses up to this one are short whatever was in front of them: on an H200 a change of processes
/// takes 0.1 ms, and a process that is held runs on to its next gate, 0.3 ms apart.
const NONE: Duration = Duration::from_us(300);
/// A longer short pause takes this part of the work in front of it at most.
const PART: u64 = 4;
/// With so many short pauses, beyond twice the long ones, the next is taken to be short.
const ENOUGH: u8 = 2;
/// More are not counted.
const MOST: u8 = 8;

/// Knows how long the pauses of a unit are.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    has_work: bool,
    /// Since when that is so, or it may run.
    since: Instant,
    /// For how long it had its last work and could run.
    work: Duration,
    /// The longest short pause of late.
    longest: Duration,
    short: u8,
    /// Up to then it counts as having work.
    until: Instant,
}

impl Pauses {
    /// Those of a unit that is known from now on, and has no work.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        let (work, longest) = (Duration::ZERO, Duration::ZERO);
        Self { has_work: false, since: now, work, longest, short: 0, until: Instant::ZERO }
    }

    /// The unit has work now or none. True if it counts as having some.
    pub fn look(&mut self, has_work: bool, now: Instant) -> bool {
        if has_work != self.has_work {
            let passed = now.since(core::mem::replace(&mut self.since, now));
            self.has_work = has_work;
            if has_work {
                self.note(passed);
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

    /// Whether it had work when it was looked at last.
    #[must_use]
    pub const fn has_work(&self) -> bool {
        self.has_work
    }

    /// The unit may run from now on; before, it was held. Time in which it was held is no work.
    pub fn let_go(&mut self, now: Instant) {
        if self.has_work {
            self.since = now;
        }
    }

    /// When it is to be looked at again, because the present pause is no longer short then.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        (!self.has_work && self.until > Instant::ZERO).then_some(self.until)
    }

    /// A pause is over.
    fn note(&mut self, passed: Duration) {
        self.until = Instant::ZERO;
        if self.work > Duration::ZERO && passed <= self.limit() {
            self.short = (self.short + 1).min(MOST);
            let before = Duration::from_ns(self.longest.as_ns() - self.longest.as_ns() / 8);
            self.longest = passed.max(before);
        } else {
            self.short = self.short.saturating_sub(2);
        }
    }

    /// The longest pause after its last work that is short.
    fn limit(&self) -> Duration {
        self.work.per(PART).clamp(NONE, LONGEST)
    }

    /// For how long a pause that begins now is waited for.
    fn expected(&self) -> Duration {
        let wanted = Duration::from_ns(self.longest.as_ns().saturating_mul(2));
        if self.short < ENOUGH { Duration::ZERO } else { wanted.min(self.limit()) }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    /// Pauses after work and pauses of these lengths in µs, the last work being over, and when.
    fn after(steps: &[(u64, u64)], work_us: u64) -> (Pauses, Instant) {
        let (mut now, mut pauses) = (Instant::ZERO, Pauses::new(Instant::ZERO));
        for (work, pause) in steps {
            pauses.look(true, now);
            now += Duration::from_us(*work);
            pauses.look(false, now);
            now += Duration::from_us(*pause);
        }
        pauses.look(true, now);
        now += Duration::from_us(work_us);
        pauses.look(false, now);
        (pauses, now)
    }

    fn waits_us(steps: &[(u64, u64)], work_us: u64) -> u64 {
        let (pauses, now) = after(steps, work_us);
        pauses.due().map_or(0, |due| due.since(now).as_ns() / 1_000)
    }

    #[test]
    fn the_next_pause_is_taken_to_be_as_long_as_the_longest_twice() {
        assert_eq!(waits_us(&[(2_000, 150), (2_000, 200)], 2_000), 400);
        assert_eq!(waits_us(&[(2_000, 200)], 2_000), 0, "one may be chance");
        assert_eq!(waits_us(&[(2_000, 400), (2_000, 400)], 2_000), 500, "a quarter of the work");
        assert_eq!(waits_us(&[(90_000, 900), (90_000, 900)], 90_000), 1_000, "and not longer");
        // A long one ago it was 800.
        let mut steps = vec![(9_000, 800)];
        steps.extend([(9_000, 100); 30]);
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
    fn long_pauses_count_twice() {
        let mut steps = vec![(2_000, 200); 9];
        steps.extend([(2_000, 20_000); 3]);
        assert_eq!(waits_us(&steps, 2_000), 400);
        steps.push((2_000, 20_000));
        assert_eq!(waits_us(&steps, 2_000), 0);
    }

    #[test]
    fn what_is_held_does_not_work() {
        let (mut pauses, mut now) = after(&[(4_000, 500), (4_000, 500)], 4_000);
        now += Duration::from_us(500);
        pauses.look(true, now);
        now += Duration::from_ms(50);
        pauses.let_go(now);
        now += Duration::from_us(1_600);
        assert!(pauses.look(false, now));
        assert_eq!(pauses.due(), Some(now + Duration::from_us(400)));
        pauses.let_go(now + Duration::from_us(10));
        assert_eq!(pauses.due(), Some(now + Duration::from_us(400)), "it had no work");
    }
}
