//! A scheduler and its queues: configuration, messages, and the course of a run.

use std::collections::VecDeque;

use xsched_core::check::{InversionCheck, WakeupCheck};
use xsched_core::fault::Fault;
use xsched_core::hint::PolicyHint;
use xsched_core::id::{CmdId, DeviceId, EventRef, QueueId};
use xsched_core::level::{Caps, Level, Recovery};
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::queue::{Action, CommandSlot, Queue, QueueConfig, Signal};
use xsched_core::scheduler::{Heap, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_core::window::WindowConfig;
use xsched_policies::Any;

use super::bytes::Bytes;
use super::device::{Device, Did};
use super::scheduler_model::Model;
use super::{Checked, Counters, Difference, Log, require, same};

/// Operations in one run.
const OPERATIONS_MAX: usize = 400;
/// Rounds until all messages have arrived.
const ROUNDS_MAX: usize = 400;
/// Orders for one report, and actions for one order.
const ANSWERS_MAX: usize = 1_000;

mutants! {
    SchedulerMutant:
    /// Every fifth verdict does not arrive.
    LoseOrder,
    /// Every third word that an event was reached does not arrive.
    LoseReached,
    /// Every third report does not arrive, although it was the last one.
    LoseReport,
    /// Changed hints do not get to the scheduler.
    KeepHints,
    /// A policy switch does not get to the scheduler.
    KeepPolicy,
    /// All queues are attached to the first device.
    OneDevice,
    /// Every wait is admitted.
    AdmitAll,
    /// User holds do not get to the queue.
    IgnoreHand,
    /// The scheduler does not hear of a queue that is gone.
    KeepGone,
    /// Queues are not told to watch for a command.
    LoseWatch,
    /// Orders to run are taken for orders to hold.
    HoldAll,
}

/// Runs the life of a scheduler and its queues, with a defect if one is asked for.
///
/// # Errors
/// The first difference that shows.
pub fn run_scheduler(data: &[u8], mutant: SchedulerMutant) -> Result<Counters, Difference> {
    let mut run = Run::new(Bytes::new(data), mutant);
    if run.course().is_ok() {
        return Ok(run.counters);
    }
    // Once more, to say what happened.
    let mut run = Run::new(Bytes::new(data), mutant);
    run.log = Log::on();
    let outcome = run.course();
    outcome.map_err(|difference| run.log.explain(&difference)).map(|()| run.counters)
}

/// A queue, its device, and the messages between it and the scheduler.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) id: QueueId,
    pub(super) queue: Queue<Vec<CommandSlot>>,
    pub(super) device: Device,
    pub(super) caps: Caps,
    pub(super) suspended: bool,
    /// The level that the scheduler orders, and the queue's own limit.
    pub(super) level: Level,
    pub(super) limit: Level,
    /// Orders on their way.
    pub(super) inbox: VecDeque<Order>,
    /// The newest report that is on its way; older ones are overtaken by it.
    pub(super) outbox: Option<Report>,
}

impl Actor {
    pub(super) fn new(bytes: &mut Bytes<'_>) -> Self {
        let levels = [Level::Interrupt, Level::Deactivate, Level::Block];
        let mut caps = Caps::up_to(bytes.pick(&levels), 4_096);
        if bytes.below(3) == 2 {
            caps = caps.with_recovery(Recovery::Replay);
        }
        let slots = bytes.pick(&[16, 8, 3, 32, 12]);
        let window = WindowConfig::fixed(bytes.up_to(8) as u32, bytes.up_to(4) as u32);
        let limit = bytes.pick(&levels);
        let config = QueueConfig { window, level: limit, ..QueueConfig::default() };
        Self {
            id: QueueId::default(),
            queue: Queue::new(vec![CommandSlot::default(); slots], config, caps),
            device: Device::new(&caps),
            caps,
            suspended: false,
            level: Level::Block,
            limit,
            inbox: VecDeque::new(),
            outbox: None,
        }
    }
}

/// A run.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) bytes: Bytes<'a>,
    pub(super) scheduler: Scheduler<Any, Heap>,
    pub(super) actors: Vec<Actor>,
    pub(super) model: Model,
    pub(super) devices: usize,
    /// Queues that are gone.
    pub(super) gone: Vec<QueueId>,
    pub(super) now: Instant,
    mutant: SchedulerMutant,
    mutations: u64,
    pub(super) counters: Counters,
    pub(super) log: Log,
}

impl<'a> Run<'a> {
    fn new(mut bytes: Bytes<'a>, mutant: SchedulerMutant) -> Self {
        let slots = bytes.pick(&[6, 4, 3, 8, 2]);
        let devices = bytes.up_to(2);
        let room = bytes.pick(&[16, 8, 3, 1, 0]);
        let hpf = bytes.below(4) != 3;
        let mut scheduler = Scheduler::new(policy(hpf), Heap::new(slots, devices, room));
        // The model has no stall time.
        scheduler.hint_policy(PolicyHint::Stall(None));
        let model = Model::new(hpf, room);
        let mut run = Self {
            bytes,
            scheduler,
            actors: Vec::new(),
            model,
            devices,
            gone: Vec::new(),
            now: Instant::ZERO,
            mutant,
            mutations: 0,
            counters: Counters::default(),
            log: Log::default(),
        };
        for _ in 0..run.bytes.up_to(slots) {
            // The table has room for this many.
            let _ = run.attach();
        }
        run
    }

    fn course(&mut self) -> Checked {
        for _ in 0..OPERATIONS_MAX {
            if self.bytes.is_empty() {
                break;
            }
            self.now += Duration::from_us(3);
            self.operation()?;
        }
        self.log.note(|| "the last phase".into());
        self.finish()
    }

    /// True if this is one of the times at which the mutant does what it should not.
    pub(super) fn mutates(&mut self, mutant: SchedulerMutant, every: u64) -> bool {
        if self.mutant != mutant {
            return false;
        }
        self.mutations += 1;
        self.mutations.is_multiple_of(every)
    }

    /// The queue asks for what it needs, and the device obeys.
    pub(super) fn act(&mut self, n: usize) -> Checked {
        let now = self.now;
        let actor = &mut self.actors[n];
        for round in 0.. {
            require(round < ANSWERS_MAX, "a queue never stops asking")?;
            match actor.queue.poll_action(now) {
                None => break,
                Some(Action::Launch { cmd, fence }) => {
                    let taken = actor.device.launch(cmd.0, fence, false);
                    require(taken, "a launch while the device forgets")?;
                }
                Some(Action::Fence { upto }) => actor.device.fence(upto.0),
                Some(Action::Step { step, seq }) => {
                    let result = Ok(actor.device.step(step).map(CmdId));
                    actor.queue.handle_signal(now, Signal::Stepped { seq, result });
                }
            }
        }
        if let Some(report) = actor.queue.poll_report() {
            if actor.outbox.replace(report).is_some() {
                self.counters.count("overtaken reports");
            }
            self.log.note(|| format!("  {n} says {report:?}"));
        }
        Ok(())
    }

    /// The scheduler hears the newest report of a queue. Returns false if there is none.
    pub(super) fn deliver_report(&mut self, n: usize, keep: bool) -> Result<bool, Difference> {
        let id = self.actors[n].id;
        let Some(report) = self.actors[n].outbox else { return Ok(false) };
        if !keep {
            self.actors[n].outbox = None;
        }
        if let Some(known) = self.model.get_mut(id) {
            known.report = report;
        }
        if self.mutates(SchedulerMutant::LoseReport, 3) {
            return Ok(true);
        }
        self.log.note(|| format!("  the scheduler hears {n}"));
        let answer = self.scheduler.handle_report(self.now, id, &report);
        same("the answer to a report", Ok(()), answer)?;
        Ok(true)
    }

    /// The scheduler gives its orders. Returns false if it has none.
    pub(super) fn give_orders(&mut self) -> Result<bool, Difference> {
        for n in 0.. {
            require(n < ANSWERS_MAX, "the scheduler never stops ordering")?;
            let Some((id, mut order)) = self.scheduler.poll_order(self.now) else {
                return Ok(n > 0);
            };
            self.log.note(|| format!("  for {}: {order:?}", id.index()));
            let lost = match order {
                Order::Run { .. } | Order::Hold { .. } => {
                    self.mutates(SchedulerMutant::LoseOrder, 5)
                }
                Order::Reached { .. } => self.mutates(SchedulerMutant::LoseReached, 3),
                Order::Watch { .. } => self.mutates(SchedulerMutant::LoseWatch, 1),
                Order::Progress { .. } => {
                    return Err(Difference("progress that no queue asked for".into()));
                }
            };
            if let Order::Run { epoch } = order
                && self.mutates(SchedulerMutant::HoldAll, 1)
            {
                order = Order::Hold { epoch, level: Level::Block };
            }
            let actor = self.actors.iter_mut().find(|actor| actor.id == id);
            let Some(actor) = actor else {
                return Err(Difference("an order for a queue that is gone".into()));
            };
            if !lost {
                actor.inbox.push_back(order);
            }
        }
        Ok(true)
    }

    /// A queue gets the oldest order on its way. Returns false if there is none.
    pub(super) fn deliver_order(&mut self, n: usize) -> Result<bool, Difference> {
        let Some(order) = self.actors[n].inbox.pop_front() else { return Ok(false) };
        self.counters.count(match order {
            Order::Run { .. } => "orders to run",
            Order::Hold { .. } => "orders to hold",
            Order::Watch { .. } => "orders to watch",
            Order::Reached { ok: true, .. } => "events reached",
            Order::Reached { ok: false, .. } => "events abandoned",
            Order::Progress { .. } => "orders to report progress",
        });
        self.actors[n].queue.handle_order(order);
        self.act(n)?;
        Ok(true)
    }

    /// All messages arrive, and everything is compared.
    pub(super) fn settle(&mut self) -> Checked {
        for round in 0.. {
            require(round < ROUNDS_MAX, "messages never stop")?;
            let mut busy = false;
            for n in 0..self.actors.len() {
                self.act(n)?;
                busy |= self.deliver_report(n, false)?;
            }
            busy |= self.give_orders()?;
            for n in 0..self.actors.len() {
                while self.deliver_order(n)? {
                    busy = true;
                }
            }
            if !busy {
                break;
            }
        }
        self.compare()?;
        // Looking at everything again is the oracle for having looked at what changed.
        self.scheduler.reconsider_all();
        let again = self.scheduler.poll_order(self.now);
        same("an order after a full decision", None, again)?;
        self.scheduler.invalidate_all();
        let again = self.scheduler.poll_order(self.now);
        same("an order after a full decision about all queues", None, again)
    }

    fn compare(&mut self) -> Checked {
        self.counters.count("comparisons");
        let running = self.model.running();
        same("queues", self.model.queues.len(), self.scheduler.table().iter().count())?;
        for actor in &self.actors {
            let name = format!("queue {}", actor.id.index());
            let Some(info) = self.scheduler.table().get(actor.id).copied() else {
                return Err(Difference(format!("{name} is not in the table")));
            };
            let Some(known) = self.model.get(actor.id) else {
                return Err(Difference(format!("{name} is not in the model")));
            };
            same(format_args!("{name} ready"), self.model.is_ready(known), info.ready)?;
            let mut runs = running.contains(&actor.id);
            if !runs && info.running && self.model.is_on_circle(known) {
                self.counters.count("circles of waits");
                runs = true;
            }
            same(format_args!("{name} running"), runs, info.running)?;
            let open = self.model.awaits(known).map(|(event, _)| event);
            same(format_args!("{name} waits"), open, actor.queue.waiting())?;
            let report = actor.queue.report();
            same(format_args!("{name} by hand"), actor.suspended, report.suspended)?;
            check_hold(&name, actor, runs)?;
            let held = match report.hold {
                HoldState::Held(level) => Some(level),
                _ => None,
            };
            same(format_args!("{name} held, as the scheduler knows"), held, info.held)?;
            self.check_inversion(known.report.suspended, runs, open)?;
        }
        same("circles", 0, self.scheduler.stats().circles)?;
        let held = self.actors.len() - running.len();
        self.counters.count(["no queue held", "a queue held"][usize::from(held > 0)]);
        Ok(())
    }

    fn check_inversion(&self, suspended: bool, runs: bool, awaits: Option<EventRef>) -> Checked {
        let Some(event) = awaits else { return Ok(()) };
        let target = self.scheduler.table().get(event.queue);
        let target_held = target.is_none_or(|target| !target.running);
        let mut check = InversionCheck::new(Duration::ZERO);
        check.look(self.now, runs && !suspended, target_held)?;
        Ok(check.look(self.now + Duration::from_ns(1), runs && !suspended, target_held)?)
    }

    /// The device of a queue works off everything that it can, and the queue is told.
    pub(super) fn work(&mut self, n: usize, steps: usize) -> Result<bool, Difference> {
        let actor = &mut self.actors[n];
        let mut worked = false;
        for _ in 0..steps {
            let (did, _) = actor.device.advance();
            worked |= did != Did::Nothing;
        }
        if let Some(retired) = actor.device.tell() {
            actor.queue.handle_signal(self.now, Signal::Retired(retired));
            self.act(n)?;
        }
        Ok(worked)
    }

    /// Everything works from now on, and everything has to retire: first under the policy in
    /// charge, then under none.
    fn finish(&mut self) -> Checked {
        for n in 0..self.actors.len() {
            self.resume(n, false)?;
            let id = self.actors[n].id;
            if self.model.get(id).is_some_and(|known| known.priority == -256) {
                self.set_priority(n, 0)?;
            }
        }
        for hpf in [self.model.hpf, false] {
            self.set_policy(hpf);
            self.drain()?;
            for actor in &self.actors {
                let (submitted, retired) = (actor.queue.submitted(), actor.queue.retired());
                WakeupCheck::ended(true, submitted, retired)?;
            }
        }
        self.counters.count("ended well");
        Ok(())
    }

    fn drain(&mut self) -> Checked {
        for round in 0.. {
            require(round < ROUNDS_MAX, "the last phase never ends")?;
            self.settle()?;
            let mut busy = false;
            for n in 0..self.actors.len() {
                busy |= self.work(n, 16)?;
            }
            for n in 0..self.actors.len() {
                busy |= self.submit_awaited(n)?;
            }
            if !busy {
                break;
            }
        }
        self.settle()
    }

    /// Submits what a queue waits for and no thread has submitted.
    fn submit_awaited(&mut self, n: usize) -> Result<bool, Difference> {
        let Some(event) = self.actors[n].queue.waiting() else { return Ok(false) };
        let target = self.actors.iter().position(|actor| actor.id == event.queue);
        let Some(target) = target else { return Ok(false) };
        let queue = &mut self.actors[target].queue;
        let missing = queue.submitted() <= event.cmd.0;
        let taken = missing && queue.submit(self.now).is_ok();
        self.act(target)?;
        Ok(taken)
    }
}

/// A queue that may run runs, and one that may not is held, as deep as it was told.
fn check_hold(name: &str, actor: &Actor, runs: bool) -> Checked {
    let report = actor.queue.report();
    if report.lost {
        return Ok(());
    }
    let expected = actor.level.min(actor.limit).min(actor.caps.level);
    match (runs, actor.suspended) {
        (true, false) => same(format_args!("{name} hold"), HoldState::Running, report.hold),
        (false, false) => {
            require(!report.failed_open, format_args!("{name} obeys no orders"))?;
            same(format_args!("{name} hold"), HoldState::Held(expected), report.hold)
        }
        (_, true) => {
            let held = matches!(report.hold, HoldState::Held(_));
            require(held, format_args!("{name} should be suspended, is {:?}", report.hold))
        }
    }
}

pub(super) fn policy(hpf: bool) -> Any {
    if hpf {
        Any::Hpf(xsched_policies::hpf::Hpf::default())
    } else {
        Any::Fcfs(xsched_policies::fcfs::Fcfs)
    }
}

impl Run<'_> {
    /// The queue loses its device.
    pub(super) fn lose(&mut self, n: usize) -> Checked {
        let outcome =
            xsched_core::queue::Outcome::Failed { from: CmdId(0), fault: Fault::DeviceLost };
        let upto = CmdId(self.actors[n].queue.retired().saturating_sub(1));
        let retired = xsched_core::queue::Retired { upto, busy: Duration::ZERO, outcome };
        // Either way of saying it.
        let signal = if upto.0 > 0 { Signal::Retired(retired) } else { Signal::Lost };
        self.actors[n].queue.handle_signal(self.now, signal);
        require(self.actors[n].queue.is_lost(), "a lost device is not lost")?;
        self.act(n)
    }

    pub(super) fn device(&mut self) -> DeviceId {
        DeviceId(self.bytes.below(self.devices) as u16)
    }
}
