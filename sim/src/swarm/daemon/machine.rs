//! The daemon: a thread for connections, and one that runs the scheduler machine and stores into
//! gates. Its steps are in the order of the real one's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::level::{Level, LevelChoice};
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_node::entity::{GateWrite, HoldCause, RunInterval, SchedEntity, SelfReport};
use xsched_policies::Any;

use super::page::Page;
use super::plan::DEVICES;

/// A daemon that is silent for longer loses its holds.
pub(super) const LEASE: Duration = Duration::from_ms(100);
/// A thread for connections that is in a call for longer counts as stuck.
pub(super) const STUCK_AFTER: Duration = Duration::from_ms(2_000);
/// For how long after a process has woken it the thread does not sleep.
const SPIN: Duration = Duration::from_us(200);
/// Without anything to do the thread looks at all processes this often.
const IDLE: Duration = Duration::from_ms(1_000);
/// Shortest time of a sleep.
const SHORTEST: Duration = Duration::from_us(20);
/// Processes on GPUs that there can be.
const UNITS_MAX: usize = 64;

/// Message of a process to the daemon, by the connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Hello {
        version: u32,
        process: usize,
        hints: Hints,
    },
    Attach {
        page: usize,
    },
    /// The connection has ended.
    Hangup,
}

/// Operation that the thread of the connections asks of the other one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Join { connection: usize, process: usize, hints: Hints },
    Page { connection: usize, page: usize },
    Leave { connection: usize },
    Prioritise { process: usize, priority: i32 },
    Hold { process: usize, hold: bool },
    Policy { name: &'static str },
    End,
}

/// Operations of the scheduler's thread on memory and sockets, one after the other. It may be
/// stopped or killed between any two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Close {
        page: usize,
    },
    Open {
        page: usize,
    },
    Renew {
        page: usize,
    },
    Answer {
        connection: usize,
        ok: bool,
    },
    /// Ends the daemon.
    End,
}

/// A process that is connected.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) process: usize,
    pub(super) hints: Hints,
    is_suspended: bool,
}

/// A process on a GPU.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) connection: usize,
    pub(super) device: usize,
    pub(super) queue: QueueId,
    pub(super) pages: Vec<usize>,
    pub(super) entity: SchedEntity,
    /// Set if the order wakes the daemon.
    is_wanted: bool,
}

impl Place {
    /// True if it is this GPU's of this connection.
    pub(super) fn is(&self, connection: usize, device: usize) -> bool {
        (self.connection, self.device) == (connection, device)
    }

    /// Has it wake the daemon if there are others on its GPU or it is held. True if that is so from
    /// now on: it has to be looked at after this.
    fn update_wanted(&mut self, has_others: bool, pages: &mut [Page]) -> bool {
        let wanted = has_others || self.entity.is_held_by(HoldCause::User);
        if std::mem::replace(&mut self.is_wanted, wanted) == wanted {
            return false;
        }
        self.pages.first().into_iter().for_each(|page| pages[*page].wanted = wanted);
        wanted
    }
}

/// A daemon.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) version: u32,
    pub(super) is_alive: bool,
    /// Connections' thread has ended, and it is about to.
    pub(super) ends: bool,
    pub(super) stopped_until_ns: u64,
    /// Since when it runs without having been stopped, with both threads.
    pub(super) runs_since_ns: u64,
    /// Since when and until when the thread for connections is in a call.
    pub(super) in_call_ns: (u64, u64),
    pub(super) inbox: VecDeque<(usize, Message)>,
    /// Connections that have said hello.
    pub(super) known: BTreeSet<usize>,
    ops: VecDeque<Op>,
    pub(super) machine: Scheduler<Any, Heap>,
    pub(super) clients: BTreeMap<usize, Client>,
    pub(super) places: BTreeMap<u32, Place>,
    /// Connections whose eventfd was written to.
    rung: BTreeSet<usize>,
    pub(super) stores: VecDeque<Store>,
    /// True while the thread sleeps, or spins with nothing to do.
    pub(super) waits: bool,
    /// The number of the turn that comes next.
    pub(super) turn: u32,
    counted: Instant,
    renewed: Instant,
    looked: Instant,
    spin_until: Instant,
}

impl Daemon {
    pub(super) fn new(policy: Any, version: u32, now: Instant) -> Self {
        Self {
            version,
            is_alive: true,
            ends: false,
            stopped_until_ns: 0,
            runs_since_ns: now.as_ns(),
            in_call_ns: (0, 0),
            inbox: VecDeque::new(),
            known: BTreeSet::new(),
            ops: VecDeque::new(),
            machine: Scheduler::new(policy, Heap::new(UNITS_MAX, DEVICES, 1)),
            clients: BTreeMap::new(),
            places: BTreeMap::new(),
            rung: BTreeSet::new(),
            stores: VecDeque::new(),
            waits: true,
            turn: 0,
            counted: now,
            renewed: now,
            looked: now,
            spin_until: now,
        }
    }

    /// The other thread asks for something.
    pub(super) fn send(&mut self, op: Op) {
        self.ops.push_back(op);
    }

    /// The eventfd of a connection was written to. True if that wakes the thread.
    pub(super) fn ring(&mut self, connection: usize) -> bool {
        self.rung.insert(connection);
        self.clients.contains_key(&connection)
    }

    /// The thread for connections is in a call for too long: no process's end is noticed.
    fn is_stuck(&self, now: Instant) -> bool {
        let (since_ns, until_ns) = self.in_call_ns;
        now.as_ns() < until_ns && now.as_ns() - since_ns > STUCK_AFTER.as_ns()
    }

    pub(super) fn spins(&self, now: Instant) -> bool {
        now < self.spin_until
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ops.is_empty() || self.rung.iter().any(|id| self.clients.contains_key(id))
    }

    /// One turn of the scheduler's thread. What it stores it does after this.
    pub(super) fn run(&mut self, now: Instant, pages: &mut [Page]) {
        let rung: Vec<usize> =
            self.rung.iter().copied().filter(|id| self.clients.contains_key(id)).collect();
        rung.iter().for_each(|id| _ = self.rung.remove(id));
        self.notice_a_gap(now);
        self.count(now, pages);
        while let Some(op) = self.ops.pop_front() {
            if matches!(op, Op::End) {
                self.let_go();
                return;
            }
            self.take(op, now, pages);
        }
        self.look(&rung, now, pages);
        self.decide(now);
        self.renew(now);
    }

    /// Opens all gates for the last time.
    fn let_go(&mut self) {
        let all = self.places.values().flat_map(|place| &place.pages);
        self.stores.extend(all.map(|page| Store::Open { page: *page }));
        self.stores.push_back(Store::End);
    }

    /// If this thread was stopped past the lease, processes have opened their gates meanwhile.
    fn notice_a_gap(&mut self, now: Instant) {
        if now.since(self.renewed).as_ns() > LEASE.as_ns() / 2 && !self.is_stuck(now) {
            let closed = self.places.values().filter(|place| place.entity.is_held());
            let pages = closed.flat_map(|place| &place.pages);
            self.stores.extend(pages.map(|page| Store::Close { page: *page }));
        }
    }

    /// Counts device time: where several processes run, each has its part.
    fn count(&mut self, now: Instant, pages: &[Page]) {
        let passed = now.since(std::mem::replace(&mut self.counted, now));
        let running = self.running();
        let (mut due, mut over) = (Vec::new(), Vec::new());
        for (key, place) in self.places.iter_mut().filter(|(_, place)| place.entity.is_ready()) {
            let ran = RunInterval::among(running[place.device], passed);
            let ran = if place.entity.is_running() { ran } else { RunInterval::NONE };
            let first = place.pages.first().map(|page| &pages[*page]);
            let said = first.map_or_else(SelfReport::default, |page| SelfReport {
                used_ns: page.used_ns,
                ended: page.ended,
                waited_us: None,
            });
            let accounting = place.entity.account(ran, said, now);
            due.extend(accounting.is_report_due.then_some(*key));
            over.extend(accounting.is_grace_over.then_some(*key));
        }
        due.into_iter().for_each(|key| self.report(key, now));
        over.into_iter().for_each(|key| self.look_at(key, now, pages));
    }

    fn running(&self) -> [u64; DEVICES] {
        let mut running = [0; DEVICES];
        let places = self.places.values().filter(|place| place.entity.is_running());
        places.for_each(|place| running[place.device] += 1);
        running
    }

    fn report(&mut self, key: u32, now: Instant) {
        if let Some(place) = self.places.get_mut(&key) {
            // It is known.
            let _ = self.machine.handle_report(now, place.queue, &place.entity.take_report());
        }
    }

    fn take(&mut self, op: Op, now: Instant, pages: &mut [Page]) {
        match op {
            Op::Join { connection, process, hints } => {
                self.clients.insert(connection, Client { process, hints, is_suspended: false });
            }
            Op::Page { connection, page } => {
                let ok = self.add_page(connection, page, now, pages);
                self.stores.push_back(Store::Answer { connection, ok });
            }
            Op::Leave { connection } => self.leave(connection, now, pages),
            Op::Policy { name } => {
                if let Ok(policy) = name.parse() {
                    let _ = self.machine.set_policy(policy);
                }
            }
            Op::Prioritise { process, priority } => self.set(process, now, pages, |client| {
                client.hints.priority = Priority::new(priority).unwrap_or_default();
            }),
            Op::Hold { process, hold } => {
                self.set(process, now, pages, |client| client.is_suspended = hold);
            }
            Op::End => {}
        }
    }

    /// Adds a page to the process's unit of a GPU, which is made if there is none. False if there
    /// is no such connection, or no room.
    fn add_page(&mut self, id: usize, page: usize, now: Instant, pages: &mut [Page]) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        let device = pages[page].device;
        if let Some(place) = self.places.values_mut().find(|place| place.is(id, device)) {
            place.pages.push(page);
            self.stores.push_back(store(page, place.entity.is_held()));
            return true;
        }
        let attach = Attach {
            device: DeviceId(device as u16),
            process: ProcessId(id as u32),
            hints: client.hints,
            level: LevelChoice::Exactly(Level::Deactivate),
            ..Attach::default()
        };
        let Ok(queue) = self.machine.attach(now, attach) else { return false };
        let (key, is_suspended) = (queue.index() as u32, client.is_suspended);
        let entity = SchedEntity::new(pages[page].used_ns, now);
        let place =
            Place { connection: id, device, queue, pages: vec![page], entity, is_wanted: false };
        self.places.insert(key, place);
        // A daemon before this one may have closed it.
        self.stores.push_back(Store::Open { page });
        self.update_wanted(key, now, pages);
        if is_suspended {
            self.suspend(key, true, now, pages);
        }
        true
    }

    /// Looks anew whether a process has to wake the daemon, and the only other one on its GPU: one
    /// that is alone need not.
    fn update_wanted(&mut self, key: u32, now: Instant, pages: &mut [Page]) {
        let Some(device) = self.places.get(&key).map(|place| place.device) else { return };
        let on_it: Vec<u32> = self.on(device).collect();
        let has_others = on_it.len() > 1;
        for key in if on_it.len() == 2 { on_it } else { vec![key] } {
            let place = self.places.get_mut(&key);
            if place.is_some_and(|place| place.update_wanted(has_others, pages)) {
                self.look_at(key, now, pages);
            }
        }
    }

    /// The processes on a GPU.
    pub(super) fn on(&self, device: usize) -> impl Iterator<Item = u32> {
        let on_it = self.places.iter().filter(move |(_, place)| place.device == device);
        on_it.map(|(key, _)| *key)
    }

    fn leave(&mut self, id: usize, now: Instant, pages: &mut [Page]) {
        self.clients.remove(&id);
        self.rung.remove(&id);
        let keys = self.places.iter().filter(|(_, place)| place.connection == id);
        for key in keys.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(place) = self.places.remove(&key) else { continue };
            self.stores.extend(place.pages.iter().map(|page| Store::Open { page: *page }));
            // It is known.
            let _ = self.machine.detach(now, place.queue);
            let mut left = self.places.values_mut().filter(|other| other.device == place.device);
            if let (Some(last), None) = (left.next(), left.next()) {
                last.update_wanted(false, pages);
            }
        }
    }

    /// Changes what is known of a process.
    fn set(
        &mut self,
        process: usize,
        now: Instant,
        pages: &mut [Page],
        change: impl Fn(&mut Client),
    ) {
        let meant = self.clients.iter_mut().filter(|(_, client)| client.process == process);
        let mut keys = Vec::new();
        for (id, client) in meant {
            change(client);
            for (key, place) in self.places.iter().filter(|(_, place)| place.connection == *id) {
                // It is known.
                let _ = self.machine.set_hints(now, place.queue, client.hints);
                keys.push((*key, client.is_suspended));
            }
        }
        keys.into_iter().for_each(|(key, hold)| self.suspend(key, hold, now, pages));
    }

    fn suspend(&mut self, key: u32, hold: bool, now: Instant, pages: &mut [Page]) {
        self.change(key, |unit| (unit.suspend(hold, now), ()));
        self.update_wanted(key, now, pages);
        self.report(key, now);
    }

    /// Changes what holds a process, and its gates if that matters.
    fn change<T>(
        &mut self,
        key: u32,
        change: impl FnOnce(&mut SchedEntity) -> (GateWrite, T),
    ) -> Option<T> {
        let place = self.places.get_mut(&key)?;
        let before = place.entity.is_held();
        let (_, changed) = change(&mut place.entity);
        let is_held = place.entity.is_held();
        if is_held != before {
            self.stores.extend(place.pages.iter().map(|page| store(*page, is_held)));
            place.entity.gates_written();
        }
        Some(changed)
    }

    /// Looks whether the processes that rang have work.
    fn look(&mut self, rung: &[usize], now: Instant, pages: &[Page]) {
        for id in rung {
            let keys = self.places.iter().filter(|(_, place)| place.connection == *id);
            let keys: Vec<u32> = keys.map(|(key, _)| *key).collect();
            keys.into_iter().for_each(|key| self.look_at(key, now, pages));
            self.spin_until = now + SPIN;
        }
        if rung.is_empty() && now.since(self.looked) >= IDLE {
            self.looked = now;
            let keys: Vec<u32> = self.places.keys().copied().collect();
            keys.into_iter().for_each(|key| self.look_at(key, now, pages));
        }
    }

    fn look_at(&mut self, key: u32, now: Instant, pages: &[Page]) {
        let Some(place) = self.places.get_mut(&key) else { return };
        let Some(first) = place.pages.first().map(|page| &pages[*page]) else { return };
        let was_ready = place.entity.is_ready();
        // Gates of what has no work are written at once.
        let _ = place.entity.refresh(first.load > 0, first.used_ns, now);
        if place.entity.is_ready() != was_ready {
            self.report(key, now);
        }
    }

    /// Has the policy decide, and does what it orders.
    fn decide(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
        while let Some((queue, order)) = self.machine.poll_order(now) {
            let key = queue.index() as u32;
            if self.change(key, |unit| unit.obey(order, now)) == Some(true) {
                self.report(key, now);
            }
        }
    }

    /// Renews the leases of holds.
    fn renew(&mut self, now: Instant) {
        if self.is_stuck(now) {
            return;
        }
        if now.since(self.renewed).as_ns() < LEASE.as_ns() / 4 {
            return;
        }
        self.renewed = now;
        let closed = self.places.values().filter(|place| place.entity.is_held());
        let pages = closed.flat_map(|place| &place.pages);
        self.stores.extend(pages.map(|page| Store::Renew { page: *page }));
    }

    /// For how long nothing has to be done unless something happens.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let timer = self.machine.poll_timeout().map_or(IDLE, |due| due.since(now));
        let is_closed = self.places.values().any(|place| place.entity.is_held());
        let lease = if is_closed { LEASE.per(4) } else { IDLE };
        let running = self.running();
        let runs = self.places.values().filter(|place| place.entity.is_running());
        let left = runs.map(|place| place.entity.report_due_in().times(running[place.device]));
        let looks = self.places.values().map(|place| place.entity.next_refresh_in(false, now));
        let looks = looks.min().unwrap_or(IDLE);
        timer.min(lease).min(left.min().unwrap_or(IDLE)).min(looks).min(IDLE).max(SHORTEST)
    }
}

const fn store(page: usize, closed: bool) -> Store {
    if closed { Store::Close { page } } else { Store::Open { page } }
}
