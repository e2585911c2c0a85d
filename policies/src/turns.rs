//! Turns among the queues of the highest priority, for policies that set floors.
//!
//! Of the ready queues of a device that have the highest priority and claim the whole device
//! ([`Claim`]), one runs. They come first, first served: a queue has its turn until it has nothing
//! more to run, or until it has had the device for a timeslice while others wait, and then goes
//! behind them. The time in which queues of a higher priority had the device does not count. A
//! queue that claims less takes no turns: it runs whenever its priority does.
//!
//! A queue that becomes idle while others of its priority have the turn is held until none of them
//! is ready, so that its next command does not slip through. Floors hold all lower priorities.

use xsched_core::hint::Priority;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::message::Claim;
use xsched_core::policy::{Changed, Decisions, QueueInfo, QueueTable, Verdict, policy_state};
use xsched_core::time::{Duration, Instant};

use crate::choose::class_of;
use crate::engine::HOLD;
use crate::ready::{Key, Place};

policy_state! {
    /// State of a device.
    struct Top {
        /// The class of the priority from which on ready queues run; 0 if none is ready.
        class: u16,
    }
}

type Ready<'t> = crate::ready::Ready<'t, Top>;

/// Turns of this length at most, while others wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    pub(crate) timeslice: Duration,
}

impl Turns {
    pub(crate) fn forget(queue: QueueId, device: DeviceId, queues: &QueueTable<'_>) {
        if let Some(ready) = Ready::on(queues, device) {
            ready.remove(queue);
        }
    }

    pub(crate) fn decide(
        self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        Ready::each_changed(changed, queues, |info, ready| follow(now, info, ready, out));
        // A turn may be over on any of them: timers do not say whose they are.
        Ready::on_all(queues).for_each(|ready| self.turn(now, &ready, out));
    }

    fn turn(self, now: Instant, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let class = ready.queues.ready_floor(ready.id).map_or(0, class_of);
        let before = ready.state().class;
        if class != before {
            pass(now, before, class, ready);
            if class == 0 || class > before {
                ready.release_parked(out);
            }
        }
        let (chosen, waits) = (chosen_of(class, ready), waits_in(class, ready));
        if !waits {
            if chosen.is_none() {
                ready.release_parked(out);
            }
            return;
        }
        if let Some(queue) = chosen {
            let had = had(now, queue, ready);
            if had < self.timeslice {
                return out.wake_at(now + (self.timeslice - had));
            }
            ready.put_back(queue, Key { class, within: now.as_ns() });
            out.set(queue, HOLD);
        }
        let Some(next) = ready.run_best(out) else { return };
        ready.set_used(next, 0);
        ready.set_since(next, now);
        if waits_in(class, ready) {
            out.wake_at(now + self.timeslice);
        }
    }
}

/// Takes a change of a queue in.
fn follow(now: Instant, info: &QueueInfo, ready: &Ready<'_>, out: &mut Decisions<'_>) {
    let (place, class) = (ready.place(info.id), class_of(info.hints.priority));
    // The floor holds those that must not run.
    let may_run = info.hints.priority != Priority::NO_EXECUTE;
    let takes_turns = may_run && info.report.claim == Claim::Whole;
    let is_known = matches!(place, Place::Waiting | Place::Chosen);
    if takes_turns && info.ready && is_known && ready.key(info.id).class == class {
        return;
    }
    ready.remove(info.id);
    if takes_turns && info.ready {
        ready.insert(info.id, Key { class, within: now.as_ns() });
        return out.set(info.id, HOLD);
    }
    let is_contended = chosen_of(class, ready).is_some() || waits_in(class, ready);
    if takes_turns && place != Place::Out && is_contended {
        ready.park(info.id);
        return out.set(info.id, HOLD);
    }
    out.set(info.id, Verdict::Run);
}

/// The queue of a class that has the turn, or has it again when the class is the highest.
fn chosen_of(class: u16, ready: &Ready<'_>) -> Option<QueueId> {
    ready.chosen().find(|queue| ready.key(*queue).class == class)
}

/// Returns whether a queue of a class waits, if none of a higher one does.
fn waits_in(class: u16, ready: &Ready<'_>) -> bool {
    ready.best().is_some_and(|(_, key)| key.class == class)
}

/// For how long the queue that has the turn has had it, while its class is the highest.
fn had(now: Instant, queue: QueueId, ready: &Ready<'_>) -> Duration {
    Duration::from_ns(ready.used(queue)) + now.since(ready.since(queue))
}

/// Another class becomes the highest: turns stop and go on.
fn pass(now: Instant, before: u16, class: u16, ready: &Ready<'_>) {
    if let Some(queue) = chosen_of(before, ready) {
        ready.set_used(queue, had(now, queue, ready).as_ns());
    }
    if let Some(queue) = chosen_of(class, ready) {
        ready.set_since(queue, now);
    }
    ready.update(|top| top.class = class);
}
