//! Whether queues of a device had work on it at the same time.
//!
//! What a command takes is measured between two moments of the device. If another queue had the
//! device for a part of that, the measurement says nothing about the command.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::share::{Measured, Shares};
use crate::sync::{AtomicBool, Mutex, fence, lock};

/// When a measurement begins, by the host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Since {
    /// Probably then.
    pub(crate) probably: Option<Instant>,
    /// Not before then.
    pub(crate) earliest: Option<Instant>,
}

impl Since {
    /// Not before this launch into an idle queue, and probably then.
    pub(crate) const fn launch(at: Option<Instant>) -> Self {
        Self { probably: at, earliest: at }
    }

    /// The same with what else is known: that it is so long after another one began.
    pub(crate) fn after(self, before: Self, elapsed_ns: u64) -> Self {
        let elapsed = std::time::Duration::from_nanos(elapsed_ns);
        let then = before.earliest.and_then(|at| at.checked_add(elapsed));
        let earliest = self.earliest.max(then);
        Self { probably: self.probably.max(earliest), earliest }
    }
}

/// What else had work on the device during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing.
    Nothing,
    /// Another queue that probably came after it began, and nothing when it began.
    Later,
    /// Another queue, or perhaps.
    Others,
}

/// How many queues have work on a device.
#[derive(Debug, Default)]
pub(crate) struct Occupancy(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Queues with work on the device that is not held.
    inside: u32,
    /// More than one queue had work on the device from then until then, the last time.
    shared_from: Option<Instant>,
    shared_until: Option<Instant>,
    /// The time before, until then.
    shared_before: Option<Instant>,
    /// Up to then, the shared time was told to `shares`.
    told_until: Option<Instant>,
    shares: Shares,
    /// Commands of a queue that was held may have run until then.
    drain_until: Option<Instant>,
}

/// Whether a queue has work on the device. Both fields are written under the lock.
#[derive(Debug)]
pub(crate) struct Occupant {
    inside: AtomicBool,
    held: AtomicBool,
}

impl Default for Occupant {
    fn default() -> Self {
        Self { inside: AtomicBool::new(false), held: AtomicBool::new(false) }
    }
}

impl Occupant {
    /// Whether it counts as having no work, after a launch was counted. With the fence in
    /// [`Occupancy::leave`], either this sees that it left, or that sees the launch.
    pub(crate) fn has_left(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.is_inside()
    }

    fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }
}

impl Occupancy {
    /// Something was launched.
    pub(crate) fn enter(&self, occupant: &Occupant, now: Instant) {
        let mut state = lock(&self.0);
        if !occupant.held.load(Ordering::Relaxed) {
            state.enter(occupant, now);
        }
    }

    /// Everything has been seen to retire, unless `is_idle` says otherwise by now.
    pub(crate) fn leave(&self, occupant: &Occupant, now: Instant, is_idle: impl Fn() -> bool) {
        let mut state = lock(&self.0);
        if !occupant.is_inside() {
            return;
        }
        occupant.inside.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_idle() {
            state.leave(now);
        } else {
            occupant.inside.store(true, Ordering::Relaxed);
        }
    }

    /// The queue is held, and what runs goes on until then at most.
    pub(crate) fn hold(&self, occupant: &Occupant, until: Instant) {
        let mut state = lock(&self.0);
        occupant.held.store(true, Ordering::Relaxed);
        if occupant.is_inside() {
            occupant.inside.store(false, Ordering::Relaxed);
            state.leave(until);
            state.drain_until = state.drain_until.max(Some(until));
        }
    }

    /// The queue is held no more.
    pub(crate) fn release(&self, occupant: &Occupant, now: Instant, is_idle: bool) {
        let mut state = lock(&self.0);
        occupant.held.store(false, Ordering::Relaxed);
        if !is_idle {
            state.enter(occupant, now);
        }
    }

    /// Queues that count as having work.
    #[cfg(all(test, loom))]
    pub(crate) fn inside(&self) -> u32 {
        lock(&self.0).inside
    }

    /// Commands of a queue that were not measured, and ran after `since`, count as so much, in
    /// nanoseconds.
    pub(crate) fn counted(&self, since: Option<Instant>, until: Instant, ns: u64) {
        let mut state = lock(&self.0);
        if state.is_shared_since(since) {
            state.tell(until);
            state.shares.counted(ns);
        }
    }

    /// What a queue used of what was measured between two moments, in nanoseconds, and what else
    /// had work on the device at some time in between, or may have had.
    ///
    /// Nothing says when it began where `since` has no moments. `measured.shared_ns` is set here.
    pub(crate) fn used_ns(
        &self,
        since: Since,
        until: Instant,
        mut measured: Measured,
    ) -> (u64, Beside) {
        let mut state = lock(&self.0);
        let beside = state.beside(since);
        if !state.is_shared_since(since.probably) {
            return (measured.elapsed_ns, beside);
        }
        state.tell(until);
        measured.shared_ns = state.shared_part(since.probably, until, measured.elapsed_ns);
        (state.shares.used_ns(measured), beside)
    }
}

impl State {
    fn enter(&mut self, occupant: &Occupant, now: Instant) {
        if occupant.is_inside() {
            return;
        }
        let drains = self.drain_until > Some(now);
        if self.inside == 1 || drains && self.inside == 0 {
            self.tell(now);
            self.shared_before = self.shared_until;
            self.shared_from = Some(now);
        }
        occupant.inside.store(true, Ordering::Relaxed);
        self.inside += 1;
        if drains {
            self.shared_until = self.shared_until.max(self.drain_until);
        }
    }

    fn leave(&mut self, at: Instant) {
        if self.inside > 1 {
            self.shared_until = self.shared_until.max(Some(at));
        }
        self.inside = self.inside.saturating_sub(1);
    }

    fn beside(&self, since: Since) -> Beside {
        let began_alone = since.earliest.is_some() && self.shared_before <= since.earliest;
        if !self.is_shared_since(since.earliest) {
            Beside::Nothing
        } else if began_alone && since.probably <= self.shared_from {
            Beside::Later
        } else {
            Beside::Others
        }
    }

    fn is_shared_since(&self, since: Option<Instant>) -> bool {
        self.inside > 1 || self.shared_until.is_some() && self.shared_until > since
    }

    /// Until when the device is shared, looked at from then.
    fn shared_until(&self, now: Instant) -> Instant {
        if self.inside > 1 { now } else { self.shared_until.map_or(now, |until| until.min(now)) }
    }

    /// Tells how long the device has been shared.
    fn tell(&mut self, now: Instant) {
        let until = self.shared_until(now);
        if let Some(from) = self.shared_from.max(self.told_until) {
            self.shares.passed(ns_between(from, until));
        }
        self.told_until = self.told_until.max(Some(until));
    }

    /// Of a measurement between two moments, what lies in the shared time.
    fn shared_part(&self, since: Option<Instant>, until: Instant, elapsed_ns: u64) -> u64 {
        let Some(since) = since else { return elapsed_ns };
        let whole = u128::from(ns_between(since, until));
        let from = self.shared_from.map_or(since, |from| from.max(since));
        let shared = u128::from(ns_between(from, self.shared_until(until)));
        let part = (u128::from(elapsed_ns) * shared).checked_div(whole);
        part.map_or(elapsed_ns, |part| part.min(u128::from(elapsed_ns)) as u64)
    }
}

fn ns_between(from: Instant, until: Instant) -> u64 {
    u64::try_from(until.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    impl Occupancy {
        fn shared_since(&self, since: Option<Instant>) -> bool {
            lock(&self.0).is_shared_since(since)
        }
    }

    #[test]
    fn what_may_have_begun_beside_another_queue_says_nothing_of_a_command() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let (device, one, second) =
            (Occupancy::default(), Occupant::default(), Occupant::default());
        device.enter(&one, at(0));
        device.enter(&second, at(1));
        device.leave(&second, at(500), || true);
        let measured = Measured {
            elapsed_ns: 1_000_000,
            shared_ns: 0,
            expected_ns: Some(500_000),
            is_certain: true,
        };
        let used = |earliest| {
            let since = Since { probably: Some(at(600)), earliest: Some(at(earliest)) };
            device.used_ns(since, at(1_100), measured)
        };
        assert_eq!(
            used(400),
            (1_000_000, Beside::Others),
            "it probably ran alone, and perhaps not"
        );
        assert_eq!(used(500), (1_000_000, Beside::Nothing));
    }

    #[test]
    fn what_began_before_another_queue_came_had_the_device_first() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let (device, one, second) =
            (Occupancy::default(), Occupant::default(), Occupant::default());
        let measured = Measured {
            elapsed_ns: 500_000,
            shared_ns: 0,
            expected_ns: Some(500_000),
            is_certain: true,
        };
        let beside = |probably, earliest| {
            let since = Since { probably: Some(at(probably)), earliest: Some(at(earliest)) };
            device.used_ns(since, at(probably + 500), measured).1
        };
        device.enter(&one, at(0));
        device.enter(&second, at(100));
        device.hold(&one, at(600));
        assert_eq!(beside(0, 0), Beside::Later);
        assert_eq!(beside(200, 0), Beside::Others, "it probably began when both had work");
        // The first queue's last command is over, and another one comes beside the second's.
        device.release(&one, at(900), false);
        assert_eq!(beside(700, 600), Beside::Later);
        assert_eq!(beside(700, 500), Beside::Others, "it may have begun beside that");
        let unknown = Since { probably: Some(at(700)), earliest: None };
        assert_eq!(device.used_ns(unknown, at(1_200), measured).1, Beside::Others);
    }

    /// A queue has the device for itself, until another comes for four commands, again and again,
    /// and they take turns. All commands take 500 µs.
    #[test]
    fn what_two_queues_use_by_turns_is_told_apart() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let (device, one, second) =
            (Occupancy::default(), Occupant::default(), Occupant::default());
        let used = |from: u64, to: u64, is_certain| {
            let elapsed_ns = (to - from) * 1_000;
            let expected_ns = Some(500_000);
            let measured = Measured { elapsed_ns, shared_ns: 0, expected_ns, is_certain };
            device.used_ns(Since::launch(Some(at(from))), at(to), measured)
        };
        device.enter(&one, at(0));
        let alone = (500_000, Beside::Nothing);
        assert_eq!(used(0, 500, true), alone);
        let mut visitor = 0;
        for visit in 1..20 {
            let begin = 10_000 * visit;
            device.enter(&second, at(begin));
            assert_eq!(used(begin - 250, begin + 250, true), (500_000, Beside::Later));
            visitor = used(begin, begin + 750, false).0;
            for turn in (750..3_750).step_by(1_000) {
                let turn = begin + turn;
                assert_eq!(used(turn - 500, turn + 500, true), (500_000, Beside::Others));
                visitor += used(turn, turn + 1_000, false).0;
            }
            device.leave(&second, at(begin + 3_750), || true);
            assert_eq!(used(begin + 3_250, begin + 4_250, true), (500_000, Beside::Others));
            assert_eq!(used(begin + 4_250, begin + 4_750, true), alone);
        }
        assert!((1_950_000..=2_050_000).contains(&visitor), "{visitor}");
    }

    #[test]
    fn time_is_shared_while_two_have_work_and_what_was_held_goes_on() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (device, one, second) =
            (Occupancy::default(), Occupant::default(), Occupant::default());
        device.enter(&one, at(0));
        device.enter(&one, at(1));
        assert!(!device.shared_since(Some(at(0))) && !device.shared_since(None));
        device.enter(&second, at(2));
        assert!(device.shared_since(Some(at(9))));
        device.leave(&second, at(4), || true);
        assert!(device.shared_since(Some(at(3))) && !device.shared_since(Some(at(4))));
        // Its command goes on until 12, and the other queue begins at 11.
        device.hold(&one, at(12));
        device.enter(&one, at(10));
        device.enter(&second, at(11));
        assert!(device.shared_since(Some(at(11))) && !device.shared_since(Some(at(12))));
        device.release(&one, at(13), false);
        assert!(device.shared_since(Some(at(13))));
        device.leave(&second, at(14), || false);
        assert!(device.shared_since(Some(at(15))), "it has work again");
        device.leave(&second, at(16), || true);
        device.leave(&one, at(17), || true);
        assert!(!device.shared_since(Some(at(16))));
    }
}
