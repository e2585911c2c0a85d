//! The thread that decides: the scheduler machine, and the gates of all processes.

mod account;
mod device;
mod figures;
mod gang;
#[cfg(any(test, feature = "fuzzing"))]
mod here;
mod op;
mod record;
mod spin;
mod status;
mod tenancy;
mod unit;
mod units;

use std::collections::{HashMap, VecDeque};
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
use xsched_core::policy::Policy;
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration as Span, Instant};
use xsched_hal_stream::SharedPage;
use xsched_node::LEASE;
use xsched_policies::Any;

use crate::liveness::Summary;
pub(crate) use account::{BOUNDS_NS, Histogram};
use device::{DEVICES_MAX, Devices};
use figures::Totals;
pub(crate) use figures::{Figures, Present, Total};
use gang::Gangs;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use here::Here;
pub(crate) use op::{Change, Known, Op, Waker, hints, new_eventfd};
use record::Recording;
pub(crate) use record::Tape;
use spin::Spin;
pub(crate) use status::Part;
pub(crate) use tenancy::By;
pub(crate) use unit::Client;
use unit::Unit;
use units::Units;

/// Processes on GPUs that there can be.
const UNITS_MAX: usize = 8_192;
/// Pages that a process may have for one GPU: gates for some 4,000 streams.
const PAGES_MAX: usize = 64;
/// Processes that do not wake the thread while they run are looked at this often.
const QUIET: Span = Span::from_ms(2);
/// Events that are taken at a time.
const EVENTS: usize = 64;
/// Processes without work whose gates are closed or opened before it is looked for other events.
const SETTLED: usize = 4;
/// Without anything to do the thread wakes this often.
const IDLE: Duration = Duration::from_secs(1);

/// What the thread has.
#[derive(Debug)]
pub(crate) struct Driver {
    start: Clock,
    machine: Recorded<Any, Heap, Tape>,
    recording: Option<Recording>,
    clients: HashMap<u64, Client>,
    units: Units,
    gangs: Gangs,
    devices: Devices,
    ops: Receiver<Op>,
    epoll: OwnedFd,
    waker: Waker,
    /// When device time was counted last.
    counted: Instant,
    renewed: Instant,
    /// When all processes were looked at.
    looked: Instant,
    spin: Spin,
    /// Processes may count as bound by their hosts.
    fills_pauses: bool,
    /// When those that do not wake the thread while they run were looked at.
    looked_at_quiet: Instant,
    /// Processes without work whose gates may not be as they should be.
    late: VecDeque<u32>,
    policy: &'static str,
    /// When the windows ended over which shares are taken.
    sampled: Instant,
    /// Metrics are wanted: it is looked how long holds take.
    is_measured: bool,
    /// How often the thread woke.
    wakeups: u64,
    /// What was counted of processes that have left.
    ended: Totals,
}

impl Driver {
    pub(crate) fn new(policy: Any, ops: Receiver<Op>) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = Waker(Arc::new(new_eventfd()?));
        epoll::add(
            &epoll,
            &waker.0,
            EventData::new_u64(u64::MAX),
            EventFlags::IN | EventFlags::ET,
        )?;
        let name = policy.name();
        Ok(Self {
            start: Clock::now(),
            machine: Recorded::new(Scheduler::new(policy, Heap::new(UNITS_MAX, DEVICES_MAX, 1))),
            recording: None,
            clients: HashMap::new(),
            units: Units::default(),
            gangs: Gangs::default(),
            devices: Devices::default(),
            ops,
            epoll,
            waker,
            counted: Instant::ZERO,
            renewed: Instant::ZERO,
            looked: Instant::ZERO,
            spin: Spin::default(),
            fills_pauses: true,
            looked_at_quiet: Instant::ZERO,
            late: VecDeque::new(),
            policy: name,
            sampled: Instant::ZERO,
            is_measured: false,
            wakeups: 0,
            ended: Totals::default(),
        })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Has the next priority run beside processes that are bound by their hosts, or not.
    pub(crate) const fn set_fills_pauses(&mut self, fills: bool) {
        self.fills_pauses = fills;
    }

    /// For how long the thread looks for events again at once after one, at most.
    pub(crate) fn set_spin(&mut self, spin: Span) {
        self.spin.set_most(spin);
    }

    /// Passes hints on to the policy.
    pub(crate) fn set_hints(&mut self, hints: Vec<PolicyHint>, now: Instant) {
        for hint in hints {
            self.machine.hint_policy(now, hint);
        }
        self.units.rank_anew();
    }

    fn now(&self) -> Instant {
        Instant::from_ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs until it is told to end. All gates are open then.
    pub(crate) fn run(mut self) {
        let (mut rung, mut keys) = (Vec::with_capacity(EVENTS), Vec::new());
        loop {
            let now = self.now();
            self.notice_a_gap(now);
            self.count(now, &mut keys);
            if !self.take_ops(now) {
                break;
            }
            self.look(&rung, now);
            self.decide(now);
            self.renew(now);
            self.sample(now);
            self.wait(&mut rung);
            self.wakeups += 1;
        }
        self.units.all().for_each(Unit::let_go);
    }

    /// If this thread was stopped past the lease, processes have opened their gates meanwhile.
    fn notice_a_gap(&mut self, now: Instant) {
        let (gap_ns, lease_ns) = (now.since(self.renewed).as_ns(), LEASE.as_nanos() as u64);
        if gap_ns <= lease_ns / 2 || !self.units.is_any_closed() {
            return;
        }
        for unit in self.units.all_mut().filter(|unit| unit.is_closed()) {
            unit.apply();
            if gap_ns > lease_ns {
                unit.account.lose_lease();
            }
        }
    }

    /// Takes the shares that processes got, once a second.
    fn sample(&mut self, now: Instant) {
        if now.since(self.sampled).as_ns() >= IDLE.as_nanos() as u64 {
            self.sampled = now;
            self.units.all_mut().for_each(|unit| unit.sample(now));
            self.end_lowered(now);
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
                // Each write is an event of its own, so nothing is read: the process has the same
                // file, could make it block, and be first to read it.
                let (data, flags) = (EventData::new_u64(id), EventFlags::IN | EventFlags::ET);
                if let Err(error) = epoll::add(&self.epoll, &client.doorbell, data, flags) {
                    tracing::warn!(%error, "a process cannot wake the daemon");
                }
                self.clients.insert(id, client);
            }
            Op::Page { client, device, side_by_side, page, answer } => {
                let _ = answer.send(self.add_page(client, (&device, side_by_side), page, now));
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
            Op::Hints { client, hints, answer } => {
                self.ask_for(client, hints, now);
                let _ = answer.send(());
            }
            Op::Status { asker, from, answer } => {
                if from.is_none() {
                    self.look_at_all(now);
                    self.sample(now);
                }
                let _ = answer.send(self.status(&asker, from, now));
            }
            Op::Figures { answer } => {
                self.look_at_all(now);
                self.sample(now);
                let _ = answer.send(Box::new(self.figures(now)));
            }
            Op::Measure(is_measured) => self.is_measured = is_measured,
            Op::Spin(spin) => self.set_spin(spin),
            Op::FillPauses(fills) => self.set_fills_pauses(fills),
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

    /// Adds a page to a process's unit of a GPU, which is made if there is none.
    fn add_page(
        &mut self,
        id: u64,
        (name, side_by_side): (&str, bool),
        page: SharedPage,
        now: Instant,
    ) -> Result<(), String> {
        let client = self.clients.get_mut(&id).ok_or("the process is not known")?;
        let numbered = self.devices.number(name, |device| self.units.is_any_on(device));
        let (device, was_other) = numbered.ok_or("processes have named too many GPUs")?;
        if was_other {
            self.ended.forget(device);
        }
        let is_on_it = |key: &&u32| self.units.get(**key).is_some_and(|u| u.device == device);
        if let Some(key) = client.units.iter().find(is_on_it).copied() {
            let pages_max = client.rights.pages_max();
            let added = self.units.change(key, |unit| {
                let has_room = unit.pages() < pages_max;
                has_room.then(|| unit.add(page))
            });
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
        let mut unit = Unit::new(device, queue, page, now);
        if side_by_side {
            unit.run_side_by_side();
        }
        let (key, by_hand, hints) = (unit.key(), client.by_hand, client.hints);
        client.units.push(key);
        let tenant = Arc::clone(&client.rights.party.tenant);
        self.gangs.note_unit(client.gang.is_some());
        self.units.add(unit);
        self.units.change(key, |unit| unit.note_hints(&hints));
        self.update_shared(key, now);
        if by_hand {
            self.hold_by_hand(key, true, now);
        }
        self.share_anew(&tenant, now);
        self.note_device(device, now);
        Ok(())
    }

    fn leave(&mut self, id: u64, now: Instant) {
        let Some(client) = self.clients.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, &client.doorbell);
        self.gangs.note_change();
        for key in client.units {
            self.forget_work(key, now);
            let Some(unit) = self.units.remove(key) else { continue };
            unit.let_go();
            self.ended.add(&client.rights.party.tenant.name, &unit, now);
            // It is known.
            let _ = self.machine.detach(now, unit.queue);
        }
        self.share_anew(&client.rights.party.tenant, now);
    }

    fn hold_by_hand(&mut self, key: u32, hold: bool, now: Instant) {
        self.units.change(key, |unit| unit.hold_by_hand(hold, now));
        self.note_late(key);
        self.gangs.note_change();
        self.update_shared(key, now);
        self.report(key, now);
    }

    /// Looks anew whether a process's launches have to be scheduled.
    fn update_shared(&mut self, key: u32, now: Instant) {
        for shared in self.units.update_shared(key) {
            self.look_at(shared, now);
        }
    }

    /// Tells the scheduler how a process is.
    fn report(&mut self, key: u32, now: Instant) {
        if let Some((queue, report)) = self.units.change(key, Unit::take_report) {
            // It is known.
            let _ = self.machine.handle_report(now, queue, &report);
        }
    }

    /// Counts device time: where several processes run, each has its part. A process that is held
    /// may still use some, at first or because it is asked to end what it has on the GPU.
    fn count(&mut self, now: Instant, keys: &mut Vec<u32>) {
        let passed = now.since(std::mem::replace(&mut self.counted, now));
        let (running, fills_pauses) = (self.units.running(), self.fills_pauses);
        self.units.loaded_keys(keys);
        for key in keys.iter().copied() {
            let counted = self.units.change(key, |unit| {
                let running = running[unit.device.index()];
                (unit.count(passed, running, fills_pauses, now), unit.device)
            });
            let Some((counted, device)) = counted else { continue };
            if counted.late > Span::ZERO {
                self.units.owe(device, counted.late);
            }
            if counted.is_due {
                self.report(key, now);
            }
            if counted.is_over {
                self.look_at(key, now);
            }
        }
    }

    /// Looks whether the processes that rang have work. After one has for which others may have to
    /// be held, the thread does not sleep for a while.
    fn look(&mut self, rung: &[u64], now: Instant) {
        self.look_at_quiet(now);
        for id in rung {
            let Some(client) = self.clients.get(id) else { continue };
            let keys = client.units.clone();
            let had_work = self.has_work(&keys);
            keys.iter().for_each(|key| self.look_at(*key, now));
            if self.has_quiet() && keys.iter().all(|key| self.can_wait(*key)) {
                continue;
            }
            self.spin.note(now);
            let has_work = self.has_work(&keys);
            if has_work != had_work && self.comes_first(&keys) {
                self.spin.note_first(now, has_work);
            }
        }
        if rung.is_empty() && now.since(self.looked).as_ns() >= IDLE.as_nanos() as u64 {
            self.look_at_all(now);
        }
    }

    /// Those that are alone on their GPU do not ring.
    fn look_at_all(&mut self, now: Instant) {
        self.looked = now;
        self.units.keys().into_iter().for_each(|key| self.look_at(key, now));
    }

    /// Whether processes that nothing hangs on need not wake the thread while they run.
    fn has_quiet(&self) -> bool {
        self.spares_for_pauses() && !self.units.watches_all()
    }

    /// Whether it is looked which processes are bound by their hosts.
    fn spares_for_pauses(&self) -> bool {
        self.fills_pauses && self.machine.policy().spares_the_highest()
    }

    fn has_work(&self, keys: &[u32]) -> bool {
        keys.iter().any(|key| self.units.get(*key).is_some_and(Unit::is_loaded))
    }

    /// Whether others are held for a process on one of its GPUs, and some others have work.
    fn comes_first(&self, keys: &[u32]) -> bool {
        keys.iter().any(|key| self.units.get(*key).is_some_and(Unit::comes_first))
            && self.units.loaded().any(|unit| !keys.contains(&unit.key()))
    }

    fn can_wait(&self, key: u32) -> bool {
        self.units.get(key).is_some_and(Unit::can_wait)
    }

    /// Looks at those that are quiet each 2 ms, and at those that are not to be any longer.
    fn look_at_quiet(&mut self, now: Instant) {
        let is_due = now.since(self.looked_at_quiet) >= QUIET;
        if is_due {
            self.looked_at_quiet = now;
        }
        let may = self.has_quiet();
        let is_looked_at = |unit: &&Unit| unit.is_wrongly_quiet(may) || (is_due && unit.is_quiet());
        let quiet = self.units.loaded().filter(is_looked_at).map(Unit::key);
        quiet.collect::<Vec<_>>().into_iter().for_each(|key| self.look_at(key, now));
    }

    fn look_at(&mut self, key: u32, now: Instant) {
        let may_be_quiet = self.has_quiet();
        let mut next = Some(key);
        while let Some(key) = next.take() {
            let looked = self.units.change(key, |unit| {
                let mut has_changed = unit.look(now);
                if unit.update_quiet(may_be_quiet) {
                    has_changed |= unit.look(now);
                }
                (has_changed, unit.device)
            });
            if let Some((true, device)) = looked {
                self.report(key, now);
                self.note_work(key, now);
                next = self.units.update_last(device);
            }
        }
    }

    /// Has the policy decide, and does what it orders.
    fn decide(&mut self, now: Instant) {
        self.form_gangs(now);
        self.units.rank(self.machine.policy().spares_the_highest());
        self.machine.handle_timeout(now);
        while let Some((queue, order)) = self.machine.poll_order(now) {
            self.obey(queue, order, now);
        }
        self.settle_gangs(now);
        self.units.tell_beside();
        self.settle_late();
    }

    /// Closes or opens the gates of some processes without work, after those of all that have some.
    /// True if there are more.
    fn settle_late(&mut self) -> bool {
        let count = self.late.len().min(SETTLED);
        for key in self.late.drain(..count).collect::<Vec<_>>() {
            self.units.change(key, Unit::settle);
        }
        !self.late.is_empty()
    }

    /// Has a process's gates be as they should be soon, if they are not.
    fn note_late(&mut self, key: u32) {
        if self.units.change(key, Unit::note_late) == Some(true) {
            self.late.push_back(key);
        }
    }

    fn obey(&mut self, queue: QueueId, order: Order, now: Instant) {
        let key = queue.index() as u32;
        if self.units.change(key, |unit| unit.obey(order, now)) == Some(true) {
            self.report(key, now);
        }
        self.note_late(key);
    }

    /// Renews the leases of holds.
    fn renew(&mut self, now: Instant) {
        if now.since(self.renewed).as_ns() < LEASE.as_nanos() as u64 / 4 {
            return;
        }
        self.renewed = now;
        self.look_after_record(now);
        if self.units.is_any_closed() {
            self.units.all_mut().filter(|unit| unit.is_closed()).for_each(Unit::renew);
        }
    }

    /// Waits until there is something to do, and says which processes rang.
    fn wait(&self, rung: &mut Vec<u64>) {
        rung.clear();
        let now = self.now();
        let left = if self.late.is_empty() { self.left(now) } else { Duration::ZERO };
        let due = now + Span::from_ns(left.as_nanos() as u64);
        let mut now = now;
        while !self.take_events(rung) && now < due.min(self.spin.until()) {
            // The one that is to ring may wait for this processor.
            std::thread::yield_now();
            now = self.now();
        }
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

    /// The time until those that are quiet are looked at.
    fn left_to_quiet(&self, now: Instant) -> Span {
        let may = self.has_quiet();
        let left = |unit: &Unit| match unit.is_wrongly_quiet(may) {
            true => Span::ZERO,
            false => QUIET - now.since(self.looked_at_quiet),
        };
        let quiet = self.units.loaded().filter(|unit| unit.is_quiet());
        quiet.map(left).min().unwrap_or(Span::MAX)
    }

    /// For how long nothing has to be done unless something happens.
    fn left(&self, now: Instant) -> Duration {
        let until = |due: Instant| Duration::from_nanos(due.since(now).as_ns());
        let timer = self.machine.poll_timeout().map_or(IDLE, until);
        let lease = if self.units.is_any_closed() { LEASE / 4 } else { IDLE };
        let progress = Duration::from_nanos(self.units.left_to_report().as_ns());
        let mut looks = self.units.left_to_look(now, self.is_measured);
        if self.spares_for_pauses() {
            looks = looks.min(self.units.left_to_see(now));
        }
        looks = looks.min(self.left_to_quiet(now));
        let gangs = Duration::from_nanos(self.gangs.left(now).as_ns());
        timer.min(gangs).min(lease).min(progress).min(Duration::from_nanos(looks.as_ns())).min(IDLE)
    }
}
