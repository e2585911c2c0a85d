//! Highest priority first by floors: the table keeps the highest ready priority of each device, so
//! a decision does not look at queues at all. With a timeslice, queues of that priority take turns;
//! with ageing, queues are chosen one by one instead.

use xsched_core::hint::{HintKind, PolicyHint, Priority};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{Changed, Decisions, Event, MayHold, Needs, Urgency, Verdict};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

use crate::choose::{Chooser, Rules};
use crate::turns::Turns;

/// Highest priority first, by the floors of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floors {
    across: bool,
    ageing: bool,
    /// A timeslice is taken.
    has_turns: bool,
    turns: Option<Turns>,
    /// Verdicts of before are still in force.
    clear: bool,
    chooser: Chooser<Highest>,
}

/// Highest priority first, one queue at a time.
#[derive(Clone, Copy, Debug)]
struct Highest {
    across: bool,
}

fn key(priority: Priority) -> u64 {
    (Priority::MAX.rank() - priority.rank()) as u64
}

/// The highest priority that is ready on any device.
fn top(queues: &QueueTable<'_>) -> Priority {
    let tops = queues.devices().filter_map(|device| queues.top_ready(device));
    tops.max().unwrap_or(Priority::MIN)
}

impl Rules for Highest {
    const STRICT: bool = true;
    const HINTS: &[HintKind] = &[HintKind::Priority];

    fn key(&self, _now: Instant, info: &QueueInfo) -> Option<u64> {
        Some(key(info.hints.priority))
    }

    fn bar(&self, queues: &QueueTable<'_>) -> u64 {
        if self.across { key(top(queues)) } else { u64::MAX }
    }
}

impl Floors {
    /// One highest priority for all devices if `across`, one for each otherwise.
    pub(crate) const fn without_turns(across: bool) -> Self {
        let chooser = Chooser::new(Highest { across });
        Self { across, ageing: false, has_turns: false, turns: None, clear: false, chooser }
    }

    /// One highest priority for each device, whose queues take turns once there is a timeslice.
    pub(crate) const fn with_turns() -> Self {
        Self { has_turns: true, ..Self::without_turns(false) }
    }

    /// A queue of another device may be the higher one where all count, and one that waits long
    /// has a turn.
    pub(crate) fn needs(&self) -> Needs {
        let may_hold = match self.turns {
            _ if self.across || self.ageing => MayHold::Anything,
            Some(_) => MayHold::Peers,
            None => MayHold::Lower,
        };
        Needs { may_hold, ..self.chooser.needs() }
    }

    pub(crate) fn configure(&mut self, hint: PolicyHint) -> bool {
        match hint {
            PolicyHint::Ageing(age) => {
                // What queues were chosen by before is of no use then.
                self.clear |= self.ageing || self.turns.is_some() && age.is_some();
                self.ageing = age.is_some();
                self.chooser.configure(hint)
            }
            PolicyHint::Timeslice(timeslice) if self.has_turns => {
                self.turns = Some(Turns { timeslice });
                true
            }
            hint => self.chooser.configure(hint),
        }
    }

    pub(crate) fn observe(
        &mut self,
        now: Instant,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
    ) {
        match (event, queues.get(queue)) {
            (Event::Detached, Some(info)) if self.takes_turns() => {
                Turns::forget(queue, info.device, queues);
            }
            _ => self.chooser.observe(now, queue, event, queues),
        }
    }

    const fn takes_turns(&self) -> bool {
        self.turns.is_some() && !self.ageing
    }

    pub(crate) fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        if core::mem::take(&mut self.clear) {
            queues.iter().for_each(|info| out.set(info.id, Verdict::Run));
            self.chooser.forget(queues);
        }
        if self.ageing {
            if matches!(changed, Changed::All) {
                let devices = queues.devices();
                devices.for_each(|device| out.floor(device, None, Urgency::NOW));
            }
            return self.chooser.decide(now, changed, queues, out);
        }
        if let Some(turns) = self.turns {
            turns.decide(now, changed, queues, out);
        }
        match changed {
            Changed::Some { devices, .. } if !self.across => {
                devices.iter().for_each(|&device| Self::set_floor(device, queues, out));
            }
            Changed::All if !self.across => {
                queues.devices().for_each(|device| Self::set_floor(device, queues, out));
            }
            _ => {
                let top = top(queues);
                queues.devices().for_each(|device| out.floor(device, Some(top), Urgency::NOW));
            }
        }
    }

    fn set_floor(device: DeviceId, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let floor = queues.ready_floor(device).unwrap_or(Priority::MIN);
        out.floor(device, Some(floor), Urgency::NOW);
    }
}
