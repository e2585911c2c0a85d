//! The daemon of a node, which schedules processes: its latencies, and gates that close and open
//! for all queues of a process at once.
//!
//! It is driven like the real one: it wakes when the work of a process begins or ends, looks which
//! processes have work, has the policy decide, and stores into the gates. For a while after that
//! it looks again without having to wake. The queues do not know of it, and launch on.

use std::collections::{HashMap, VecDeque};

use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::level::{Level, LevelChoice};
use xsched_core::message::Claim;
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};
use xsched_node::entity::{RunInterval, SchedEntity, SelfReport};

use super::Engine;
use super::setup::{DAEMON_STREAM, policy_hints};
use crate::clock::Event;
use crate::device::DAEMON;
use crate::sample::{Rng, Sampler, generator};
use crate::scenario::{DaemonSpec, Scenario, TaskSpec};

/// Processes without a name are numbered by their task, from here.
const UNNAMED: u32 = 1 << 20;

/// The daemon.
pub(super) struct Daemon<'a> {
    machine: Scheduler<Box<dyn Policy + 'a>, Heap>,
    /// In the order of their slots in the machine.
    clients: Vec<GpuClient>,
    by_process: HashMap<(u32, usize), usize>,
    /// By queue, its place among the clients.
    client_of: Vec<usize>,
    devices: usize,
    wake: Sampler,
    rng: Rng,
    decide_ns: u64,
    spin_ns: u64,
    idle_ns: u64,
    spins_until: Instant,
    /// End of the store of its decision.
    busy_until: Instant,
    /// Until when device time is counted.
    counted: Instant,
    /// A process has woken it, and it has not looked since.
    rung: bool,
    /// When it looks next. It may look earlier than it wants to, and then looks again.
    looks_at: Option<Instant>,
}

/// A process on a device.
struct GpuClient {
    id: QueueId,
    device: usize,
    entity: SchedEntity,
    queues: Vec<u32>,
    /// Queues that have work.
    loaded: u32,
    /// None has any more, and the process says so then.
    ends: Option<Instant>,
    /// Device time of commands that have retired.
    said: SelfReport,
    /// Stores into its gates that the device has not seen.
    stored: VecDeque<bool>,
}

impl<'a> Daemon<'a> {
    pub(super) fn new(
        policy: Box<dyn Policy + 'a>,
        spec: &DaemonSpec,
        scenario: &Scenario,
        seed: u64,
    ) -> Self {
        let clients: usize = scenario.tasks.iter().map(|task| task.count as usize).sum();
        let storage = Heap::new(clients, scenario.devices.len(), 1);
        let mut machine = Scheduler::new(policy, storage);
        for hint in policy_hints(scenario) {
            // A policy without such a setting has no use for it.
            let _ = machine.hint_policy(hint);
        }
        Self {
            machine,
            clients: Vec::new(),
            by_process: HashMap::new(),
            client_of: Vec::new(),
            devices: scenario.devices.len(),
            wake: Sampler::new(&spec.wake),
            rng: generator(seed, DAEMON_STREAM),
            decide_ns: spec.decide_ns,
            spin_ns: spec.spin_ns,
            idle_ns: spec.idle_ns,
            spins_until: Instant::ZERO,
            busy_until: Instant::ZERO,
            counted: Instant::ZERO,
            rung: false,
            looks_at: None,
        }
    }

    pub(super) fn policy(&self) -> &dyn Policy {
        self.machine.policy()
    }

    /// Adds the queue of a task to its process, which is known from the start.
    pub(super) fn add(&mut self, spec: &TaskSpec, task: u32) -> Result<(), SchedulerError> {
        let process = spec.process.map_or(UNNAMED + task, |process| process as u32);
        let next = self.clients.len();
        let at = *self.by_process.entry((process, spec.device)).or_insert(next);
        if at == next {
            let attach = Attach {
                device: DeviceId(u16::try_from(spec.device).unwrap_or(u16::MAX)),
                process: ProcessId(process),
                hints: spec.hints(),
                level: LevelChoice::Exactly(Level::Deactivate),
                ..Attach::default()
            };
            self.clients.push(GpuClient {
                id: self.machine.attach(Instant::ZERO, attach)?,
                device: spec.device,
                entity: SchedEntity::new(0, Instant::ZERO),
                queues: Vec::new(),
                loaded: 0,
                ends: None,
                said: SelfReport::default(),
                stored: VecDeque::new(),
            });
        }
        match spec.claim {
            Claim::Whole => {}
            Claim::Part => self.clients[at].entity.run_concurrently(),
            // Its host never waits.
            Claim::Little => self.clients[at].said.waited_us = Some(0),
        }
        self.clients[at].queues.push(task);
        self.client_of.push(at);
        Ok(())
    }

    /// A queue got work, or has none any more. When the daemon looks for that, if it has to.
    fn note(&mut self, now: Instant, queue: usize, busy: bool) -> Option<Instant> {
        let client = &mut self.clients[self.client_of[queue]];
        client.loaded = if busy { client.loaded + 1 } else { client.loaded - 1 };
        let rings = client.loaded == u32::from(busy);
        if !rings || client.ends.take().is_some() {
            return None;
        }
        if !busy && self.idle_ns > 0 {
            let said = now + Duration::from_ns(self.idle_ns);
            let ends = said + self.wakes_in(said);
            self.clients[self.client_of[queue]].ends = Some(ends);
            return Some(self.busy_until.max(ends));
        }
        if std::mem::replace(&mut self.rung, true) {
            return None;
        }
        Some(self.busy_until.max(now + self.wakes_in(now)))
    }

    /// How long it takes to wake if it is woken at this time.
    fn wakes_in(&mut self, at: Instant) -> Duration {
        let sleeps = at >= self.spins_until && at >= self.busy_until;
        Duration::from_ns(if sleeps { self.wake.draw(&mut self.rng) } else { 0 })
    }

    /// Commands of a queue have retired that took this long.
    fn retired(&mut self, queue: usize, used_ns: u64) {
        let said = &mut self.clients[self.client_of[queue]].said;
        said.used_ns += used_ns;
        said.ended += 1;
    }

    /// Looks at all processes, and decides. Answers whose gates it stores into.
    fn look(&mut self, now: Instant) -> Vec<usize> {
        self.count(now);
        for client in &mut self.clients {
            let has_ended = client.ends.is_some_and(|ends| ends <= now);
            client.ends = client.ends.filter(|_| !has_ended);
            self.rung |= has_ended;
            let has_work = client.loaded > 0 || client.ends.is_some();
            let was_ready = client.entity.is_ready();
            // Gates of what has no work are written at once.
            let _ = client.entity.refresh(has_work, client.said, now);
            if client.entity.is_ready() != was_ready {
                // It is known.
                let _ = self.machine.handle_report(now, client.id, &client.entity.take_report());
            }
        }
        if std::mem::take(&mut self.rung) {
            self.spins_until = now + Duration::from_ns(self.spin_ns);
        }
        self.machine.handle_timeout(now);
        let mut stores = Vec::new();
        while let Some((id, order)) = self.machine.poll_order(now) {
            let client = &mut self.clients[id.index()];
            let before = client.entity.is_held();
            let (_, is_reported) = client.entity.obey(order, now);
            client.entity.gates_written();
            if is_reported {
                let _ = self.machine.handle_report(now, id, &client.entity.take_report());
            }
            if client.entity.is_held() != before {
                client.stored.push_back(!before);
                stores.push(id.index());
            }
        }
        if !stores.is_empty() {
            self.busy_until = now + Duration::from_ns(self.decide_ns);
        }
        stores
    }

    /// Counts device time: where several processes run, each has its part, and what is held has
    /// what it still used, which those that run had not.
    fn count(&mut self, now: Instant) {
        let passed = now.since(std::mem::replace(&mut self.counted, now));
        let running = self.running();
        let mut overrun = vec![Duration::ZERO; self.devices];
        for client in self.clients.iter_mut().filter(|client| client.entity.is_ready()) {
            let ran = RunInterval::among(running[client.device], passed);
            let ran = if client.entity.is_running() { ran } else { RunInterval::NONE };
            let accounting = client.entity.account(ran, client.said, now);
            overrun[client.device] += accounting.overrun;
            if accounting.is_report_due {
                let _ = self.machine.handle_report(now, client.id, &client.entity.take_report());
            }
        }
        for client in self.clients.iter_mut().filter(|client| client.entity.is_running()) {
            client.entity.charge_overrun(overrun[client.device].per(running[client.device]));
        }
    }

    /// How many processes run on each device.
    fn running(&self) -> Vec<u64> {
        let mut running = vec![0; self.devices];
        let clients = self.clients.iter().filter(|client| client.entity.is_running());
        clients.for_each(|client| running[client.device] += 1);
        running
    }

    /// When there is something to do, unless a process wakes it before.
    fn next(&self, now: Instant) -> Option<Instant> {
        let running = self.running();
        let clients = self.clients.iter().filter(|client| client.entity.is_running());
        let progress =
            clients.map(|client| (client.entity.report_due_in(), running[client.device]));
        let progress = progress.filter(|(left, _)| *left < Duration::MAX);
        let progress = progress.map(|(left, running)| now + left.times(running));
        let mut holds = vec![false; self.devices];
        self.clients.iter().for_each(|client| holds[client.device] |= client.entity.is_held());
        let looks = self.clients.iter().map(|client| {
            let left = client.entity.next_refresh_in(false, now);
            if holds[client.device] {
                left.min(client.entity.next_host_check_in(now))
            } else {
                left
            }
        });
        let looks = looks.filter(|left| *left < Duration::MAX).map(|left| now + left);
        let ends = self.clients.iter().filter_map(|client| client.ends);
        let next = progress.chain(looks).chain(ends).chain(self.machine.poll_timeout()).min();
        next.map(|next| next.max(self.busy_until))
    }

    /// True if it has closed the gates of a queue, or is about to.
    fn holds(&self, queue: usize) -> bool {
        let client = &self.clients[self.client_of[queue]];
        client.entity.is_held() || !client.stored.is_empty()
    }
}

impl Engine<'_> {
    /// Notes whether a queue has work, and wakes the daemon if that is the first or was the last.
    pub(super) fn note_load(&mut self, queue: usize) {
        let now = self.now();
        let Some(daemon) = &mut self.daemon else { return };
        let q = &mut self.queues[queue];
        let busy = q.machine.submitted() > q.machine.retired();
        if std::mem::replace(&mut q.loaded, busy) != busy
            && let Some(at) = daemon.note(now, queue, busy)
        {
            self.daemon_looks(at);
        }
    }

    /// Notes the device time of commands that have retired.
    pub(super) fn note_retired(&mut self, queue: usize, used: Duration) {
        if let Some(daemon) = &mut self.daemon {
            daemon.retired(queue, used.as_ns());
        }
    }

    fn daemon_looks(&mut self, at: Instant) {
        let Some(daemon) = &mut self.daemon else { return };
        // An event that comes early does nothing; one for each wish would multiply.
        if daemon.looks_at.is_none_or(|known| at < known) {
            daemon.looks_at = Some(at);
            self.world.borrow_mut().clock.at(at.as_ns(), Event::Daemon);
        }
    }

    pub(super) fn on_daemon(&mut self) {
        let now = self.now();
        let Some(mut daemon) = self.daemon.take() else { return };
        if daemon.looks_at.is_some_and(|known| known <= now) {
            daemon.looks_at = None;
            for client in daemon.look(now) {
                self.store(&daemon, client);
            }
        }
        let next = daemon.looks_at.is_none().then(|| daemon.next(now)).flatten();
        self.daemon = Some(daemon);
        if let Some(next) = next {
            self.daemon_looks(next);
        }
    }

    /// The daemon has decided to close or open the gates of a process.
    fn store(&mut self, daemon: &Daemon<'_>, client: usize) {
        let GpuClient { device, entity, queues, .. } = &daemon.clients[client];
        for queue in queues.iter().map(|queue| *queue as usize) {
            if entity.is_held() {
                self.hold_ordered(queue, Level::Deactivate);
            } else {
                self.hold_ended(queue);
            }
        }
        let late_ns = daemon.decide_ns + self.scenario.devices[*device].gate_close_ns;
        self.world.borrow_mut().clock.after(late_ns, Event::Gates { unit: client as u32 });
    }

    /// The device sees what was stored into the gates of a process.
    pub(super) fn on_gates(&mut self, client: usize) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let GpuClient { stored, queues, .. } = &mut daemon.clients[client];
        if let Some(closed) = stored.pop_front() {
            for queue in queues.iter().map(|queue| *queue as usize) {
                self.world.borrow_mut().set_gate(self.queues[queue].stream, DAEMON, closed);
                if let Some(checks) = &mut self.checks {
                    checks.gates(queue, closed);
                }
            }
        }
        self.daemon = Some(daemon);
        self.world_notes();
    }

    /// True if the daemon holds the process of a queue.
    pub(super) fn daemon_holds(&self, queue: usize) -> bool {
        self.daemon.as_ref().is_some_and(|daemon| daemon.holds(queue))
    }
}
