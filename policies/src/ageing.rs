//! Ageing: a queue that has waited for too long has the device for a moment.
//!
//! A ready queue that has been kept from running for the *age* gets a turn: the device to itself
//! until it has used a twentieth of the age (100 µs to 5 ms) of device time, as measured, or has
//! nothing left to run. The queue that has waited longest comes first, and after each turn the
//! ordinary order holds for as long as the turn took, so that turns never take more than half of
//! the time.
//!
//! So a queue waits at most 17/16 of the age, and a turn and a rest for each of the queues of its
//! device that are due before it. What a turn takes is its device time, the time until the other
//! queues are off the device, and one command if commands cannot be interrupted.

use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event, PolicyState, QueueInfo};
use xsched_core::time::{Duration, Instant};

use crate::engine::HOLD;
use crate::ready::{AgedTurn, Key, Place, Ready};

/// The class of the queue whose turn it is. All other queues come after it.
pub(crate) const AGED: u16 = 0;

/// Turns in the age, and bounds of a turn.
const TURNS: u64 = 20;
const TURN_MIN: Duration = Duration::from_us(100);
const TURN_MAX: Duration = Duration::from_ms(5);
/// Looks at all queues of a device in the age, at most.
const LOOKS: u64 = 16;
/// Reports in a turn.
const REPORTS: u64 = 4;

/// The age after which a queue has a turn, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ageing {
    age: Duration,
}

impl Ageing {
    pub(crate) const fn new(age: Duration) -> Self {
        Self { age }
    }

    fn turn(self) -> Duration {
        Duration::from_ns(self.age.as_ns() / TURNS).max(TURN_MIN).min(TURN_MAX)
    }

    /// How often queues should report.
    pub(crate) fn progress_every(self) -> Duration {
        Duration::from_ns(self.turn().as_ns() / REPORTS)
    }

    /// Counts what the queue uses whose turn it is.
    pub(crate) fn observe<D: PolicyState>(queue: QueueId, event: Event, ready: &Ready<'_, D>) {
        if let Event::Progress { busy } = event
            && ready.place(queue) == Place::Chosen
            && ready.key(queue).class == AGED
        {
            ready.update_aged_turn(|turn| turn.used += busy);
        }
    }

    /// Ends a turn that is over and begins the next one: the engine chooses after this, and sees a
    /// queue of the class [`AGED`]. Only queues of a class after `beyond` have turns. `key` is what
    /// a queue is ordered by otherwise.
    pub(crate) fn step<D: PolicyState>(
        self,
        now: Instant,
        ready: &Ready<'_, D>,
        out: &mut Decisions<'_>,
        beyond: u16,
        key: impl Fn(&QueueInfo) -> Option<Key>,
    ) {
        let AgedTurn { started, used, .. } = ready.aged_turn();
        let aged = ready.chosen().find(|&queue| ready.key(queue).class == AGED);
        if let Some(queue) = aged {
            if used < self.turn() && now < started + self.age {
                return out.wake_at(started + self.age);
            }
            match ready.queues.get(queue).and_then(key) {
                Some(key) => ready.wait(now, queue, key, out),
                None => {
                    ready.remove(queue);
                    out.set(queue, HOLD);
                }
            }
        }
        if started > Instant::ZERO {
            let rest = now + now.since(started).min(self.age);
            ready.update_aged_turn(|turn| (turn.started, turn.rest) = (Instant::ZERO, rest));
        }
        self.look(now, ready, out, beyond);
    }

    /// Gives the queue that has waited longest a turn, if it is due.
    fn look<D: PolicyState>(
        self,
        now: Instant,
        ready: &Ready<'_, D>,
        out: &mut Decisions<'_>,
        beyond: u16,
    ) {
        if ready.best().is_none() {
            return;
        }
        let AgedTurn { look, rest, .. } = ready.aged_turn();
        let next = look.max(rest);
        if now < next {
            return out.wake_at(next);
        }
        let waits = |id: QueueId| ready.place(id) == Place::Waiting && ready.key(id).class > beyond;
        let longest = ready.queues.ready_on(ready.id).map(|info| info.id).filter(|&id| waits(id));
        let longest = longest.min_by_key(|&id| ready.since(id));
        let due = longest.map(|id| ready.since(id) + self.age);
        if let Some((queue, _)) = longest.zip(due).filter(|(_, due)| *due <= now) {
            ready.put_back(queue, Key { class: AGED, within: 0 });
            let started = now.max(Instant::from_ns(1));
            ready.update_aged_turn(|turn| (turn.started, turn.used) = (started, Duration::ZERO));
            return out.wake_at(now + self.age);
        }
        let soonest = now + Duration::from_ns(self.age.as_ns() / LOOKS);
        let next = due.map_or(soonest, |due| due.max(soonest));
        ready.update_aged_turn(|turn| turn.look = next);
        out.wake_at(next);
    }
}
