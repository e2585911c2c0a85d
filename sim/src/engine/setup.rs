//! Building a simulation from a scenario.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use xsched_core::hal::{Backend, Checked, Contract, Faulty};
use xsched_core::hint::PolicyHint;
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::lease::Lease;
use xsched_core::level::{Caps, Level};
use xsched_core::policy::{MayHold, Policy};
use xsched_core::queue::{CommandSlot, Queue, QueueConfig};
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Attach, Heap, LevelChoice, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};
use xsched_core::window::WindowConfig;
use xsched_policies::fcfs::Fcfs;

use super::checks::Checks;
use super::daemon::Daemon;
use super::figures::Figures;
use super::lock::Lock;
use super::queues::QueueSim;
use super::threads::{Generators, Host, Thread};
use super::{Engine, Setup, Variation};
use crate::clock::Event;
use crate::device::{SimBackend, StreamConfig, World};
use crate::sample;
use crate::scenario::{Scenario, SyncScope, TaskSpec, WindowSpec};

/// Waits of a task that may be over without the scheduler knowing it.
const WAITS_SPARE: usize = 8;
/// A scheduler that is silent for this time loses its power to hold queues.
pub(super) const LEASE: Duration = Duration::from_ms(5);
/// Generators are numbered: the arrivals of tasks from 0, locks, faults, the lengths of commands,
/// what waking up takes, and the daemon from here.
const LOCK_STREAM: u64 = 1 << 40;
const FAULT_STREAM: u64 = 1 << 41;
const LENGTH_STREAM: u64 = 1 << 42;
const WAKE_STREAM: u64 = 1 << 43;
pub(super) const DAEMON_STREAM: u64 = 1 << 44;

impl<'a> Engine<'a> {
    /// A simulation that stands at time 0. `contracts` has one entry per task.
    pub(crate) fn new(
        scenario: &'a Scenario,
        tasks: &[TaskSpec],
        contracts: &'a [Contract],
        policy: Box<dyn Policy + 'a>,
        variation: Variation,
        setup: Setup,
    ) -> Result<Self, SchedulerError> {
        let verbose = setup.checks || setup.timeline_spans > 0;
        let mut world = World::new(&scenario.devices, verbose);
        for (model, sharing) in world.devices.iter_mut().zip(variation.sharing) {
            if let Some(sharing) = sharing {
                model.sharing = sharing;
            }
        }
        let world = Rc::new(RefCell::new(world));
        let by_daemon = scenario.daemon.as_ref().filter(|_| variation.name.is_none());
        let (policy, daemon): (Box<dyn Policy + 'a>, _) = match by_daemon {
            Some(spec) => (Box::new(Fcfs), Some(Daemon::new(policy, spec, scenario, setup.seed))),
            None => (policy, None),
        };
        let storage = Heap::new(tasks.len(), scenario.devices.len(), waits_max(tasks));
        let mut scheduler = Recorded::new(Scheduler::new(policy, storage));
        if setup.record {
            scheduler.start(Instant::ZERO, Vec::new());
        }
        for (device, model) in world.borrow().devices.iter().enumerate() {
            scheduler.set_cost(Instant::ZERO, DeviceId(device as u16), model.cost)?;
        }
        for hint in policy_hints(scenario) {
            // A policy without such a setting has no use for it.
            let _ = scheduler.hint_policy(Instant::ZERO, hint);
        }
        let mut engine = Self {
            scenario,
            faulty: setup.faults.any(),
            world,
            now_ns: 0,
            scheduler,
            queues: Vec::new(),
            threads: Vec::new(),
            locks: Vec::new(),
            gate: variation.gate,
            system: variation.name,
            holds: true,
            waits_for_device: vec![Vec::new(); scenario.processes.len()],
            todo: VecDeque::new(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            scheduler_due: true,
            policy_timer: None,
            stalled_until_ns: 0,
            lease: Lease::new(Instant::ZERO, LEASE),
            daemon: daemon.map(Box::new),
            checks: None,
            figures: Figures::new(tasks.len(), scenario.devices.len(), setup.timeline_spans),
            unfinished: tasks.iter().filter(|task| task.requests.is_some()).count(),
            events: 0,
            last_ns: 0,
            injected: 0,
            setup,
        };
        engine.holds = engine.policy().needs().may_hold != MayHold::Nothing;
        engine.make_locks();
        for (spec, contract) in tasks.iter().zip(contracts) {
            engine.add_task(spec, contract)?;
        }
        if engine.setup.checks {
            engine.checks = Some(Box::new(Checks::new(&engine)));
            engine.world.borrow_mut().clock.after(super::checks::INSPECT_NS, Event::Inspect);
        }
        engine.schedule_disturbances();
        Ok(engine)
    }

    fn make_locks(&mut self) {
        for (i, process) in self.scenario.processes.iter().enumerate() {
            let rng = sample::generator(self.setup.seed, LOCK_STREAM + i as u64);
            // A process without a lock has one that no thread takes, so that indices agree.
            let order = process.lock.unwrap_or(crate::scenario::LockOrder::Fair);
            self.locks.push(Lock::new(order, process.lock_handoff_ns, rng));
        }
    }

    fn add_task(&mut self, spec: &TaskSpec, contract: &'a Contract) -> Result<(), SchedulerError> {
        let task = self.threads.len();
        let device = DeviceId(u16::try_from(spec.device).unwrap_or(u16::MAX));
        let level = self.level_of(spec);
        let choice = if self.setup.by_cost { LevelChoice::UpTo } else { LevelChoice::Exactly };
        let id = self.scheduler.attach(
            Instant::ZERO,
            Attach {
                device,
                process: ProcessId(spec.process.map_or(1 << 20 | task as u32, |p| p as u32)),
                hints: spec.hints(),
                level: choice(level),
                threshold: spec.threshold,
                context_permille: permille(spec.context),
            },
        )?;
        if let Some(daemon) = &mut self.daemon {
            daemon.add(spec, task as u32)?;
        }
        let queue = self.open_queue(spec, contract, id, level)?;
        self.queues.push(queue);
        self.record_queue(spec, id);
        self.add_thread(spec);
        Ok(())
    }

    fn level_of(&self, spec: &TaskSpec) -> Level {
        if !self.holds {
            // Nothing is ever held, so the device needs no gates.
            return Level::Block;
        }
        let number = spec.level.unwrap_or(self.setup.level);
        Level::from_number(number).unwrap_or(Level::Block)
    }

    fn open_queue(
        &self,
        spec: &TaskSpec,
        contract: &'a Contract,
        id: QueueId,
        level: Level,
    ) -> Result<QueueSim<'a>, SchedulerError> {
        let mut backend = SimBackend { world: Rc::clone(&self.world) };
        let device = spec.device as u32;
        let config = StreamConfig {
            device,
            level,
            context_permille: permille(spec.context),
            counted_permille: permille(spec.counted),
            waves: spec.waves,
            urgent: spec.urgent_stream,
        };
        let halves = backend.open(id, config).map_err(|_| SchedulerError::UnknownDevice)?;
        let window = window_of(spec);
        let limit = in_flight_limit(&halves.caps, &window);
        let queue_config = QueueConfig { window, level, ..QueueConfig::default() };
        let slots = vec![CommandSlot::default(); spec.capacity as usize].into_boxed_slice();
        let device = &self.scenario.devices[spec.device];
        let rates = self.setup.faults.rates;
        let number = FAULT_STREAM + 4 * u64::from(id.to_bits() as u32);
        let seed = |half: u64| self.setup.seed ^ (number + half);
        Ok(QueueSim {
            id,
            machine: Queue::new(slots, queue_config, halves.caps),
            submit: Checked::new(Faulty::new(halves.submit, rates, seed(0)), contract),
            retire: Checked::new(Faulty::new(halves.retire, rates, seed(1)), contract),
            steps: Checked::new(Faulty::new(halves.preempt, rates, seed(2)), contract),
            contract,
            claim: spec.claim,
            work_ns: vec![0; spec.capacity as usize].into_boxed_slice(),
            stream: id.index() as u32,
            limit,
            host_launch_ns: spec.host_launch_ns.unwrap_or(device.host_launch_ns),
            launch_latency_ns: device.launch_latency_ns,
            launching_until_ns: 0,
            pump_scheduled: false,
            timer_scheduled: false,
            step_seq: 0,
            retired_seen: 0,
            failed: VecDeque::new(),
            gone: false,
            loaded: false,
            suspended: false,
            held: None,
            gated: false,
            asks_at_ns: 0,
        })
    }

    fn add_thread(&mut self, spec: &TaskSpec) {
        let task = self.threads.len();
        let process = spec.process.map(|p| &self.scenario.processes[p]);
        let lock = spec.process.filter(|_| process.is_some_and(|p| p.lock.is_some()));
        let on_return = process.is_some_and(|p| p.lock.is_some() && p.lock_on_return);
        let rngs = Generators {
            arrivals: sample::generator(self.setup.seed, task as u64),
            lengths: sample::generator(self.setup.seed, LENGTH_STREAM + task as u64),
            wakes: sample::generator(self.setup.seed, WAKE_STREAM + task as u64),
        };
        let device = &self.scenario.devices[spec.device];
        let slow = self.holds && !device.queue_wake_ns.is_empty();
        let wake_ns = if slow { &device.queue_wake_ns } else { &device.wake_ns };
        let host = Host { sync_ns: device.host_sync_ns, wake_ns: wake_ns.clone() };
        let mut thread = Thread::new(spec.clone(), rngs, host, lock, on_return);
        thread.lock_percent = process.map_or(100, |process| process.lock_percent);
        self.threads.push(thread);
        if let Some(process) = spec.process.filter(|_| spec.sync == SyncScope::Device) {
            self.waits_for_device[process].push(task as u32);
        }
        self.first_arrivals(task);
    }

    /// A closed loop begins with as many requests as it may have outstanding; an open one with the
    /// first arrival.
    fn first_arrivals(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        let count = if thread.is_closed() { thread.spec.outstanding } else { 1 };
        for _ in 0..count {
            let Some(at_ns) = thread.first_arrival() else { break };
            let event = Event::Arrival { task: task as u32 };
            self.world.borrow_mut().clock.at(at_ns, event);
        }
    }
}

pub(super) fn policy_hints(scenario: &Scenario) -> impl Iterator<Item = PolicyHint> + use<> {
    let timeslice = scenario.timeslice_ns.map(Duration::from_ns).map(PolicyHint::Timeslice);
    let age = scenario.ageing_ns.map(Duration::from_ns);
    let ageing = age.map(|age| PolicyHint::Ageing(Some(age)));
    let floor = scenario.floor_permille;
    let floor = (floor > 0).then_some(PolicyHint::Floor(floor));
    [scenario.k.map(PolicyHint::K), timeslice, ageing, floor].into_iter().flatten()
}

/// How many waits can be submitted and not over: one per request that is.
fn waits_max(tasks: &[TaskSpec]) -> usize {
    let waiting = tasks.iter().filter(|task| task.after.is_some());
    waiting.map(|task| task.outstanding.min(task.capacity) as usize + WAITS_SPARE).sum()
}

fn window_of(spec: &TaskSpec) -> WindowConfig {
    match spec.window {
        WindowSpec::Fixed => WindowConfig::fixed(spec.threshold, spec.batch),
        WindowSpec::Adaptive => WindowConfig::adaptive(spec.threshold),
    }
}

fn in_flight_limit(caps: &Caps, window: &WindowConfig) -> u64 {
    let batch = if window.adaptive { 1 } else { window.batch };
    u64::from(window.threshold.min(caps.in_flight_max(batch)))
}

fn permille(share: f64) -> u32 {
    (share * 1_000.0).round() as u32
}
