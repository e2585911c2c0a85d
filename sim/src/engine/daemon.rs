//! The daemon of a node, which schedules processes: its latencies, and gates that close and open
//! for all queues of a process at once.
//!
//! It is driven like the real one: it wakes when the work of a process begins or ends, looks which
//! processes have work, has the policy decide, and stores into the gates. For a while after that
//! it looks again without having to wake. The queues do not know of it, and launch on.

use std::collections::{HashMap, VecDeque};

use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::level::{Level, LevelChoice};
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};
use xsched_core::unit::{Ran, Said, Unit};

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
    units: Vec<UnitSim>,
    by_process: HashMap<(u32, usize), usize>,
    /// By queue, its place among the units.
    unit_of: Vec<usize>,
    devices: usize,
    wake: Sampler,
    rng: Rng,
    decide_ns: u64,
    spin_ns: u64,
    idle_ns: u64,
    spins_until: Instant,
    /// It is storing what it has decided until then.
    busy_until: Instant,
    /// Until when device time is counted.
    counted: Instant,
    /// A process has woken it, and it has not looked since.
    rung: bool,
    /// When it looks next. It may look earlier than it wants to, and then looks again.
    looks_at: Option<Instant>,
}

/// A process on a device.
struct UnitSim {
    id: QueueId,
    device: usize,
    state: Unit,
    queues: Vec<u32>,
    /// Queues that have work.
    loaded: u32,
    /// None has any more, and the process says so then.
    ends: Option<Instant>,
    /// Device time of commands that have retired.
    said: Said,
    /// What was stored into its gates, and the device has not seen.
    stored: VecDeque<bool>,
}

impl<'a> Daemon<'a> {
    pub(super) fn new(
        policy: Box<dyn Policy + 'a>,
        spec: &DaemonSpec,
        scenario: &Scenario,
        seed: u64,
    ) -> Self {
        let units: usize = scenario.tasks.iter().map(|task| task.count as usize).sum();
        let storage = Heap::new(units, scenario.devices.len(), 1);
        let mut machine = Scheduler::new(policy, storage);
        for hint in policy_hints(scenario) {
            // A policy without such a setting has no use for it.
            let _ = machine.hint_policy(hint);
        }
        Self {
            machine,
            units: Vec::new(),
            by_process: HashMap::new(),
            unit_of: Vec::new(),
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
        let next = self.units.len();
        let at = *self.by_process.entry((process, spec.device)).or_insert(next);
        if at == next {
            let attach = Attach {
                device: DeviceId(u16::try_from(spec.device).unwrap_or(u16::MAX)),
                process: ProcessId(process),
                hints: spec.hints(),
                level: LevelChoice::Exactly(Level::Deactivate),
                ..Attach::default()
            };
            self.units.push(UnitSim {
                id: self.machine.attach(Instant::ZERO, attach)?,
                device: spec.device,
                state: Unit::new(0, Instant::ZERO),
                queues: Vec::new(),
                loaded: 0,
                ends: None,
                said: Said::default(),
                stored: VecDeque::new(),
            });
        }
        if spec.host_bound {
            // It never waits.
            self.units[at].said.waited_us = Some(0);
        } else if spec.leaves_room {
            self.units[at].state.run_side_by_side();
        }
        self.units[at].queues.push(task);
        self.unit_of.push(at);
        Ok(())
    }

    /// A queue got work, or has none any more. When the daemon looks for that, if it has to.
    fn note(&mut self, now: Instant, queue: usize, busy: bool) -> Option<Instant> {
        let unit = &mut self.units[self.unit_of[queue]];
        unit.loaded = if busy { unit.loaded + 1 } else { unit.loaded - 1 };
        let rings = unit.loaded == u32::from(busy);
        if !rings || unit.ends.take().is_some() {
            return None;
        }
        if !busy && self.idle_ns > 0 {
            let said = now + Duration::from_ns(self.idle_ns);
            let ends = said + self.wakes_in(said);
            self.units[self.unit_of[queue]].ends = Some(ends);
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

    /// Commands of a queue have retired that took so long.
    fn retired(&mut self, queue: usize, used_ns: u64) {
        let said = &mut self.units[self.unit_of[queue]].said;
        said.used_ns += used_ns;
        said.ended += 1;
    }

    /// Looks at all processes, and decides. Answers whose gates it stores into.
    fn look(&mut self, now: Instant) -> Vec<usize> {
        self.count(now);
        for unit in &mut self.units {
            let has_ended = unit.ends.is_some_and(|ends| ends <= now);
            unit.ends = unit.ends.filter(|_| !has_ended);
            self.rung |= has_ended;
            let has_work = unit.loaded > 0 || unit.ends.is_some();
            if unit.state.look(has_work, unit.said.used_ns, now) {
                // It is known.
                let _ = self.machine.handle_report(now, unit.id, &unit.state.take_report());
            }
        }
        if std::mem::take(&mut self.rung) {
            self.spins_until = now + Duration::from_ns(self.spin_ns);
        }
        self.machine.handle_timeout(now);
        let mut stores = Vec::new();
        while let Some((id, order)) = self.machine.poll_order(now) {
            let unit = &mut self.units[id.index()];
            let before = unit.state.is_held();
            if unit.state.obey(order, now) {
                let _ = self.machine.handle_report(now, id, &unit.state.take_report());
            }
            if unit.state.is_held() != before {
                unit.stored.push_back(!before);
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
        let mut late = vec![Duration::ZERO; self.devices];
        for unit in self.units.iter_mut().filter(|unit| unit.state.is_loaded()) {
            let ran = Ran::of(running[unit.device], passed);
            let ran = if unit.state.runs() { ran } else { Ran::NOT };
            let counted = unit.state.count(ran, unit.said, now);
            late[unit.device] += counted.late;
            if counted.is_due {
                let _ = self.machine.handle_report(now, unit.id, &unit.state.take_report());
            }
        }
        for unit in self.units.iter_mut().filter(|unit| unit.state.runs()) {
            unit.state.owe(late[unit.device].per(running[unit.device]));
        }
    }

    /// How many processes run on each device.
    fn running(&self) -> Vec<u64> {
        let mut running = vec![0; self.devices];
        let units = self.units.iter().filter(|unit| unit.state.runs());
        units.for_each(|unit| running[unit.device] += 1);
        running
    }

    /// When there is something to do, unless a process wakes it before.
    fn next(&self, now: Instant) -> Option<Instant> {
        let running = self.running();
        let units = self.units.iter().filter(|unit| unit.state.runs());
        let progress = units.map(|unit| (unit.state.left_to_report(), running[unit.device]));
        let progress = progress.filter(|(left, _)| *left < Duration::MAX);
        let progress = progress.map(|(left, running)| now + left.times(running));
        let mut holds = vec![false; self.devices];
        self.units.iter().for_each(|unit| holds[unit.device] |= unit.state.is_held());
        let looks = self.units.iter().map(|unit| {
            let left = unit.state.left_to_look(now);
            if holds[unit.device] { left.min(unit.state.left_to_see(now)) } else { left }
        });
        let looks = looks.filter(|left| *left < Duration::MAX).map(|left| now + left);
        let ends = self.units.iter().filter_map(|unit| unit.ends);
        let next = progress.chain(looks).chain(ends).chain(self.machine.poll_timeout()).min();
        next.map(|next| next.max(self.busy_until))
    }

    /// Whether it has closed the gates of a queue, or is about to.
    fn holds(&self, queue: usize) -> bool {
        let unit = &self.units[self.unit_of[queue]];
        unit.state.is_held() || !unit.stored.is_empty()
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
            for unit in daemon.look(now) {
                self.store(&daemon, unit);
            }
        }
        let next = daemon.looks_at.is_none().then(|| daemon.next(now)).flatten();
        self.daemon = Some(daemon);
        if let Some(next) = next {
            self.daemon_looks(next);
        }
    }

    /// The daemon has decided to close or open the gates of a process.
    fn store(&mut self, daemon: &Daemon<'_>, unit: usize) {
        let UnitSim { device, state, queues, .. } = &daemon.units[unit];
        for queue in queues.iter().map(|queue| *queue as usize) {
            if state.is_held() {
                self.hold_ordered(queue, Level::Deactivate);
            } else {
                self.hold_ended(queue);
            }
        }
        let late_ns = daemon.decide_ns + self.scenario.devices[*device].gate_close_ns;
        self.world.borrow_mut().clock.after(late_ns, Event::Gates { unit: unit as u32 });
    }

    /// The device sees what was stored into the gates of a process.
    pub(super) fn on_gates(&mut self, unit: usize) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let UnitSim { stored, queues, .. } = &mut daemon.units[unit];
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

    /// Whether the daemon holds the process of a queue.
    pub(super) fn daemon_holds(&self, queue: usize) -> bool {
        self.daemon.as_ref().is_some_and(|daemon| daemon.holds(queue))
    }
}
