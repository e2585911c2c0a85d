//! Utilisation partition. Defects: once a queue has a hint, a queue without one never runs, even
//! when no other queue has work; and one queue runs on all devices together.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use super::hints::{HintMap, handle};
use super::{Algorithm, HOLD, RUN};

#[derive(Debug)]
pub(crate) struct Up {
    timeslice: Duration,
    shares: HintMap<u64>,
    turn: Option<usize>,
    until: Instant,
}

impl Default for Up {
    fn default() -> Self {
        let timeslice = Duration::from_ms(5);
        Self { timeslice, shares: HintMap::default(), turn: None, until: Instant::ZERO }
    }
}

impl Up {
    /// The next one with a hint that is ready, in the order of handles, after whose turn it was.
    fn next(&self, members: &[(&QueueInfo, u64)]) -> Option<usize> {
        let ready = || members.iter().filter(|(queue, _)| queue.ready).map(|(q, _)| handle(q));
        let later = |at: &usize| self.turn.is_some_and(|turn| *at > turn);
        ready().filter(later).min().or_else(|| ready().min())
    }
}

impl Algorithm for Up {
    const NAME: &'static str = "up";

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(timeslice) = hint else { return false };
        self.timeslice = timeslice;
        true
    }

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.shares.observe(queue, event, queues, |hints| hints.utilization.map(u64::from));
        if event == Event::Detached {
            self.shares.forget(queue);
        }
    }

    fn decide(&mut self, now: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        if self.shares.is_empty() {
            return;
        }
        let share = |queue| self.shares.get(queue).map(|share| (queue, share));
        let members: Vec<_> = queues.iter().filter_map(share).collect();
        let goes_on = |(queue, _): &&(&QueueInfo, u64)| Some(handle(queue)) == self.turn;
        let over = members.iter().find(goes_on).is_none_or(|(queue, _)| !queue.ready);
        if over || now >= self.until {
            self.turn = self.next(&members);
            let all: u64 = members.iter().map(|(_, share)| share).sum();
            let turn = members.iter().find(|(queue, _)| Some(handle(queue)) == self.turn);
            let part = turn.map_or(0, |(_, share)| self.timeslice.as_ns() * share / all.max(1));
            self.until = now + Duration::from_ns(part.max(1));
        }
        for queue in queues.iter() {
            out.set(queue.id, if Some(handle(queue)) == self.turn { RUN } else { HOLD });
        }
        if self.turn.is_some() {
            out.wake_at(self.until);
        }
    }
}
