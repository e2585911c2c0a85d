//! The thread that decides: the scheduler machine, and the gates of all processes.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant as Clock};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use xsched_core::hint::Hints;
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::level::{Level, LevelChoice};
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration as Span, Instant};
use xsched_hal_stream::SharedPage;
use xsched_node::{ClientStatus, LEASE, Status};
use xsched_policies::Any;

use crate::device::{DEVICES_MAX, Devices};
use crate::unit::{Client, Unit};

/// Processes on GPUs that there can be.
const UNITS_MAX: usize = 8_192;
/// Pages that a process may have for one GPU: gates for some 4,000 streams.
const PAGES_MAX: usize = 64;
/// For how long after the last event the thread looks again at once, while processes share a GPU.
const SPIN: Duration = Duration::from_micros(200);
/// Events that are taken at a time.
const EVENTS: usize = 64;
/// Without anything to do the thread wakes this often.
const IDLE: Duration = Duration::from_secs(1);

/// What the thread of the connections asks for.
#[derive(Debug)]
pub(crate) enum Op {
    /// A process is there.
    Join(u64, Client),
    /// It has handed a page over. Why it is not taken is answered.
    Page { client: u64, device: String, page: SharedPage, answer: Sender<Result<(), String>> },
    /// It has left.
    Leave(u64),
    /// Another policy.
    Policy(Box<Any>),
    /// New hints for the processes with this number, of this user unless there is none.
    Set { pid: i32, uid: Option<u32>, change: Change, answer: Sender<usize> },
    /// New hints for a connection.
    Hints { client: u64, hints: Hints },
    /// What a user may see; everything if there is none.
    Status { uid: Option<u32>, answer: Sender<Status> },
    /// The thread ends.
    End,
}

/// What is changed of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) priority: Option<xsched_core::hint::Priority>,
    pub(crate) share: Option<u8>,
    pub(crate) active: Option<bool>,
    pub(crate) hold: Option<bool>,
}

/// Wakes the thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // It is full only if the thread is about to wake.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// An eventfd that never blocks.
pub(crate) fn new_eventfd() -> rustix::io::Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// What the thread has.
#[derive(Debug)]
pub(crate) struct Driver {
    start: Clock,
    machine: Scheduler<Any, Heap>,
    clients: HashMap<u64, Client>,
    units: HashMap<u32, Unit>,
    devices: Devices,
    ops: Receiver<Op>,
    epoll: OwnedFd,
    waker: Waker,
    /// When device time was counted last.
    counted: Instant,
    renewed: Instant,
    spin_until: Instant,
    policy: &'static str,
}

impl Driver {
    pub(crate) fn new(policy: Any, ops: Receiver<Op>) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = Waker(Arc::new(new_eventfd()?));
        epoll::add(&epoll, &waker.0, EventData::new_u64(u64::MAX), EventFlags::IN)?;
        let name = xsched_core::policy::Policy::name(&policy);
        Ok(Self {
            start: Clock::now(),
            machine: Scheduler::new(policy, Heap::new(UNITS_MAX, DEVICES_MAX, 1)),
            clients: HashMap::new(),
            units: HashMap::new(),
            devices: Devices::default(),
            ops,
            epoll,
            waker,
            counted: Instant::ZERO,
            renewed: Instant::ZERO,
            spin_until: Instant::ZERO,
            policy: name,
        })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn now(&self) -> Instant {
        Instant::from_ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs until it is told to end. All gates are open then.
    pub(crate) fn run(mut self) {
        let mut rung = Vec::with_capacity(EVENTS);
        loop {
            let now = self.now();
            self.notice_a_gap(now);
            self.count(now);
            if !self.take_ops(now) {
                break;
            }
            self.look(now, !rung.is_empty());
            self.decide(now);
            self.renew(now);
            rung.clear();
            self.wait(&mut rung);
        }
        self.units.values().for_each(Unit::let_go);
    }

    /// If this thread was stopped past the lease, processes have opened their gates meanwhile.
    fn notice_a_gap(&self, now: Instant) {
        let is_held = || self.units.values().any(Unit::is_closed);
        if now.since(self.renewed).as_ns() > LEASE.as_nanos() as u64 / 2 && is_held() {
            self.units.values().filter(|unit| unit.is_closed()).for_each(Unit::apply);
        }
    }

    /// False if it is to end.
    fn take_ops(&mut self, now: Instant) -> bool {
        loop {
            match self.ops.try_recv() {
                Ok(Op::End) | Err(TryRecvError::Disconnected) => return false,
                Ok(op) => self.take(op, now),
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn take(&mut self, op: Op, now: Instant) {
        match op {
            Op::Join(id, client) => {
                let data = EventData::new_u64(id);
                if let Err(error) = epoll::add(&self.epoll, &client.doorbell, data, EventFlags::IN)
                {
                    tracing::warn!(%error, "a process cannot wake the daemon");
                }
                self.clients.insert(id, client);
            }
            Op::Page { client, device, page, answer } => {
                let _ = answer.send(self.add_page(client, &device, page, now));
            }
            Op::Leave(id) => self.leave(id, now),
            Op::Policy(policy) => {
                self.policy = xsched_core::policy::Policy::name(&*policy);
                let _ = self.machine.set_policy(*policy);
            }
            Op::Set { pid, uid, change, answer } => {
                let _ = answer.send(self.set(pid, uid, change, now));
            }
            Op::Hints { client, hints } => self.set_hints(client, hints, now),
            Op::Status { uid, answer } => {
                let _ = answer.send(self.status(uid, now));
            }
            Op::End => {}
        }
    }

    /// Adds a page to a process's unit of a GPU, which is made if there is none.
    fn add_page(
        &mut self,
        id: u64,
        name: &str,
        page: SharedPage,
        now: Instant,
    ) -> Result<(), String> {
        let client = self.clients.get(&id).ok_or("the process is not known")?;
        let device = self.devices.number(name).ok_or("a GPU has a name of 1 to 128 bytes")?;
        let is_it = |unit: &&mut Unit| unit.client == id && unit.device == device;
        if let Some(unit) = self.units.values_mut().find(is_it) {
            if unit.pages() >= PAGES_MAX {
                return Err(format!("a process has at most {PAGES_MAX} pages for a GPU"));
            }
            unit.add(page);
            return Ok(());
        }
        let attach = Attach {
            device,
            process: ProcessId(id as u32),
            hints: client.hints,
            level: LevelChoice::Exactly(Level::Deactivate),
            ..Attach::default()
        };
        let queue = self.machine.attach(now, attach).map_err(|error| error.to_string())?;
        let mut unit = Unit::new(id, device, queue, now);
        unit.by_hand = client.by_hand;
        unit.add(page);
        self.units.insert(queue.index() as u32, unit);
        self.note_wanted(device);
        Ok(())
    }

    /// Processes that are alone on their GPU need not wake the daemon.
    fn note_wanted(&self, device: DeviceId) {
        let on_it = || self.units.values().filter(|unit| unit.device == device);
        let wanted = on_it().count() > 1;
        on_it().for_each(|unit| unit.set_wanted(wanted));
    }

    fn leave(&mut self, id: u64, now: Instant) {
        let gone: Vec<_> =
            self.units.iter().filter(|(_, unit)| unit.client == id).map(|(key, _)| *key).collect();
        for key in gone {
            let Some(unit) = self.units.remove(&key) else { continue };
            unit.let_go();
            // It is known.
            let _ = self.machine.detach(now, unit.queue);
            self.note_wanted(unit.device);
        }
        if let Some(client) = self.clients.remove(&id) {
            let _ = epoll::delete(&self.epoll, &client.doorbell);
        }
    }

    fn set_hints(&mut self, id: u64, hints: Hints, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.hints = hints;
        for unit in self.units.values().filter(|unit| unit.client == id) {
            // It is known.
            let _ = self.machine.set_hints(now, unit.queue, hints);
        }
    }

    /// How many processes were changed.
    fn set(&mut self, pid: i32, uid: Option<u32>, change: Change, now: Instant) -> usize {
        let is_meant =
            |client: &Client| client.pid == pid && uid.is_none_or(|uid| uid == client.uid);
        let mut changed = 0;
        for (id, client) in self.clients.iter_mut().filter(|(_, client)| is_meant(client)) {
            changed += 1;
            client.hints.priority = change.priority.unwrap_or(client.hints.priority);
            client.hints.utilization = change.share.or(client.hints.utilization);
            client.hints.active_window = change.active.unwrap_or(client.hints.active_window);
            client.by_hand = change.hold.unwrap_or(client.by_hand);
            for unit in self.units.values_mut().filter(|unit| unit.client == *id) {
                let _ = self.machine.set_hints(now, unit.queue, client.hints);
                if let Some(hold) = change.hold {
                    unit.hold_by_hand(hold, now);
                    let report = unit.take_report();
                    let _ = self.machine.handle_report(now, unit.queue, &report);
                }
            }
        }
        changed
    }

    /// Counts device time: where several processes run, each has its part.
    fn count(&mut self, now: Instant) {
        let passed = now.since(std::mem::replace(&mut self.counted, now)).as_ns();
        let mut running = [0_u64; DEVICES_MAX];
        self.running().for_each(|unit| running[unit.device.index()] += 1);
        for unit in self.units.values_mut().filter(|unit| unit.runs()) {
            let part = Span::from_ns(passed / running[unit.device.index()].max(1));
            if unit.used(part) {
                let report = unit.take_report();
                let _ = self.machine.handle_report(now, unit.queue, &report);
            }
        }
    }

    fn running(&self) -> impl Iterator<Item = &Unit> {
        self.units.values().filter(|unit| unit.runs())
    }

    /// Looks which processes have work. After one has rung, it looks again for a while at once.
    fn look(&mut self, now: Instant, has_rung: bool) {
        for unit in self.units.values_mut() {
            if unit.look(now) {
                let report = unit.take_report();
                let _ = self.machine.handle_report(now, unit.queue, &report);
            }
        }
        if has_rung {
            self.spin_until = now + Span::from_ns(SPIN.as_nanos() as u64);
        }
    }

    /// Has the policy decide, and does what it orders.
    fn decide(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
        while let Some((queue, order)) = self.machine.poll_order(now) {
            self.obey(queue, order, now);
        }
    }

    fn obey(&mut self, queue: QueueId, order: xsched_core::message::Order, now: Instant) {
        let Some(unit) = self.units.get_mut(&(queue.index() as u32)) else { return };
        if unit.obey(order, now) {
            let report = unit.take_report();
            let _ = self.machine.handle_report(now, queue, &report);
        }
    }

    /// Renews the leases of holds.
    fn renew(&mut self, now: Instant) {
        if now.since(self.renewed).as_ns() < LEASE.as_nanos() as u64 / 4 {
            return;
        }
        self.renewed = now;
        self.units.values().filter(|unit| unit.is_closed()).for_each(Unit::renew);
    }

    /// Waits until there is something to do, and says which processes rang.
    fn wait(&self, rung: &mut Vec<u64>) {
        let now = self.now();
        let left = if now < self.spin_until { Duration::ZERO } else { self.left(now) };
        let time =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let space = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.epoll, space, Some(&time)).is_err() {
            return;
        }
        let mut count = [0; 8];
        for event in &events {
            let id = event.data.u64();
            let fd = match self.clients.get(&id) {
                Some(client) => client.doorbell.as_fd(),
                None => self.waker.0.as_fd(),
            };
            let _ = rustix::io::read(fd, &mut count);
            rung.push(id);
        }
    }

    /// For how long nothing has to be done unless something happens.
    fn left(&self, now: Instant) -> Duration {
        let until = |due: Instant| Duration::from_nanos(due.since(now).as_ns());
        let timer = self.machine.poll_timeout().map_or(IDLE, until);
        let is_held = self.units.values().any(Unit::is_closed);
        let lease = if is_held { LEASE / 4 } else { IDLE };
        let progress = self.running().map(Unit::left_to_report).min().unwrap_or(Span::MAX);
        let progress = Duration::from_nanos(progress.as_ns());
        timer.min(lease).min(progress).min(IDLE)
    }

    fn status(&self, uid: Option<u32>, now: Instant) -> Status {
        let mut clients: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| uid.is_none_or(|uid| uid == client.uid))
            .flat_map(|(id, client)| self.status_of(*id, client, now))
            .collect();
        clients.sort_by(|a, b| (a.pid, &a.device).cmp(&(b.pid, &b.device)));
        Status { schema: 1, policy: self.policy.to_owned(), clients }
    }

    fn status_of(&self, id: u64, client: &Client, now: Instant) -> Vec<ClientStatus> {
        let of = |unit: Option<&Unit>| ClientStatus {
            pid: client.pid,
            uid: client.uid,
            name: client.name.clone(),
            device: unit.map_or("", |unit| self.devices.name(unit.device)).to_owned(),
            state: unit.map_or("idle", Unit::state).to_owned(),
            since_ms: unit.map_or(0, |unit| now.since(unit.since).as_ns() / 1_000_000),
            priority: i32::from(client.hints.priority.get()),
            share: client.hints.utilization,
            device_ms: unit.map_or(0, |unit| unit.report.busy.as_ns() / 1_000_000),
            holds: unit.map_or(0, |unit| unit.holds),
            held_by_hand: client.by_hand,
        };
        let units: Vec<_> = self.units.values().filter(|unit| unit.client == id).collect();
        if units.is_empty() {
            vec![of(None)]
        } else {
            units.into_iter().map(|u| of(Some(u))).collect()
        }
    }
}

/// The hints of a process.
pub(crate) fn hints(priority: xsched_core::hint::Priority, share: Option<u8>) -> Hints {
    let mut hints = Hints::with_priority(priority);
    hints.utilization = share.map(|share| share.min(100));
    hints
}
