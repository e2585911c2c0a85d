//! A scheduler, its queues, and devices that do what they are told at once: what the policies of
//! the C++ library were tried with, too. Time passes in steps; in each, the queues of a device that
//! have work and may run share it evenly.

use std::collections::BTreeMap;

use xsched_core::hint::{Hints, PolicyHint};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration, Instant};

/// The length of a step.
const STEP: Duration = Duration::from_us(100);
/// Commands that a queue has when it has work: more than it can do.
const PLENTY: u64 = 1 << 32;

/// How orders are carried, which is not up to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// As the scheduler's documentation asks for.
    Ours,
    /// After a switch of policies, orders wait for the next event.
    SwitchesOnPaper,
}

#[derive(Debug)]
struct Member {
    id: QueueId,
    device: DeviceId,
    report: Report,
    held: bool,
    gone: bool,
}

impl Member {
    const fn works(&self) -> bool {
        !self.gone && !self.held && self.report.pending()
    }
}

/// Events of a period, in steps but for the orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spell {
    /// All of them.
    pub(crate) steps: u64,
    /// By queue: when it ran, alone or with others.
    pub(crate) ran: Vec<u64>,
    /// When two queues of a device ran at once.
    pub(crate) together: u64,
    /// By queue: when it had work and its device ran nothing.
    pub(crate) wasted: Vec<u64>,
    /// Orders to run or hold.
    pub(crate) orders: u64,
    /// Times that the policy was asked.
    pub(crate) decisions: u64,
}

impl Spell {
    /// The part of the time in which a queue ran.
    pub(crate) fn share(&self, queue: usize) -> f64 {
        self.ran[queue] as f64 / self.steps as f64
    }
}

pub(crate) struct Rig<'p> {
    scheduler: Scheduler<&'p mut dyn Policy, Heap>,
    driver: Driver,
    members: Vec<Member>,
    now: Instant,
    orders: u64,
    /// The scheduler waits for an event.
    asleep: bool,
}

impl<'p> Rig<'p> {
    pub(crate) fn new(policy: &'p mut dyn Policy) -> Self {
        Self::driven(policy, Driver::Ours)
    }

    pub(crate) fn driven(policy: &'p mut dyn Policy, driver: Driver) -> Self {
        let mut scheduler = Scheduler::new(policy, Heap::new(8, 2, 0));
        // Its queues say that they are busy, and not what they retire.
        scheduler.hint_policy(PolicyHint::Stall(None));
        let now = Instant::ZERO;
        Self { scheduler, driver, members: Vec::new(), now, orders: 0, asleep: false }
    }

    /// A queue without work, of a process of its own.
    pub(crate) fn attach(&mut self, device: u16, hints: Hints) -> usize {
        let process = 1_000 + self.members.len() as u32;
        self.attach_of(process, device, hints)
    }

    /// A queue without work.
    pub(crate) fn attach_of(&mut self, process: u32, device: u16, hints: Hints) -> usize {
        let (device, process) = (DeviceId(device), ProcessId(process));
        let attach = Attach { device, process, hints, ..Attach::default() };
        let id = self.scheduler.attach(self.now, attach).expect("room for eight");
        let report = Report::default();
        self.members.push(Member { id, device, report, held: false, gone: false });
        self.event();
        self.members.len() - 1
    }

    /// A queue that always has work.
    pub(crate) fn busy(&mut self, device: u16, hints: Hints) -> usize {
        let queue = self.attach(device, hints);
        self.ready(queue);
        queue
    }

    pub(crate) fn detach(&mut self, queue: usize) {
        self.members[queue].gone = true;
        self.scheduler.detach(self.now, self.members[queue].id).expect("it was attached");
        self.event();
    }

    pub(crate) fn ready(&mut self, queue: usize) {
        let report = &mut self.members[queue].report;
        (report.submitted, report.ready_since) = (report.submitted + PLENTY, self.now);
        self.send(queue);
        self.event();
    }

    pub(crate) fn idle(&mut self, queue: usize) {
        let report = &mut self.members[queue].report;
        (report.launched, report.retired) = (report.submitted, report.submitted);
        self.send(queue);
        self.event();
    }

    /// Puts another policy in charge.
    pub(crate) fn switch(&mut self, policy: &'p mut dyn Policy) {
        self.scheduler.set_policy(policy);
        if self.driver == Driver::SwitchesOnPaper {
            self.asleep = true;
        } else {
            self.settle();
        }
    }

    /// True if a queue is held.
    pub(crate) fn held(&self, queue: usize) -> bool {
        self.members[queue].held
    }

    /// Lets time pass.
    pub(crate) fn run_ms(&mut self, ms: u64) -> Spell {
        let steps = Duration::from_ms(ms).as_ns() / STEP.as_ns();
        let mut spell = Spell { steps, ..Spell::default() };
        spell.ran = vec![0; self.members.len()];
        spell.wasted = vec![0; self.members.len()];
        let (orders, decisions) = (self.orders, self.scheduler.stats().decisions);
        for _ in 0..steps {
            self.step(&mut spell);
        }
        spell.orders = self.orders - orders;
        spell.decisions = self.scheduler.stats().decisions - decisions;
        spell
    }

    fn step(&mut self, spell: &mut Spell) {
        let mut working: BTreeMap<DeviceId, Vec<usize>> = BTreeMap::new();
        for (queue, member) in self.members.iter().enumerate().filter(|(_, m)| m.works()) {
            working.entry(member.device).or_default().push(queue);
        }
        for (queue, member) in self.members.iter().enumerate() {
            let pending = !member.gone && member.report.pending();
            let idle = !working.contains_key(&member.device);
            spell.wasted[queue] += u64::from(pending && idle);
        }
        self.now += STEP;
        for queues in working.values() {
            spell.together += u64::from(queues.len() > 1);
            for &queue in queues {
                spell.ran[queue] += 1;
                let report = &mut self.members[queue].report;
                report.busy += STEP.per(queues.len() as u64);
                (report.launched, report.retired) = (report.launched + 1, report.retired + 1);
                self.send(queue);
            }
        }
        if self.scheduler.poll_timeout().is_some_and(|due| due <= self.now) {
            self.scheduler.handle_timeout(self.now);
            self.asleep = false;
        }
        if !self.asleep {
            self.settle();
        }
    }

    fn event(&mut self) {
        self.asleep = false;
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((id, order)) = self.scheduler.poll_order(self.now) {
            let (epoch, hold) = match order {
                Order::Run { epoch } => (epoch, HoldState::Running),
                Order::Hold { epoch, level } => (epoch, HoldState::Held(level)),
                _ => continue,
            };
            self.orders += 1;
            let known = |member: &Member| member.id == id && !member.gone;
            let queue = self.members.iter().position(known).expect("one of ours");
            let member = &mut self.members[queue];
            member.held = hold != HoldState::Running;
            (member.report.epoch, member.report.hold) = (epoch, hold);
            self.send(queue);
        }
    }

    fn send(&mut self, queue: usize) {
        let Member { id, report, .. } = &self.members[queue];
        self.scheduler.handle_report(self.now, *id, report).expect("a sensible report");
    }
}
