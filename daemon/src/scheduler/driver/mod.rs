//! The scheduler's thread.

mod direct;
mod figures;
mod gangs;
mod record;
mod status;
mod tenancy;
#[cfg(any(test, feature = "fuzzing"))]
mod test_driver;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant as Clock};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xsched_core::hint::PolicyHint;
use xsched_core::id::{ProcessId, QueueId};
use xsched_core::level::{Level, LevelChoice};
use xsched_core::message::Order;
use xsched_core::policy::{MayHold, Policy};
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration as Span, Instant};
use xsched_node::{LEASE, SharedPage};
use xsched_policies::Any;

use super::client::Client;
use super::device::{DEVICES_MAX, Devices};
use super::figures::Totals;
use super::gang::Gangs;
use super::gpu_client::GpuClient;
use super::gpu_clients::{GpuClients, Visiting};
use super::op::{Gpu, Op, Tuning};
use super::record::{Recording, Tape};
use super::shares::Shares;
use super::spin::Spin;
use crate::liveness::{Pulse, Summary};
use crate::waker::{Waker, new_eventfd};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use test_driver::{TestDriver, told};

/// Processes on GPUs that there can be.
const GPU_CLIENTS_MAX: usize = 8_192;
/// Events that are taken at a time.
const EVENTS: usize = 64;
/// Processes without work whose gates are written before other events are looked for.
const DEFERRED_GATES_PER_PASS: usize = 4;
/// Orders that are obeyed before other events are looked for. GPUs take turns: each has one.
const ORDERS_PER_PASS: usize = DEVICES_MAX;
/// Requests that are taken before other events are looked for: a decision waits for no more than
/// one for each event.
const OPS_PER_PASS: usize = EVENTS;
/// Without anything to do the thread wakes this often.
const IDLE: Duration = Duration::from_secs(1);

/// State of the scheduler's thread.
#[derive(Debug)]
pub(crate) struct Driver {
    clock: Cell<Clock>,
    /// Time up to the last look at the clock.
    passed: Cell<Span>,
    machine: Recorded<Any, Heap, Tape>,
    recording: Option<Recording>,
    clients: BTreeMap<u64, Client>,
    /// Connections by the numbers of their processes.
    pids: BTreeSet<(i32, u64)>,
    /// Connections whose processes have a lower class.
    lowered: BTreeSet<u64>,
    shares: Shares,
    gpu_clients: GpuClients,
    gangs: Gangs,
    devices: Devices,
    ops: Receiver<Op>,
    epoll: OwnedFd,
    waker: Waker,
    /// Sign of life of the thread of the connections.
    pulse: Pulse,
    renewed: Instant,
    /// More requests may have come.
    has_ops: bool,
    /// There may be more orders.
    has_orders: bool,
    /// When all processes were looked at.
    looked: Instant,
    spin: Spin,
    tuning: Tuning,
    /// Processes without work whose gates may have to be written.
    deferred_gates: VecDeque<u32>,
    policy: &'static str,
    /// When the windows ended over which shares are taken.
    sampled: Instant,
    /// Metrics are wanted: it is looked how long holds take.
    is_measured: bool,
    /// How often the thread woke.
    wakeups: u64,
    /// Totals of processes that have left.
    ended: Totals,
}

impl Driver {
    pub(crate) fn new(policy: Any, tuning: Tuning, ops: Receiver<Op>) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = Waker(Arc::new(new_eventfd()?));
        epoll::add(
            &epoll,
            &waker.0,
            EventData::new_u64(u64::MAX),
            EventFlags::IN | EventFlags::ET,
        )?;
        let name = policy.name();
        let mut driver = Self {
            clock: Cell::new(Clock::now()),
            passed: Cell::default(),
            machine: Recorded::new(Scheduler::new(
                policy,
                Heap::new(GPU_CLIENTS_MAX, DEVICES_MAX, 1),
            )),
            recording: None,
            clients: BTreeMap::new(),
            pids: BTreeSet::new(),
            lowered: BTreeSet::new(),
            shares: Shares::default(),
            gpu_clients: GpuClients::default(),
            gangs: Gangs::new(tuning.gang_claim),
            devices: Devices::default(),
            ops,
            epoll,
            waker,
            pulse: Pulse::default(),
            renewed: Instant::ZERO,
            has_ops: false,
            has_orders: false,
            looked: Instant::ZERO,
            spin: Spin::new(tuning.spin, tuning.spin_percent),
            tuning,
            deferred_gates: VecDeque::new(),
            policy: name,
            sampled: Instant::ZERO,
            is_measured: false,
            wakeups: 0,
            ended: Totals::default(),
        };
        driver.tune(tuning);
        Ok(driver)
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    pub(crate) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Has these settings from now on.
    fn tune(&mut self, tuning: Tuning) {
        if std::mem::replace(&mut self.tuning, tuning).first_hold != tuning.first_hold {
            self.gpu_clients.note_change_of_each();
        }
        self.spin = Spin::new(tuning.spin, tuning.spin_percent);
        self.gangs.claim_for = tuning.gang_claim;
        self.gpu_clients.set_trial(tuning.fill_pauses);
    }

    /// Passes hints on to the policy.
    pub(crate) fn set_hints(&mut self, hints: Vec<PolicyHint>, now: Instant) {
        for hint in hints {
            self.machine.hint_policy(now, hint);
        }
    }

    /// Time since the start. Goes on from there where the system's clock goes back.
    fn now(&self) -> Instant {
        let clock = Clock::now();
        let passed = clock.saturating_duration_since(self.clock.replace(clock));
        self.passed.set(self.passed.get() + passed.into());
        Instant::ZERO + self.passed.get()
    }

    /// Runs until it is told to end. All gates are open then.
    pub(crate) fn run(mut self) {
        let mut rung = Vec::with_capacity(EVENTS);
        loop {
            let now = self.now();
            self.notice_a_gap(now);
            if !self.take_ops(now) {
                break;
            }
            self.refresh_rung(&rung, now);
            self.visit_due(now);
            self.decide(now);
            self.end_direct_holds(&rung);
            self.renew(now);
            self.sample(now);
            self.wait(&mut rung);
            self.wakeups += 1;
        }
        self.gpu_clients.all().for_each(GpuClient::let_go);
    }

    /// If this thread was stopped past the lease, processes have opened their gates meanwhile.
    fn notice_a_gap(&mut self, now: Instant) {
        let (gap_ns, lease_ns) = (now.since(self.renewed).as_ns(), LEASE.as_nanos() as u64);
        let is_stuck = || self.pulse.is_stuck();
        if gap_ns <= lease_ns / 2 || !self.gpu_clients.is_any_held() || is_stuck() {
            return;
        }
        for gpu_client in self.gpu_clients.all_mut().filter(|gpu_client| gpu_client.is_held()) {
            gpu_client.write_gates();
            if gap_ns > lease_ns {
                gpu_client.account.lose_lease();
            }
        }
    }

    /// Takes the shares that processes got, once a second.
    fn sample(&mut self, now: Instant) {
        if now.since(self.sampled).as_ns() >= IDLE.as_nanos() as u64 {
            self.sampled = now;
            self.gpu_clients.begin_sample();
            self.end_lowered(now);
        }
        self.gpu_clients.sample_some(now);
    }

    /// False if it is to end.
    fn take_ops(&mut self, now: Instant) -> bool {
        for _ in 0..OPS_PER_PASS {
            match self.ops.try_recv() {
                Ok(Op::End) | Err(TryRecvError::Disconnected) => return false,
                Ok(op) => self.take(op, now),
                Err(TryRecvError::Empty) => {
                    self.has_ops = false;
                    return true;
                }
            }
        }
        self.has_ops = true;
        true
    }

    fn take(&mut self, op: Op, now: Instant) {
        match op {
            Op::Join(id, client) => {
                // Each write is an event of its own, so nothing is read: the process has the same
                // file, could make it block, and be first to read it.
                let (data, flags) = (EventData::new_u64(id), EventFlags::IN | EventFlags::ET);
                if let Err(error) = epoll::add(&self.epoll, &client.doorbell, data, flags) {
                    tracing::warn!(%error, "a process cannot wake the daemon");
                }
                self.pids.insert((client.pid, id));
                self.gangs.join(client.gang_name(), id);
                self.clients.insert(id, client);
            }
            Op::Page { client, gpu, page, answer } => {
                let _ = answer.send(self.add_page(client, &gpu, page, now));
            }
            Op::PageBelow { client, device, at, answer } => {
                let _ = answer.send(self.page_below(client, &device, at));
            }
            Op::Leave(id) => self.leave(id, now),
            Op::Policy(policy, hints) => {
                self.policy = policy.name();
                let _ = self.machine.set_policy(now, *policy);
                self.set_hints(hints, now);
            }
            Op::Set { pid, asker, change, answer } => {
                let _ = answer.send(self.set(pid, &asker, change, now));
            }
            Op::Configure(tenants) => self.configure(tenants, now),
            Op::Forget(tenant) => self.ended.forget_tenant(&tenant),
            Op::Hints { client, hints, answer } => {
                let _ = answer.send(self.ask_for(client, hints, now));
            }
            Op::Status { asker, from, answer } => {
                if from.is_none() {
                    self.refresh_silent(now);
                    self.sample(now);
                }
                let _ = answer.send(self.status(&asker, from, now));
            }
            Op::Figures { answer } => {
                self.refresh_silent(now);
                self.sample(now);
                let _ = answer.send(Box::new(self.figures(now)));
            }
            Op::Measure(is_measured) => self.is_measured = is_measured,
            Op::Tune(tuning) => self.tune(tuning),
            Op::Known { answer } => {
                let _ = answer.send(self.known());
            }
            Op::Understated(pids) => self.note_understated(&pids, now),
            Op::Record { client, tape, answer } => {
                let _ = answer.send(self.record(client, tape, now));
            }
            Op::EndRecord(client) => self.end_record(client, now),
            Op::Check { answer } => {
                let processes = self.clients.len();
                let _ = answer.send(Summary { processes, policy: self.policy });
            }
            Op::End => {}
        }
    }

    /// Adds a page to a process's gpu_client of a GPU, which is made if there is none.
    fn add_page(
        &mut self,
        id: u64,
        gpu: &Gpu,
        page: SharedPage,
        now: Instant,
    ) -> Result<(), String> {
        let client = self.clients.get_mut(&id).ok_or("the process is not known")?;
        let numbered = self.devices.number(&gpu.name, |device| self.gpu_clients.is_any_on(device));
        let (device, was_other) = numbered.ok_or("processes have named too many GPUs")?;
        if was_other {
            self.ended.forget(device);
        }
        let is_on_it = |key: &&u32| self.gpu_clients.get(**key).is_some_and(|u| u.device == device);
        if let Some(key) = client.gpu_clients.iter().find(is_on_it).copied() {
            let pages_max = client.rights.pages_max();
            let added = self.gpu_clients.change(key, now, |gpu_client| {
                let has_room = gpu_client.pages() < pages_max;
                has_room.then(|| gpu_client.add(page))
            });
            self.gpu_clients.note_change(device);
            let full = || format!("a process has at most {pages_max} pages for a GPU");
            return added.flatten().ok_or_else(full);
        }
        let attach = Attach {
            device,
            process: ProcessId(id as u32),
            hints: client.hints,
            level: LevelChoice::Exactly(Level::Deactivate),
            ..Attach::default()
        };
        let queue = self.machine.attach(now, attach).map_err(|error| error.to_string())?;
        let mut gpu_client = GpuClient::new(device, queue, page, now);
        gpu_client.set_trial(self.tuning.fill_pauses.unwrap_or_default());
        gpu_client.says_concurrent = gpu.is_concurrent;
        gpu_client.connection = id;
        gpu_client.set_priority(client.hints.priority);
        let (key, is_suspended) = (gpu_client.key(), client.is_suspended);
        client.gpu_clients.push(key);
        self.gpu_clients.add(gpu_client, now);
        self.update_scheduling(key, now);
        if is_suspended {
            self.suspend(key, true, now);
        }
        self.update_hints(id, now);
        self.note_device(device, now);
        self.note_program(key, now);
        Ok(())
    }

    fn leave(&mut self, id: u64, now: Instant) {
        let Some(client) = self.clients.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, &client.doorbell);
        self.pids.remove(&(client.pid, id));
        self.lowered.remove(&id);
        self.gangs.leave(client.gang_name().as_ref(), id);
        for key in client.gpu_clients {
            self.forget_work(key, now);
            self.shares.remove(key);
            self.end_direct_holds_of(key);
            let Some(gpu_client) = self.gpu_clients.remove(key, now) else { continue };
            gpu_client.let_go();
            self.ended.end(&client.rights.party.tenant.name, &gpu_client, now);
            // It is known.
            let _ = self.machine.detach(now, gpu_client.queue);
        }
    }

    fn suspend(&mut self, key: u32, hold: bool, now: Instant) {
        self.gpu_clients.change(key, now, |gpu_client| gpu_client.suspend(hold, now));
        self.defer_gate_update(key, now);
        self.update_scheduling(key, now);
        self.report(key, now);
    }

    /// Looks anew whether a process's launches have to be scheduled.
    fn update_scheduling(&mut self, key: u32, now: Instant) {
        for shared in self.gpu_clients.update_scheduling(key, now) {
            self.refresh(shared, now);
        }
    }

    /// Tells the scheduler how a process is.
    fn report(&mut self, key: u32, now: Instant) {
        if let Some((queue, report)) = self.gpu_clients.change(key, now, GpuClient::take_report) {
            // It is known.
            let _ = self.machine.handle_report(now, queue, &report);
        }
    }

    /// Visits processes that are due, and tells the scheduler of those of which it wants reports.
    /// Where several processes run, each has its part of the device time. A process that is held
    /// may still use some, at first or because it is asked to end what it has on the GPU.
    fn visit_due(&mut self, now: Instant) {
        self.gpu_clients.set_visiting(self.visiting(), now);
        for key in self.gpu_clients.take_due(self.fills_pauses(), now) {
            if self.gpu_clients.visit(key, now) {
                self.refresh(key, now);
            }
        }
        while let Some(key) = self.gpu_clients.take_report_due() {
            if self.gpu_clients.get(key).is_some_and(|client| client.is_report_due) {
                self.report(key, now);
            }
        }
    }

    /// Refreshes the processes that rang. After one has for which others may have to be held, the
    /// thread polls for a while.
    fn refresh_rung(&mut self, rung: &[u64], now: Instant) {
        for id in rung {
            let Some(client) = self.clients.get(id) else { continue };
            let keys = client.gpu_clients.clone();
            keys.iter().for_each(|key| self.refresh(*key, now));
            if !self.may_poll() || keys.iter().any(|key| self.needs_events(*key)) {
                self.spin.note(now);
            }
        }
        if rung.is_empty() && now.since(self.looked).as_ns() >= IDLE.as_nanos() as u64 {
            self.looked = now;
            self.gpu_clients.begin_look();
        }
        self.gpu_clients.take_looks().into_iter().for_each(|key| self.refresh(key, now));
    }

    /// Refreshes those that do not ring: each is alone on its GPU, or alone has work there.
    fn refresh_silent(&mut self, now: Instant) {
        self.gpu_clients.silent().into_iter().for_each(|key| self.refresh(key, now));
    }

    fn visiting(&self) -> Visiting {
        Visiting { may_poll: self.may_poll(), is_measured: self.is_measured }
    }

    /// Returns whether processes that nothing hangs on need not wake the thread while they run.
    fn may_poll(&self) -> bool {
        self.fills_pauses() && !self.gpu_clients.watches_all()
    }

    /// Returns whether processes are checked for being bound by their hosts.
    fn fills_pauses(&self) -> bool {
        self.tuning.fill_pauses.is_some() && self.spares_the_highest()
    }

    /// Returns whether the policy never holds the only process of the highest priority on a GPU.
    fn spares_the_highest(&self) -> bool {
        matches!(self.machine.policy().needs().may_hold, MayHold::Lower | MayHold::Peers)
    }

    fn needs_events(&self, key: u32) -> bool {
        self.gpu_clients.get(key).is_none_or(GpuClient::needs_events)
    }

    fn refresh(&mut self, key: u32, now: Instant) {
        let may_poll = self.may_poll();
        let mut next = Some(key);
        while let Some(key) = next.take() {
            let refreshed = self.gpu_clients.change(key, now, |client| {
                let mut has_changed = client.refresh(now);
                if client.update_wake_mode(may_poll) {
                    has_changed |= client.refresh(now);
                }
                (has_changed, client.device)
            });
            if let Some((true, device)) = refreshed {
                self.report(key, now);
                self.note_work(key, now);
                next = self.gpu_clients.update_sole(device, now);
            }
        }
    }

    /// Has the policy decide, and does what it orders.
    fn decide(&mut self, now: Instant) {
        self.form_gangs(now);
        self.update_ranks(now);
        self.share_out(now);
        self.machine.handle_timeout(now);
        self.has_orders = true;
        for _ in 0..ORDERS_PER_PASS {
            let Some((queue, order)) = self.machine.poll_order(now) else {
                self.has_orders = false;
                break;
            };
            self.obey(queue, order, now);
        }
        self.settle_gangs(now);
        self.gpu_clients.tell_concurrency();
        self.flush_deferred_gates(now);
    }

    /// Tells processes of their ranks where these have changed.
    fn update_ranks(&mut self, now: Instant) {
        self.gpu_clients.update_ranks(self.spares_the_highest(), now);
    }

    /// Writes the gates of some processes without work, after those of all that have some. True if
    /// there are more.
    fn flush_deferred_gates(&mut self, now: Instant) -> bool {
        let count = self.deferred_gates.len().min(DEFERRED_GATES_PER_PASS);
        for key in self.deferred_gates.drain(..count).collect::<Vec<_>>() {
            self.gpu_clients.change(key, now, GpuClient::flush_deferred_gates);
        }
        !self.deferred_gates.is_empty()
    }

    /// Lists a process if its gates still have to be written.
    fn defer_gate_update(&mut self, key: u32, now: Instant) {
        if self.gpu_clients.change(key, now, GpuClient::defer_gate_update) == Some(true) {
            self.deferred_gates.push_back(key);
        }
    }

    fn obey(&mut self, queue: QueueId, order: Order, now: Instant) {
        let key = queue.index() as u32;
        if self.gpu_clients.change(key, now, |gpu_client| gpu_client.obey(order, now)) == Some(true)
        {
            self.report(key, now);
        }
        self.defer_gate_update(key, now);
    }

    /// Renews the leases of holds.
    fn renew(&mut self, now: Instant) {
        if self.pulse.is_stuck() {
            return;
        }
        if now.since(self.renewed).as_ns() >= LEASE.as_nanos() as u64 / 4 {
            self.renewed = now;
            self.look_after_record(now);
            self.gpu_clients.begin_renewal();
        }
        self.gpu_clients.renew_some();
    }

    /// Waits until there is something to do, and says which processes rang.
    fn wait(&mut self, rung: &mut Vec<u64>) {
        rung.clear();
        let begun = self.now();
        let left = if self.deferred_gates.is_empty() { self.left(begun) } else { Duration::ZERO };
        let due = begun + Span::from_ns(left.as_nanos() as u64);
        let mut now = begun;
        while !self.take_events(rung) && now < due.min(self.spin.until()) {
            // The one that is to ring may wait for this processor.
            std::thread::yield_now();
            now = self.now();
        }
        self.spin.spend(now.since(begun));
        let left_ns = due.since(now).as_ns();
        if !rung.is_empty() || left_ns == 0 {
            return;
        }
        let left = Duration::from_nanos(left_ns);
        let time =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        // Unlike that of epoll, it takes nanoseconds on every kernel.
        let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
        if poll(&mut ready, Some(&time)).is_ok_and(|ready| ready > 0) {
            self.take_events(rung);
        }
    }

    /// Adds the processes that rang. True if there are any, or other events.
    fn take_events(&self, rung: &mut Vec<u64>) -> bool {
        let mut events: [MaybeUninit<epoll::Event>; EVENTS] = [MaybeUninit::uninit(); EVENTS];
        let taken = epoll::wait(&self.epoll, &mut events[..], Some(&Timespec::default()));
        let Ok((events, _)) = taken else { return false };
        rung.extend(events.iter().map(|event| event.data.u64()));
        !events.is_empty()
    }

    /// Time for which nothing has to be done unless something happens.
    fn left(&self, now: Instant) -> Duration {
        if self.has_ops || self.has_orders || self.shares.is_any_stale() {
            return Duration::ZERO;
        }
        let timer = self.machine.poll_timeout().map_or(Span::MAX, |due| due.since(now));
        let lease = if self.gpu_clients.is_any_held() { LEASE / 4 } else { IDLE };
        let span = [
            timer,
            self.gpu_clients.next_due_in(self.fills_pauses(), now),
            self.gpu_clients.next_sweep_in(),
            self.gangs.next_decision_in(now),
        ];
        span.into_iter().fold(lease.min(IDLE), |left, span| left.min(span.into()))
    }
}
