//! Tests of the scheduler. The [`Rig`] plays all queues: it keeps their reports, and the policy is
//! a puppet that does what the test says.

mod admit;
mod changes;
mod floors;
mod least;
mod members;
mod orders;
mod progress;
mod reports;
mod waits;

use std::cell::RefCell;
use std::format;
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::hint::Priority;
use crate::message::{Claim, HoldState};
use crate::policy::{Changed, Decisions, Event, MayHold, Needs, Urgency, Verdict, policy_state};
use crate::time::Duration;

policy_state! {
    /// A state that fills all words of a queue.
    #[derive(PartialEq, Eq)]
    pub(super) struct Full {
        pub(super) first: u64,
        pub(super) second: u64,
        pub(super) third: u64,
        pub(super) fourth: u64,
        pub(super) last: u64,
    }
}

pub(super) const EMPTY: Full = Full { first: 0, second: 0, third: 0, fourth: 0, last: 0 };
pub(super) const FULL: Full = Full { first: 1, second: 2, third: 3, fourth: 4, last: 5 };

/// Answers of the puppet the next time it is asked, and what it has seen.
#[derive(Debug, Default)]
pub(super) struct Strings {
    pub(super) say: Vec<(QueueId, Verdict)>,
    pub(super) wake: Vec<Instant>,
    pub(super) progress: Option<Duration>,
    /// The highest ready priority of a device is its floor.
    pub(super) hpf: bool,
    /// Events, by the table slot of their queue.
    pub(super) events: Vec<(usize, Event)>,
    /// Queues named in the last question; `None` if it was about everything.
    pub(super) asked: Option<Vec<QueueId>>,
    /// Queues that are to be looked at for the last question.
    pub(super) looked: Vec<QueueId>,
    /// Devices named in the last question.
    pub(super) devices: Vec<DeviceId>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Puppet(pub(super) Rc<RefCell<Strings>>);

impl Policy for Puppet {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn needs(&self) -> Needs {
        let Strings { progress, hpf, .. } = *self.0.borrow();
        let may_hold = if hpf { MayHold::Lower } else { MayHold::Anything };
        Needs { may_hold, progress_every: progress, ..Needs::default() }
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(every) = hint else { return false };
        self.0.borrow_mut().progress = Some(every);
        true
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        assert!(
            queues.get(queue).is_some(),
            "a queue is in the table when something happens to it"
        );
        self.0.borrow_mut().events.push((queue.index(), event));
    }

    fn decide(
        &mut self,
        _: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let mut strings = self.0.borrow_mut();
        (strings.asked, strings.devices) = match changed {
            Changed::Some { queues, devices } => (Some(queues.iter().collect()), devices.to_vec()),
            Changed::All => (None, Vec::new()),
        };
        strings.looked = changed.queues(queues).map(|info| info.id).collect();
        for (queue, verdict) in strings.say.drain(..) {
            out.set(queue, verdict);
        }
        for at in strings.wake.drain(..) {
            out.wake_at(at);
        }
        if strings.hpf {
            for device in queues.devices() {
                let floor = queues.top_ready(device).unwrap_or(Priority::MIN);
                out.floor(device, Some(floor), Urgency::NOW);
            }
        }
    }
}

/// A scheduler with room for 8 queues on 2 devices and 6 waits, and the queues' latest reports.
pub(super) struct Rig {
    pub(super) s: Scheduler<Puppet, Inline<8, 2, 6>>,
    pub(super) puppet: Puppet,
    pub(super) now: Instant,
    pub(super) reports: Vec<(QueueId, Report)>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let puppet = Puppet::default();
        let s = Scheduler::new(puppet.clone(), Inline::new());
        Self { s, puppet, now: Instant::ZERO, reports: Vec::new() }
    }

    /// With the highest priority first.
    pub(super) fn hpf() -> Self {
        let rig = Self::new();
        rig.puppet.0.borrow_mut().hpf = true;
        rig
    }

    pub(super) fn attach(&mut self, priority: i32) -> QueueId {
        self.attach_as(Attach { hints: hints(priority), ..Attach::default() })
    }

    pub(super) fn attach_as(&mut self, attach: Attach) -> QueueId {
        let queue = self.s.attach(self.now, attach).expect("room in the table");
        self.reports.push((queue, Report::default()));
        queue
    }

    pub(super) fn detach(&mut self, queue: QueueId) {
        self.s.detach(self.now, queue).expect("in the table");
    }

    /// Changes what a queue reports and sends it.
    pub(super) fn report(&mut self, queue: QueueId, change: impl FnOnce(&mut Report)) {
        let report = self.reports.iter_mut().find(|(q, _)| *q == queue).map(|(_, r)| r).unwrap();
        change(report);
        self.s.handle_report(self.now, queue, report).expect("a sensible report");
    }

    /// Reports that the queue has taken `n` more commands.
    pub(super) fn submit(&mut self, queue: QueueId, n: u64) {
        let now = self.now;
        self.report(queue, |r| {
            if !r.pending() {
                r.ready_since = now;
            }
            r.submitted += n;
        });
    }

    /// Everything that the queue took has retired.
    pub(super) fn drain(&mut self, queue: QueueId) {
        self.report(queue, |r| {
            (r.launched, r.retired, r.waiting) = (r.submitted, r.submitted, None);
        });
    }

    /// The queue has come to a wait.
    pub(super) fn wait(&mut self, queue: QueueId, event: EventRef) {
        self.report(queue, |r| {
            r.submitted = r.submitted.max(r.retired + 1);
            r.waiting = Some(event);
        });
    }

    /// All orders that are due, in order: `0 run, 1 hold2, 2 watch5, 3 reached, 3 gone, 4
    /// progress`. The queues obey at once, but do not say so.
    pub(super) fn orders(&mut self) -> String {
        let mut words = Vec::new();
        while let Some((queue, order)) = self.s.poll_order(self.now) {
            let what = match order {
                Order::Run { .. } => "run".to_string(),
                Order::Hold { level, .. } => format!("hold{}", level.number()),
                Order::Watch { upto } => format!("watch{upto}"),
                Order::Reached { ok, .. } => if ok { "reached" } else { "gone" }.to_string(),
                Order::Progress { .. } => "progress".to_string(),
            };
            self.obey(queue, order);
            words.push(format!("{} {what}", queue.index()));
            assert!(words.len() < 1_000, "the scheduler never stops ordering: {words:?}");
        }
        words.join(", ")
    }

    fn obey(&mut self, queue: QueueId, order: Order) {
        let report = self.reports.iter_mut().find(|(q, _)| *q == queue).map(|(_, r)| r).unwrap();
        let hold = match order {
            Order::Hold { level, .. } => HoldState::Held(level),
            Order::Run { .. } => HoldState::Running,
            _ => return,
        };
        (report.epoch, report.hold, report.failed_open) = (order.epoch().unwrap(), hold, false);
    }

    /// Every queue says where it stands.
    pub(super) fn acknowledge(&mut self) {
        for (queue, report) in self.reports.clone() {
            // Those that are gone are not heard.
            let _ = self.s.handle_report(self.now, queue, &report);
        }
    }

    pub(super) fn running(&self, queue: QueueId) -> bool {
        self.s.table().get(queue).expect("in the table").running
    }

    pub(super) fn ready(&self, queue: QueueId) -> bool {
        self.s.table().get(queue).expect("in the table").ready
    }

    /// The puppet says this when it is asked next, which is soon.
    pub(super) fn say(&mut self, queue: QueueId, verdict: Verdict) {
        self.puppet.0.borrow_mut().say.push((queue, verdict));
        self.s.reconsider_all();
    }

    /// Takes the events that the puppet has seen since the last call.
    pub(super) fn events(&mut self) -> Vec<(usize, Event)> {
        core::mem::take(&mut self.puppet.0.borrow_mut().events)
    }
}

pub(super) fn hints(priority: i32) -> Hints {
    Hints::with_priority(Priority::new(priority).unwrap())
}

pub(super) fn event(queue: QueueId, cmd: u64) -> EventRef {
    EventRef { queue, cmd: CmdId(cmd) }
}

pub(super) const HOLD: Verdict = Verdict::Hold(Urgency::NOW);
