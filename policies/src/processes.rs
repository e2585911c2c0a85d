//! Sharing device time between processes: fair turns as in [`share`](crate::share), with all queues
//! of a process on a device taking part in its turn.
//!
//! The largest utilisation hint of a process's queues on a device is its percentage there. Without
//! the strict option, percentages are proportions. With it they are also upper bounds: each process
//! has a budget that grows by its percentage of the time and shrinks by the device time that it
//! uses, as measured. Below zero it waits, even if no other process wants the device. A budget
//! grows up to that of one timeslice, or, while the process has something to run, up to the most
//! that any process of the device was charged at once: a command that is longer than the timeslice
//! is charged when it has ended, other processes wait for it, and what their budgets grow by
//! meanwhile must not be lost. A process whose queues have no hint has no upper bound.
//!
//! There is room for [`PLACES`] processes, counted once for each device. Further ones share places,
//! evenly: a place has the percentages of its processes together. On a device without any place a
//! process is not scheduled.

use xsched_core::hint::{HintKind, HintKinds, PolicyHint, Priority};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{
    Changed, Decisions, Event, Needs, PolicyState, QueueInfo, QueueTable, Verdict, policy_state,
};
use xsched_core::time::{Duration, Instant};

use crate::engine::{HOLD, each_changed};
use crate::process::{FREE, Link, Process, WHOLE, budget_of};
use crate::share::{SOON, Timeslice, device_time};
use crate::up::permille;

/// How many processes are told apart.
pub(crate) const PLACES: usize = 64;

fn link(place: usize) -> Link {
    place as u32 + 1
}

fn place_of(link: Link) -> Option<usize> {
    (link as usize).checked_sub(1)
}

policy_state! {
    /// State of a device.
    struct Device {
        /// The process that has the turn.
        turn: Link,
        /// True if the processes are those of this table.
        known: bool,
        /// Until when its device time is accounted for.
        accounted: Instant,
        /// Until when the device waits for the process that has the turn; zero if that is not idle.
        grace: Instant,
        /// The usage that new processes start at.
        start: u64,
        /// Since when budgets have not grown.
        grown: Instant,
        /// When the turn began.
        begun: Instant,
    }
}

policy_state! {
    /// State of a queue.
    struct Member {
        /// Process of the queue.
        process: Link,
        /// Neighbours among the queues of the process.
        next: Link,
        previous: Link,
        /// True if the queue counts as ready.
        ready: bool,
    }
}

/// The permille of a queue without a hint.
const UNHINTED: u32 = 10;

/// The turns and the budgets of the processes on all devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processes {
    timeslice: Timeslice,
    strict: bool,
    /// Some places are shared.
    crowded: bool,
    places: [Process; PLACES],
}

fn member(queues: &QueueTable<'_>, queue: QueueId) -> Member {
    queues.state(queue).map_or_else(Member::zeroed, |state| state.get())
}

fn set(queues: &QueueTable<'_>, queue: QueueId, change: impl FnOnce(&mut Member)) {
    if let Some(state) = queues.state(queue) {
        state.update(change);
    }
}

fn of_device(queues: &QueueTable<'_>, device: DeviceId) -> Device {
    queues.device_state(device).map_or_else(Device::zeroed, |state| state.get())
}

fn set_device(queues: &QueueTable<'_>, device: DeviceId, change: impl FnOnce(&mut Device)) {
    if let Some(state) = queues.device_state(device) {
        state.update(change);
    }
}

impl Processes {
    pub(crate) const fn new(strict: bool) -> Self {
        Self { timeslice: Timeslice::DEFAULT, strict, crowded: false, places: [FREE; PLACES] }
    }

    pub(crate) fn needs(&self) -> Needs {
        let hints = HintKinds::of(&[HintKind::Share]);
        Needs { progress_every: Some(self.timeslice.step()), hints, ..Needs::default() }
    }

    pub(crate) fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(timeslice) = hint else { return false };
        self.timeslice = Timeslice(timeslice);
        true
    }

    pub(crate) fn observe(
        &mut self,
        now: Instant,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
    ) {
        let Some(info) = queues.get(queue) else { return };
        let Some(place) = place_of(member(queues, queue).process) else { return };
        match event {
            Event::Progress { busy } => {
                let Some(process) = self.places.get_mut(place) else { return };
                process.used = process.used.saturating_add(process.share(busy));
                process.budget = process.budget.saturating_sub(budget_of(busy));
                process.longest = process.longest.max(busy);
                (process.unreported, process.taken) = (Duration::ZERO, Duration::ZERO);
                if of_device(queues, info.device).turn == link(place) {
                    set_device(queues, info.device, |device| device.accounted = now);
                }
            }
            Event::Detached => self.leave(info, place, queues),
            Event::Hinted => self.weigh(place, queues),
            _ => {}
        }
    }

    pub(crate) fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        if matches!(changed, Changed::All) && self.meet(queues) {
            queues.iter().for_each(|info| self.follow(info, queues, out));
        } else {
            each_changed(changed, queues, |info| self.follow(info, queues, out));
        }
        for device in queues.devices() {
            self.turn(now, device, queues, out);
        }
    }

    /// A policy that was in charge before, of this table or another, starts afresh. Whether it
    /// does: then idle queues have to be given their places as well.
    fn meet(&mut self, queues: &QueueTable<'_>) -> bool {
        let mut afresh = false;
        for device in queues.devices() {
            afresh |= !of_device(queues, device).known;
            set_device(queues, device, |device| device.known = true);
        }
        if afresh {
            (self.places, self.crowded) = ([FREE; PLACES], false);
        }
        afresh
    }

    /// The queues of a place.
    fn members<'t>(
        &self,
        place: usize,
        queues: &QueueTable<'t>,
    ) -> impl Iterator<Item = QueueId> + use<'t> {
        let queues = *queues;
        let known = move |link: Link| queues.at(place_of(link)?).map(|info| info.id);
        let head = self.places.get(place).map_or(0, |process| process.head);
        core::iter::successors(known(head), move |&id| known(member(&queues, id).next))
    }

    /// The place of a queue's process, which may be a new one.
    fn place(&mut self, info: &QueueInfo, queues: &QueueTable<'_>) -> Option<usize> {
        let known = place_of(member(queues, info.id).process);
        if known.is_some() {
            return known;
        }
        let same = |p: &Process| p.queues > 0 && p.id == info.process && p.device == info.device;
        let free = |p: &Process| p.queues == 0;
        let there = |p: &Process| p.queues > 0 && p.device == info.device;
        let find = |what: &dyn Fn(&Process) -> bool| self.places.iter().position(what);
        let least = || {
            let all = self.places.iter().enumerate().filter(|(_, process)| there(process));
            all.min_by_key(|(_, process)| process.permille).map(|(place, _)| place)
        };
        let own = || if self.crowded { self.shared_by(info, queues) } else { None };
        let place = find(&same).or_else(own).or_else(|| find(&free)).or_else(least)?;
        self.join(info, place, queues);
        Some(place)
    }

    /// The place that other queues of a queue's process have.
    fn shared_by(&self, info: &QueueInfo, queues: &QueueTable<'_>) -> Option<usize> {
        let others = queues.of_process(info.process).filter(|other| other.device == info.device);
        others.filter_map(|other| place_of(member(queues, other.id).process)).next()
    }

    fn join(&mut self, info: &QueueInfo, place: usize, queues: &QueueTable<'_>) {
        let process = &mut self.places[place];
        if process.queues == 0 {
            let used = of_device(queues, info.device).start;
            let permille = UNHINTED;
            *process = Process { id: info.process, device: info.device, permille, used, ..FREE };
        }
        if info.hints.utilization.is_some() {
            let before = if process.hinted { process.permille } else { 0 };
            (process.permille, process.hinted) = (permille(info).max(before), true);
        }
        process.queues += 1;
        process.shared |= process.id != info.process;
        self.crowded |= process.shared;
        // Queues of a process stay together.
        let same = |id: &QueueId| queues.get(*id).is_some_and(|i| i.process == info.process);
        let shared = process.shared;
        let previous = if shared { self.members(place, queues).find(same) } else { None };
        let next = previous.map_or(self.places[place].head, |id| member(queues, id).next);
        let own = link(info.id.index());
        match previous {
            Some(previous) => set(queues, previous, |member| member.next = own),
            None => self.places[place].head = own,
        }
        set(queues, info.id, |member| {
            let previous = previous.map_or(0, |id| link(id.index()));
            (member.process, member.next, member.previous) = (link(place), next, previous);
        });
        if let Some(second) = place_of(next).and_then(|index| queues.at(index)) {
            set(queues, second.id, |member| member.previous = own);
        }
        if shared {
            self.weigh(place, queues);
        }
    }

    fn leave(&mut self, info: &QueueInfo, place: usize, queues: &QueueTable<'_>) {
        let own = member(queues, info.id);
        let neighbour = |link: Link| queues.at(place_of(link)?).map(|info| info.id);
        match neighbour(own.previous) {
            Some(previous) => set(queues, previous, |member| member.next = own.next),
            None => self.places[place].head = own.next,
        }
        if let Some(next) = neighbour(own.next) {
            set(queues, next, |member| member.previous = own.previous);
        }
        queues.clear_state(info.id);
        let process = &mut self.places[place];
        process.queues = process.queues.saturating_sub(1);
        process.ready = process.ready.saturating_sub(u32::from(own.ready));
        if process.queues == 0 && of_device(queues, info.device).turn == link(place) {
            set_device(queues, info.device, |device| device.turn = 0);
        }
        self.weigh(place, queues);
    }

    /// The percentage of a process changes with its queues and their hints. Processes that share a
    /// place have the sum of theirs.
    fn weigh(&mut self, place: usize, queues: &QueueTable<'_>) {
        let (mut sum, mut hinted, mut latest) = (0, false, None);
        let mut most = None;
        for info in self.members(place, queues).filter_map(|id| queues.get(id)) {
            if latest.replace(info.process).is_some_and(|before| before != info.process) {
                sum += most.take().unwrap_or(UNHINTED);
            }
            if info.hints.utilization.is_some() {
                (most, hinted) = (most.max(Some(permille(info))), true);
            }
        }
        let process = &mut self.places[place];
        (process.permille, process.hinted) = (sum + most.unwrap_or(UNHINTED), hinted);
    }

    fn follow(&mut self, info: &QueueInfo, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let place = self.place(info, queues);
        let runs = info.hints.priority != Priority::NO_EXECUTE;
        let ready = info.ready && runs;
        let held = place.is_some_and(|place| self.places[place].held);
        out.set(info.id, if runs && !held { Verdict::Run } else { HOLD });
        let Some(place) = place else { return };
        if member(queues, info.id).ready == ready {
            return;
        }
        set(queues, info.id, |member| member.ready = ready);
        if !ready {
            self.places[place].ready -= 1;
        } else {
            self.places[place].ready += 1;
            if self.places[place].ready == 1 {
                self.wake(place, queues, out);
            }
        }
    }

    /// A process has something to run again.
    fn wake(&mut self, place: usize, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let device = self.places[place].device;
        if of_device(queues, device).turn == link(place) {
            return;
        }
        self.catch_up(device, Some(place), queues);
        let start = of_device(queues, device).start;
        let earliest = start.saturating_sub(2 * self.lead(device));
        self.places[place].used = self.places[place].used.max(earliest);
        if !self.places[place].held {
            self.hold(place, true, queues, out);
        }
    }

    /// Moves on the usage that other processes start at: the least of those that could run, other
    /// than `but`. A process without competition has one long turn, in which that usage goes on
    /// with its own.
    fn catch_up(&self, device: DeviceId, but: Option<usize>, queues: &QueueTable<'_>) {
        let turn = place_of(of_device(queues, device).turn);
        let takes_part = |(place, process): &(usize, &Process)| {
            let works = process.ready > 0 || Some(*place) == turn;
            process.device == device && process.queues > 0 && works && Some(*place) != but
        };
        let all = self.places.iter().enumerate().filter(takes_part);
        if let Some(least) = all.map(|(_, process)| process.used).min() {
            set_device(queues, device, |device| device.start = device.start.max(least));
        }
    }

    /// Holds all queues of a process, or lets them run.
    fn hold(&mut self, place: usize, held: bool, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        self.places[place].held = held;
        for queue in self.members(place, queues) {
            let runs = queues.get(queue).is_some_and(|i| i.hints.priority != Priority::NO_EXECUTE);
            out.set(queue, if runs && !held { Verdict::Run } else { HOLD });
        }
    }

    /// Ends the turn of a device if it is time, and begins the next one.
    fn turn(
        &mut self,
        now: Instant,
        device: DeviceId,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        self.grow(now, device, queues);
        let turn = place_of(of_device(queues, device).turn);
        if let Some(place) = turn {
            if self.goes_on(now, place, queues, out) {
                return;
            }
            self.catch_up(device, None, queues);
            self.hold(place, true, queues, out);
            // Until it reports: otherwise it would be the next again in a decision before that.
            let accounted = of_device(queues, device).accounted;
            self.places[place].unreported = now.since(accounted);
            self.places[place].taken += now.since(accounted);
            self.places[place].expected = now + self.report_within();
            set_device(queues, device, |device| (device.turn, device.grace) = (0, Instant::ZERO));
        }
        let next =
            self.behind_most(now, device, turn).or_else(|| self.behind_most(now, device, None));
        let Some(place) = next else { return self.no_turn(now, device, queues, out) };
        self.hold(place, false, queues, out);
        self.places[place].unreported = Duration::ZERO;
        let used = self.places[place].used;
        set_device(queues, device, |device| {
            (device.turn, device.accounted, device.begun) = (link(place), now, now);
            device.start = device.start.max(used);
        });
        self.goes_on(now, place, queues, out);
    }

    /// No process may have the turn: held ones are released if none is ready, or wait for their
    /// budgets.
    fn no_turn(
        &mut self,
        now: Instant,
        device: DeviceId,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let waits = |p: &&Process| p.queues > 0 && p.device == device && p.ready > 0;
        let afford = self.places.iter().filter(waits).map(|process| {
            let missing = |budget| self.least_budget().saturating_sub(budget).max(0).unsigned_abs();
            let grown = |budget| missing(budget) / u64::from(process.permille).max(1) + 1;
            now + Duration::from_ns(grown(process.budget(Duration::ZERO)))
        });
        if let Some(afford) = afford.min() {
            return out.wake_at(afford);
        }
        for place in 0..PLACES {
            let process = &self.places[place];
            if process.queues > 0 && process.device == device && process.held {
                self.hold(place, false, queues, out);
            }
        }
    }

    /// Returns whether the process that has the turn keeps it. If it does, the end is in the timer.
    fn goes_on(
        &self,
        now: Instant,
        place: usize,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) -> bool {
        let process = &self.places[place];
        let device = of_device(queues, process.device);
        let running = now.since(device.accounted);
        let next = self
            .behind_most(now, process.device, Some(place))
            .map(|next| self.places[next].used(now));
        let mut left = Duration::MAX;
        if let Some(next) = next {
            let end = next.saturating_add(self.lead(process.device));
            let used = process.used.saturating_add(process.share(running));
            left = device_time(process.permille, end.saturating_sub(used));
        }
        if self.strict && process.hinted {
            let budget = process.budget(running).max(0);
            // It grows meanwhile.
            let shrinks = WHOLE.saturating_sub(u64::from(process.permille)).max(1);
            left = left.min(Duration::from_ns(budget.unsigned_abs() / shrinks));
        }
        if process.ready == 0 {
            let grace = match device.grace {
                Instant::ZERO => now + self.timeslice.grace(),
                until => until,
            };
            set_device(queues, process.device, |device| device.grace = grace);
            // It may be back at once.
            if next.is_none() || grace <= now || left == Duration::ZERO {
                return false;
            }
            out.wake_at(grace);
            return true;
        }
        set_device(queues, process.device, |device| device.grace = Instant::ZERO);
        // Each of its queues has to be put on the device.
        let shortest = self.timeslice.shortest_turn(process.device, queues);
        let shortest = device.begun + shortest.times(u64::from(process.ready.max(1)));
        if left == Duration::ZERO && now >= shortest {
            return false;
        }
        if left < Duration::MAX {
            out.wake_at(shortest.max(now + left.max(SOON)));
        }
        true
    }

    /// The process that is to have the next turn, other than `but`.
    fn behind_most(&self, now: Instant, device: DeviceId, but: Option<usize>) -> Option<usize> {
        let least = self.least_budget();
        let affords = |p: &Process| !self.strict || !p.hinted || p.budget(Duration::ZERO) >= least;
        let may = |p: &Process| p.device == device && p.queues > 0 && p.ready > 0 && affords(p);
        let others = self.places.iter().enumerate().filter(|(place, _)| Some(*place) != but);
        others
            .filter(|(_, process)| may(process))
            .min_by_key(|(_, p)| p.used(now))
            .map(|(place, _)| place)
    }

    /// How far a process gets ahead of the next one in its turn.
    fn lead(&self, device: DeviceId) -> u64 {
        let ready = self.places.iter().filter(|p| p.device == device && p.ready > 0);
        let whole: u64 = ready.map(|process| u64::from(process.permille)).sum();
        self.timeslice.lead(whole)
    }

    /// How long after a turn its last report is waited for: queues that run report four times in
    /// that time.
    fn report_within(&self) -> Duration {
        self.timeslice.step().times(4)
    }

    /// The budget that a turn begins with at least: that of a shortest turn.
    fn least_budget(&self) -> i64 {
        budget_of(self.timeslice.step())
    }

    /// Lets budgets grow, up to what a process has in a timeslice, or to the longest charge on the
    /// device while it has something to run: the time for which it may have to wait for a command.
    fn grow(&mut self, now: Instant, device: DeviceId, queues: &QueueTable<'_>) {
        if !self.strict {
            return;
        }
        let span = now.since(of_device(queues, device).grown).as_ns();
        let timeslice = self.timeslice.0.as_ns();
        let least = self.least_budget();
        let Device { turn, accounted, .. } = of_device(queues, device);
        let here = |process: &Process| process.device == device;
        let longest = self.places.iter().filter(|p| here(p)).map(|p| p.longest).max();
        let longest = longest.unwrap_or(Duration::ZERO);
        let places = self.places.iter_mut().enumerate().filter(|(_, p)| here(p));
        for (place, process) in places {
            let grown = |span: u64| span.saturating_mul(u64::from(process.permille));
            let longest = if process.ready > 0 { longest } else { Duration::ZERO };
            let most = i64::try_from(grown(timeslice)).unwrap_or(i64::MAX).max(least);
            let most = most.max(budget_of(longest));
            let running = if turn == link(place) { now.since(accounted) } else { Duration::ZERO };
            let most = most.saturating_add(budget_of(process.taken + running));
            let more = i64::try_from(grown(span)).unwrap_or(i64::MAX);
            process.budget = process.budget.saturating_add(more).min(most);
        }
        set_device(queues, device, |device| device.grown = now);
    }
}
