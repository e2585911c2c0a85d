//! Multi-level feedback: short work first, without knowing what is short.
//!
//! Queues are on levels 0 to 3, and start on level 0. On each device the ready queue of the lowest
//! level has the device, first come first served within a level. A queue that has used its slice
//! (10 ms of device time on level 0, as measured, and twice as much on each level after it) goes to
//! the end of the next level; on level 3 it goes to the end of that. A queue of a lower level takes
//! the device at once, and the queue that had it keeps the first place in its line. A queue that
//! has waited for 100 ms (ten slices of level 0) goes one level up, to the end of the line there,
//! and one that was idle for as long starts afresh on level 0. Being chosen for a moment does not
//! end a wait: the device time that a queue gets shortens its wait by ten times as much. So no
//! queue starves: with n ready queues, one that gets nothing has the device after half a second and
//! a slice of level 0 for each other queue, at the latest.
//!
//! Hints for queues do not count, except that [`Priority::NO_EXECUTE`] queues never run.
//! [`PolicyHint::Timeslice`] sets the slice of level 0.

use xsched_core::hint::{HintKinds, PolicyHint, Priority};
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::policy::{
    Changed, Decisions, Event, Needs, Policy, QueueInfo, QueueTable, Verdict, policy_state,
};
use xsched_core::time::{Duration, Instant};

use crate::engine::HOLD;
use crate::ready::{Key, Place};
use crate::share::SOON;

/// The last level.
const LAST: u16 = 3;
/// A queue that waits or idles for this many slices of level 0 changes its level.
const PATIENCE: u64 = 10;
/// Reports in a slice of level 0, and looks at all queues in the time of patience, at most.
const REPORTS: u64 = 20;
const LOOKS: u64 = 20;

policy_state! {
    /// State of a device.
    struct Device {
        /// Until when its device time is accounted for.
        accounted: Instant,
        /// When to look for queues that have waited for too long.
        look: Instant,
    }
}

type Ready<'t> = crate::ready::Ready<'t, Device>;

/// Multi-level feedback. See the [module](self).
///
/// ```
/// use xsched_core::policy::Policy;
/// use xsched_policies::mlfq::Mlfq;
///
/// assert_eq!(Mlfq::default().name(), "mlfq");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mlfq {
    slice: Duration,
}

impl Default for Mlfq {
    fn default() -> Self {
        Self::new(Duration::from_ms(10))
    }
}

impl Policy for Mlfq {
    fn name(&self) -> &'static str {
        "mlfq"
    }

    fn needs(&self) -> Needs {
        let every = Duration::from_ns(self.slice.as_ns() / REPORTS);
        let hints = HintKinds::NONE;
        Needs { progress_every: Some(every), hints, ..Needs::default() }
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(slice) = hint else { return false };
        *self = Self::new(slice);
        true
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let Some(info) = queues.get(queue) else { return };
        let Some(ready) = Ready::on(queues, info.device) else { return };
        match event {
            Event::Progress { busy } => {
                ready.set_used(queue, ready.used(queue).saturating_add(busy.as_ns()));
                // At a tenth of the device, a queue is as well off as one that waits for its turn.
                let since = ready.since(queue) + busy.times(PATIENCE);
                ready.set_since(queue, since.min(now));
                let chosen = ready.place(queue) == Place::Chosen;
                ready.update(|device| {
                    // What another queue used since, the chosen one did not.
                    let until = if chosen { now } else { device.accounted + busy };
                    device.accounted = until.min(now);
                });
            }
            Event::Detached => ready.remove(queue),
            _ => {}
        }
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        Ready::each_changed(changed, queues, |info, ready| self.follow(now, info, ready, out));
        for ready in Ready::on_all(queues) {
            self.promote(now, &ready, out);
            self.choose(now, &ready, out);
        }
    }
}

impl Mlfq {
    /// With such a slice for level 0.
    #[must_use]
    pub const fn new(slice: Duration) -> Self {
        Self { slice }
    }

    fn patience(&self) -> Duration {
        self.slice.times(PATIENCE)
    }

    fn slice_of(&self, level: u16) -> Duration {
        self.slice.times(1 << level)
    }

    fn follow(&self, now: Instant, info: &QueueInfo, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let place = ready.place(info.id);
        let lined_up = matches!(place, Place::Waiting | Place::Chosen);
        if info.hints.priority == Priority::NO_EXECUTE {
            ready.remove(info.id);
            return out.set(info.id, HOLD);
        }
        if !info.ready {
            if lined_up {
                ready.remove(info.id);
                ready.set_since(info.id, now);
                self.rest(info.id, ready, out);
            } else if place == Place::Out {
                out.set(info.id, Verdict::Run);
            }
            return;
        }
        if lined_up {
            return;
        }
        ready.remove(info.id);
        if now.since(ready.since(info.id)) >= self.patience() {
            return line_up(now, info.id, 0, ready, out);
        }
        let class = ready.tag(info.id) as u16;
        ready.wait(now, info.id, Key { class, within: now.as_ns() }, out);
    }

    /// A queue has nothing to run. If its next command would have to wait, it is held, so that it
    /// does not slip in.
    fn rest(&self, queue: QueueId, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let level = ready.tag(queue) as u16;
        if ready.chosen().next().is_some_and(|other| ready.key(other).class <= level) {
            ready.park(queue);
            out.set(queue, HOLD);
        } else {
            out.set(queue, Verdict::Run);
        }
    }

    /// Queues that have waited for too long go one level up.
    fn promote(&self, now: Instant, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        if ready.best().is_none_or(|(_, best)| best.class == LAST && ready.chosen_count() == 0) {
            return;
        }
        let look = ready.state().look;
        if now < look {
            return out.wake_at(look);
        }
        let waits = |info: &&QueueInfo| ready.place(info.id) == Place::Waiting;
        let mut first = now + self.patience();
        for info in ready.queues.ready_on(ready.id).filter(waits) {
            let level = ready.key(info.id).class;
            let due = ready.since(info.id) + self.patience();
            if due <= now && level > 0 {
                line_up(now, info.id, level - 1, ready, out);
            } else if level > 0 {
                first = first.min(due);
            }
        }
        let next = first.max(now + Duration::from_ns(self.patience().as_ns() / LOOKS));
        ready.update(|device| device.look = next);
        out.wake_at(next);
    }

    fn choose(&self, now: Instant, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        if let Some(queue) = ready.chosen().next() {
            let key = ready.key(queue);
            let running = now.since(ready.state().accounted);
            let measured = Duration::from_ns(ready.used(queue));
            let slice = self.slice_of(key.class);
            // Whose command the device runs meanwhile shows when that reports.
            let over = measured + running >= slice;
            let waits = over && measured < slice && is_draining(ready);
            let used = if waits { measured } else { measured + running };
            if used >= slice {
                let level = (key.class + 1).min(LAST);
                line_up(now, queue, level, ready, out);
            } else if ready.best().is_some_and(|(_, best)| best.class < key.class) {
                ready.put_back(queue, key);
                let due = ready.since(queue) + self.patience();
                ready.update(|device| device.look = device.look.min(due));
                out.set(queue, HOLD);
                out.wake_at(due.max(now + SOON));
            } else {
                return out.wake_at(now + (slice - used));
            }
        }
        if let Some(queue) = ready.run_best(out) {
            ready.update(|device| device.accounted = now);
            let left = self.slice_of(ready.key(queue).class).as_ns();
            out.wake_at(now + Duration::from_ns(left.saturating_sub(ready.used(queue))));
        } else {
            ready.release_parked(out);
        }
    }
}

/// Returns whether a queue that is to hold has commands on the device that may run on.
fn is_draining(ready: &Ready<'_>) -> bool {
    let in_flight = |info: &QueueInfo| info.report.launched > info.report.retired;
    let stopped = |info: &QueueInfo| info.held == Some(Level::Interrupt);
    ready.queues.ready_on(ready.id).any(|info| !info.running && !stopped(info) && in_flight(info))
}

/// Puts a queue at the end of a level's line, whose slice it has from the start.
fn line_up(now: Instant, queue: QueueId, level: u16, ready: &Ready<'_>, out: &mut Decisions<'_>) {
    ready.set_used(queue, 0);
    ready.set_tag(queue, level.into());
    ready.wait(now, queue, Key { class: level, within: now.as_ns() }, out);
}
