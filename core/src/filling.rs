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
//! later if others have the device meanwhile. A unit is bound by its host if its pauses took more
//! than half of the time, and the host has not waited for some of the device's time slices. Lower
//! priorities may run beside it: what they cost is at most a time slice each time that it waits.
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
//!         let step = Step { alone: Duration::from_us(us), has_work, waits: Some(7) };
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
/// Pauses that take more than this part are those of a unit that is bound by its host.
const HOST_PART: u64 = 2;
/// A host that has not waited for so long while its unit had the device to itself rarely does: four
/// time slices of an NVIDIA GPU.
const UNWAITED: Duration = Duration::from_ms(8);
/// So much of the time says how it is.
const ENOUGH: Duration = Duration::from_ms(4);
/// For so long a unit counts as it was last seen alone.
const KEPT: Duration = Duration::from_ms(1_000);

/// Some time in which a unit had the device to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How long that was.
    pub alone: Duration,
    /// It had work then, or was in a pause.
    pub has_work: bool,
    /// How often its host has waited for the device by now, or asked and heard that it was done;
    /// `None` if that is not known.
    pub waits: Option<u32>,
}

/// Knows whether a unit leaves room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    /// Of the time in which it had the device to itself, with work and without.
    work: Duration,
    pause: Duration,
    /// How often its host had waited, and how long it had the device to itself since.
    waits: Option<u32>,
    unwaited: Duration,
    /// It may still run what it launched while it was held.
    is_behind: bool,
    /// Until then it leaves room, and is bound by its host.
    until: Instant,
    host_until: Instant,
}

impl Filling {
    /// It had the device to itself up to now.
    pub fn count(&mut self, step: Step, now: Instant) {
        if step.waits.is_none() || step.waits != self.waits {
            (self.waits, self.unwaited) = (step.waits, Duration::ZERO);
        }
        if self.is_behind {
            self.is_behind = step.has_work;
            return;
        }
        self.unwaited += step.alone;
        let part = if step.has_work { &mut self.work } else { &mut self.pause };
        *part += step.alone;
        let all = self.work + self.pause;
        if all < ENOUGH {
            return;
        }
        let until = |is_so| if is_so { now + KEPT } else { Instant::ZERO };
        self.until = until(self.pause > all.per(PART));
        let rarely_waits = self.unwaited >= UNWAITED;
        self.host_until = until(rarely_waits && self.pause > all.per(HOST_PART));
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

    /// Whether it is bound by its host.
    #[must_use]
    pub fn is_host_bound(&self, now: Instant) -> bool {
        now < self.host_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many steps of work and of a pause, in µs. The host waits `waits` times in each.
    fn run(filling: &mut Filling, steps: u32, us: [u64; 2], waits: u32) -> Instant {
        let mut now = Instant::from_ns(1);
        for step in 0..steps {
            for (has_work, us) in [true, false].into_iter().zip(us) {
                now += Duration::from_us(us);
                let waits = Some(1 + step.wrapping_mul(waits));
                filling.count(Step { alone: Duration::from_us(us), has_work, waits }, now);
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
        let is_bound = |us, waits| {
            let mut filling = Filling::default();
            let now = run(&mut filling, 200, us, waits);
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
                filling.count(Step { alone, has_work, waits: None }, now);
            }
        }
        assert!(filling.leaves_room(now) && !filling.is_host_bound(now), "nothing says it");
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
