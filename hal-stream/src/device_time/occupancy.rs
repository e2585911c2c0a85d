//! Queues of a device that had work on it at the same time.
//!
//! An interval is measured between two moments of the device. If another queue had the device for a
//! part of that, its length is not the commands' own time.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::sync::{AtomicBool, Mutex, fence, lock};

/// How many queues have work on a device.
#[derive(Debug, Default)]
pub(crate) struct Occupancy(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of queues with work on the device that is not held.
    inside: u32,
    /// More than one queue had work on the device until then, the last time.
    shared_until: Option<Instant>,
    /// Commands of a queue that was held may have run until then.
    drain_until: Option<Instant>,
}

/// State of a queue that has work on the device, or none. Both fields are written under the lock.
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
    /// Tells whether the queue counts as having no work, after a launch was counted. With the fence
    /// in [`Occupancy::leave`], either this sees that it left, or that sees the launch.
    pub(crate) fn has_left(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.is_inside()
    }

    fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }
}

impl Occupancy {
    /// Counts a queue that launched something.
    pub(crate) fn enter(&self, occupant: &Occupant, now: Instant) {
        let mut state = lock(&self.0);
        if !occupant.held.load(Ordering::Relaxed) {
            state.enter(occupant, now);
        }
    }

    /// Counts a queue out of which everything has been seen to retire, unless `is_idle` says
    /// otherwise by now.
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

    /// Counts a queue out that is held. Its running command goes on until then at most.
    pub(crate) fn hold(&self, occupant: &Occupant, until: Instant) {
        let mut state = lock(&self.0);
        occupant.held.store(true, Ordering::Relaxed);
        if occupant.is_inside() {
            occupant.inside.store(false, Ordering::Relaxed);
            state.leave(until);
            state.drain_until = state.drain_until.max(Some(until));
        }
    }

    /// Counts a queue in again that is held no more.
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

    /// Tells whether more than one queue may have had work on the device since then, or ever.
    pub(crate) fn is_shared_since(&self, since: Option<Instant>) -> bool {
        let state = lock(&self.0);
        state.inside > 1 || state.shared_until.is_some() && state.shared_until > since
    }
}

impl State {
    fn enter(&mut self, occupant: &Occupant, now: Instant) {
        if occupant.is_inside() {
            return;
        }
        let drains = self.drain_until > Some(now);
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
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_is_shared_while_two_have_work_and_what_was_held_goes_on() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (device, one, second) =
            (Occupancy::default(), Occupant::default(), Occupant::default());
        device.enter(&one, at(0));
        device.enter(&one, at(1));
        assert!(!device.is_shared_since(Some(at(0))) && !device.is_shared_since(None));
        device.enter(&second, at(2));
        assert!(device.is_shared_since(Some(at(9))));
        device.leave(&second, at(4), || true);
        assert!(device.is_shared_since(Some(at(3))) && !device.is_shared_since(Some(at(4))));
        // Its command goes on until 12, and the other queue begins at 11.
        device.hold(&one, at(12));
        device.enter(&one, at(10));
        device.enter(&second, at(11));
        assert!(device.is_shared_since(Some(at(11))) && !device.is_shared_since(Some(at(12))));
        device.release(&one, at(13), false);
        assert!(device.is_shared_since(Some(at(13))));
        device.leave(&second, at(14), || false);
        assert!(device.is_shared_since(Some(at(15))), "it has work again");
        device.leave(&second, at(16), || true);
        device.leave(&one, at(17), || true);
        assert!(!device.is_shared_since(Some(at(16))));
    }
}
