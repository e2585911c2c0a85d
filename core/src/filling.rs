//! Whether a [unit](crate::unit) fills the device, or leaves room for others beside it.
//!
//! A program that launches kernel by kernel may need the device for a part of the time alone: while
//! the host makes the next launch ready, the device has nothing to do. Several such programs get
//! more done at a time than one after the other. A unit leaves room if its pauses took more than a
//! quarter of the last milliseconds in which it had the device to itself; then it counts as such
//! for a second. What it had launched while it was held runs without pauses when it is let go, and
//! does not count.
//!
//! ```
//! use xsched_core::filling::Filling;
//! use xsched_core::time::{Duration, Instant};
//!
//! let (mut now, mut filling) = (Instant::ZERO, Filling::default());
//! assert!(!filling.leaves_room(now), "nothing is known");
//! for _ in 0..100 {
//!     for (has_work, us) in [(true, 20), (false, 30)] {
//!         now += Duration::from_us(us);
//!         filling.count(Duration::from_us(us), has_work, now);
//!     }
//! }
//! assert!(filling.leaves_room(now));
//! assert!(!filling.leaves_room(now + Duration::from_ms(1_000)), "that may have changed");
//! ```

use crate::time::{Duration, Instant};

/// Pauses that take more than this part leave room.
const PART: u64 = 4;
/// So much of the time says how it is.
const ENOUGH: Duration = Duration::from_ms(4);
/// For so long a unit counts as it was last seen alone.
const KEPT: Duration = Duration::from_ms(1_000);

/// Knows whether a unit leaves room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    /// Of the time in which it had the device to itself, with work and without.
    work: Duration,
    pause: Duration,
    /// It may still run what it launched while it was held.
    is_behind: bool,
    /// Until then it leaves room.
    until: Instant,
}

impl Filling {
    /// It had the device to itself for so long up to now, in which it had work or was in a pause.
    pub fn count(&mut self, alone: Duration, has_work: bool, now: Instant) {
        if self.is_behind {
            self.is_behind = has_work;
            return;
        }
        let part = if has_work { &mut self.work } else { &mut self.pause };
        *part += alone;
        let all = self.work + self.pause;
        if all < ENOUGH {
            return;
        }
        let leaves_room = self.pause > all.per(PART);
        self.until = if leaves_room { now + KEPT } else { Instant::ZERO };
        (self.work, self.pause) = (self.work.per(2), self.pause.per(2));
    }

    /// It was held up to now.
    pub const fn let_go(&mut self) {
        self.is_behind = true;
    }

    /// Whether it leaves room for others.
    #[must_use]
    pub fn leaves_room(&self, now: Instant) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many steps of work and of a pause, in µs.
    fn after(filling: &mut Filling, steps: u64, work_us: u64, pause_us: u64) -> bool {
        let mut now = Instant::from_ns(1);
        for _ in 0..steps {
            for (has_work, us) in [(true, work_us), (false, pause_us)] {
                now += Duration::from_us(us);
                filling.count(Duration::from_us(us), has_work, now);
            }
        }
        filling.leaves_room(now)
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
