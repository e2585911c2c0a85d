//! A scheduler under a policy, with queues that do as they like, on devices that carry out holds at
//! once and share their time evenly among those that run.

use rand::RngExt;
use xsched_core::hint::{HintKinds, Hints, PolicyHint, Priority};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::message::Order;
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};

use crate::below;
use crate::given::obey;
use crate::queues::{Queue, draw_hints};
use crate::rules::{Waits, no_execute, spared};
use crate::watch::{Counters, Unseen, Watched};
use crate::{Broken, Check, Declared, Report, require};
use xsched_sim::sample::{Rng, generator};

pub(super) const DEVICES: usize = 2;
/// Processes that own the queues.
const PROCESSES: u32 = 3;
/// Orders after one event, and timers at one point in time.
const ORDERS_MAX: usize = 10_000;
const TIMERS_AT_ONCE_MAX: usize = 100;
/// How long the end lasts, when no queue is ready, and the timers that may fire then.
const SILENCE_NS: u64 = 10_000_000_000;
const TIMERS_IN_SILENCE_MAX: u64 = 100;
/// Generators are numbered: queues from 0, devices from here.
const DEVICE_STREAM: u64 = 1 << 32;

/// Plan of events for a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How long, in simulated time.
    pub(super) until_ns: u64,
    /// Queues per device that have work, unless they are not to have any.
    pub(super) queues: usize,
    /// Queues per device that never have work.
    pub(super) bystanders: usize,
    /// Queues come and go, and their hints change.
    pub(super) churn: bool,
    /// Hints that queues have; with [`Priority::NO_EXECUTE`] they have that in any case.
    pub(super) hints: HintKinds,
    /// Only the queues of the first device have work.
    pub(super) quiet_neighbour: bool,
    /// The policy is asked thrice each time.
    pub(super) again: bool,
    /// After each decision there is a full one, which must change nothing.
    pub(super) full: bool,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            until_ns: 1_200_000_000,
            queues: 1 + below(8, &mut generator(seed, DEVICE_STREAM - 1)),
            bystanders: 0,
            churn: true,
            hints: HintKinds::ALL,
            quiet_neighbour: false,
            again: false,
            full: true,
        }
    }

    /// Returns what is left of hints.
    fn given(&self, hints: Hints) -> Hints {
        let mut given = hints.only(self.hints);
        if hints.priority == Priority::NO_EXECUTE {
            given.priority = hints.priority;
        }
        given
    }

    /// Without full decisions, for a comparison of two runs.
    pub(super) const fn of_a_twin(self, ms: u64) -> Self {
        Self { full: false, until_ns: ms * 1_000_000, ..self }
    }
}

/// An order to run or to hold: when, to which queue, and whether to run.
pub(super) type Ordered = (u64, usize, bool);

/// A scheduler under the policy, with its queues and devices.
pub(super) struct Rig<P> {
    plan: Plan,
    declared: Declared,
    scheduler: Scheduler<Watched<P, Unseen>, Heap>,
    pub(super) queues: Vec<Queue>,
    /// Numbers of queues that there have been, and what they ran for.
    numbers: usize,
    pub(super) ran_ns: Vec<u64>,
    now_ns: u64,
    /// Per device, its generator and when something befalls one of its queues.
    fate: Vec<(Rng, u64)>,
    pub(super) orders: Vec<Ordered>,
    timers: u64,
    waits: Waits,
    /// Counters of the policy, without full decisions for checking.
    pub(super) counters: Counters,
    seen: Counters,
}

impl<P: Policy> Rig<P> {
    pub(super) fn new(policy: P, declared: Declared, plan: Plan) -> Self {
        let slots = DEVICES * (plan.queues + plan.bystanders).max(2);
        let storage = Heap::new(slots, DEVICES, 0);
        let unseen: Unseen = |_, _| {};
        let mut scheduler = Scheduler::new(Watched::new(policy, plan.again, unseen), storage);
        // Its queues do not say what they retire.
        scheduler.hint_policy(PolicyHint::Stall(None));
        let fate = (0..DEVICES as u64).map(|device| {
            let mut rng = generator(plan.seed, DEVICE_STREAM + device);
            let first_ns = rng.random_range(200_000..5_000_000);
            (rng, if plan.churn { first_ns } else { u64::MAX })
        });
        Self {
            plan,
            declared,
            scheduler,
            queues: Vec::new(),
            numbers: 0,
            ran_ns: Vec::new(),
            now_ns: 0,
            fate: fate.collect(),
            orders: Vec::new(),
            timers: 0,
            waits: Waits::new(declared, slots, DEVICES),
            counters: Counters::default(),
            seen: Counters::default(),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_ns(self.now_ns)
    }

    /// The whole plan.
    pub(super) fn run(&mut self) -> Result<(), Broken> {
        for device in 0..DEVICES {
            for _ in 0..self.plan.queues {
                let mut rng = self.fate[device].0.clone();
                let hints = draw_hints(&mut rng);
                self.fate[device].0 = rng;
                let queue = self.attach(device, hints)?;
                self.queues.push(queue);
                self.settle()?;
            }
        }
        for number in 0..DEVICES * self.plan.bystanders {
            let hints = draw_hints(&mut generator(self.plan.seed, !(number as u64)));
            self.enter(number % DEVICES, number as u32 % PROCESSES, hints)?;
            self.settle()?;
        }
        (self.counters, self.timers) = (Counters::default(), 0);
        self.run_until(self.plan.until_ns)?;
        let most = self.declared.timers_per_s * DEVICES as u64 * self.now_ns / 1_000_000_000;
        require(self.timers <= most, Check::Timers, || {
            format!("{} timers fired in {}", self.timers, Duration::from_ns(self.now_ns))
        })
    }

    pub(super) fn run_until(&mut self, until_ns: u64) -> Result<(), Broken> {
        while self.now_ns < until_ns {
            let next_ns = self.next_event_ns().clamp(self.now_ns, until_ns);
            self.advance(next_ns);
            self.happen()?;
        }
        Ok(())
    }

    /// No queue has work any more, and time goes on.
    pub(super) fn fall_silent(&mut self) -> Result<(), Broken> {
        for index in 0..self.queues.len() {
            self.queues[index].stop();
            self.say(index)?;
        }
        let before = self.timers;
        for fate in &mut self.fate {
            fate.1 = u64::MAX;
        }
        self.run_until(self.now_ns + SILENCE_NS)?;
        let timers = self.timers - before;
        require(timers <= TIMERS_IN_SILENCE_MAX, Check::Timers, || {
            format!("{timers} timers fired in 10 s while no queue was ready")
        })
    }

    /// Adds what was seen to a report.
    pub(super) fn count(&self, report: &mut Report) {
        report.decisions += self.counters.decisions;
        report.looked_at += self.counters.looked_at;
        report.verdicts += self.counters.verdicts;
        report.orders += self.orders.len() as u64;
        report.timers += self.timers;
        report.longest_wait = report.longest_wait.max(self.waits.longest_wait);
        report.longest_gap = report.longest_gap.max(self.waits.longest_gap);
    }

    fn enter(&mut self, device: usize, process: u32, hints: Hints) -> Result<QueueId, Broken> {
        let (device, hints) = (DeviceId(device as u16), self.plan.given(hints));
        let attach = Attach { device, process: ProcessId(process), hints, ..Attach::default() };
        self.scheduler.attach(self.now(), attach).map_err(refused)
    }

    /// A new queue. The caller keeps it, and lets the policy decide.
    pub(super) fn attach(&mut self, device: usize, hints: Hints) -> Result<Queue, Broken> {
        let number = self.numbers;
        self.numbers += 1;
        self.ran_ns.push(0);
        let id = self.enter(device, number as u32 % PROCESSES, hints)?;
        let quiet = self.plan.quiet_neighbour && device > 0;
        let rng = generator(self.plan.seed, number as u64);
        Ok(Queue::new(id, number, device, self.now_ns, quiet, rng))
    }

    pub(super) fn detach(&mut self, id: QueueId) -> Result<(), Broken> {
        self.scheduler.detach(self.now(), id).map_err(refused)
    }

    fn working_on(&self, device: usize) -> u64 {
        self.queues.iter().filter(|q| q.device == device && q.working()).count() as u64
    }

    fn next_event_ns(&self) -> u64 {
        let timer_ns = self.scheduler.poll_timeout().map_or(u64::MAX, Instant::as_ns);
        let fate_ns = self.fate.iter().map(|fate| fate.1).min().unwrap_or(u64::MAX);
        let queues = self.queues.iter().map(|queue| match queue.wakes_ns {
            Some(at_ns) => at_ns,
            None if queue.working() => {
                let device_ns = queue.until_event_ns();
                self.now_ns.saturating_add(device_ns.saturating_mul(self.working_on(queue.device)))
            }
            None => u64::MAX,
        });
        queues.min().unwrap_or(u64::MAX).min(timer_ns).min(fate_ns)
    }

    fn advance(&mut self, to_ns: u64) {
        let span_ns = to_ns - self.now_ns;
        let counts: Vec<_> = (0..DEVICES).map(|device| self.working_on(device)).collect();
        for queue in self.queues.iter_mut().filter(|queue| queue.working()) {
            queue.work(span_ns / counts[queue.device].max(1));
            self.ran_ns[queue.number] += span_ns;
        }
        self.now_ns = to_ns;
    }

    /// Everything that is due, one after the other, and after each thing the policy decides.
    fn happen(&mut self) -> Result<(), Broken> {
        self.fire_timers()?;
        for index in 0..self.queues.len() {
            if self.queues[index].due(self.now_ns) {
                self.say(index)?;
            }
        }
        for device in 0..DEVICES {
            if self.fate[device].1 <= self.now_ns {
                self.befall(device)?;
            }
        }
        Ok(())
    }

    fn fire_timers(&mut self) -> Result<(), Broken> {
        let mut at_once = 0;
        while self.scheduler.poll_timeout().is_some_and(|at| at <= self.now()) {
            at_once += 1;
            require(at_once <= TIMERS_AT_ONCE_MAX, Check::Timers, || {
                let at = Duration::from_ns(self.now_ns);
                format!("at {at} it asks to be woken at once, again and again")
            })?;
            self.timers += 1;
            self.scheduler.handle_timeout(self.now());
            self.settle()?;
        }
        Ok(())
    }

    fn say(&mut self, index: usize) -> Result<(), Broken> {
        let queue = &mut self.queues[index];
        let (id, report) = (queue.id, queue.say());
        self.scheduler.handle_report(self.now(), id, &report).map_err(refused)?;
        self.settle()
    }

    /// A queue of the device gets other hints, or makes room for another one.
    fn befall(&mut self, device: usize) -> Result<(), Broken> {
        let rng = &mut self.fate[device].0;
        let here: Vec<_> =
            (0..self.queues.len()).filter(|&i| self.queues[i].device == device).collect();
        let (index, hints) = (here[below(here.len(), rng)], draw_hints(rng));
        let goes = rng.random_bool(0.4);
        self.fate[device].1 = self.now_ns + rng.random_range(200_000..5_000_000);
        let id = self.queues[index].id;
        if goes {
            self.detach(id)?;
            // There is no decision in between: the slot is reused at once.
            if self.numbers.is_multiple_of(2) {
                self.settle()?;
            }
            self.queues[index] = self.attach(device, hints)?;
        } else {
            let hints = self.plan.given(hints);
            self.scheduler.set_hints(self.now(), id, hints).map_err(refused)?;
        }
        self.settle()
    }

    /// The policy decides, the queues obey, and what must be true is looked at.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        self.give_orders()?;
        let counters = self.scheduler.policy().counters;
        let decided = counters.decisions > self.seen.decisions;
        self.counters.decisions += counters.decisions - self.seen.decisions;
        self.counters.looked_at += counters.looked_at - self.seen.looked_at;
        self.counters.verdicts += counters.verdicts - self.seen.verdicts;
        if self.plan.full && decided {
            self.decide_fully()?;
        }
        self.seen = self.scheduler.policy().counters;
        let table = self.scheduler.table();
        self.waits.look(self.now_ns, &table)?;
        no_execute(self.scheduler.policy(), &table)?;
        spared(self.scheduler.policy(), &table)
    }

    fn give_orders(&mut self) -> Result<(), Broken> {
        for count in 0.. {
            let Some((id, order)) = self.scheduler.poll_order(self.now()) else { break };
            require(count < ORDERS_MAX, Check::Idempotent, || {
                "the orders after one event never end".to_owned()
            })?;
            let Some(queue) = self.queues.iter_mut().find(|queue| queue.id == id) else {
                continue;
            };
            if let Order::Progress { every } = order {
                queue.every_ns = every.as_ns().max(1);
                continue;
            }
            queue.runs = matches!(order, Order::Run { .. });
            self.orders.push((self.now_ns, queue.number, queue.runs));
            obey(order, &mut queue.report);
            let report = queue.say();
            self.scheduler.handle_report(self.now(), id, &report).map_err(refused)?;
        }
        Ok(())
    }

    fn decide_fully(&mut self) -> Result<(), Broken> {
        self.scheduler.reconsider_all();
        let mut order = self.scheduler.poll_order(self.now());
        if order.is_none() {
            // Also at queues that are idle and have not changed.
            self.scheduler.invalidate_all();
            order = self.scheduler.poll_order(self.now());
        }
        require(order.is_none(), Check::Full, || {
            let slot = order.map_or(0, |(id, _)| id.index());
            let runs = matches!(order, Some((_, Order::Run { .. })));
            let (now, then) = if runs { ("run", "hold") } else { ("hold", "run") };
            format!(
                "at {} ns a full decision lets the queue in slot {slot} {now}, right after the \
                 ordinary one let it {then}",
                self.now_ns
            )
        })
    }
}

/// The rig keeps to what the scheduler asks for, so this is a defect of the rig.
fn refused(error: SchedulerError) -> Broken {
    Broken { check: Check::Rig, what: format!("the scheduler refused a call: {error}") }
}
