//! Common part of policies that share device time: start-time fair turns.
//!
//! Each queue has a *virtual time*, the device time that it has used divided by its weight, and on
//! each device the ready queue that is behind most has the next turn. A turn ends when its queue is
//! half a round ahead of the next one, and a round of all ready queues takes about half a
//! timeslice, so that shares hold over few timeslices. Device time is measured; between two reports
//! a queue that has the turn is taken to use the device all the time, and the next report puts that
//! right. What a queue still used after its turn counts as well.
//!
//! A queue that becomes ready goes on at the virtual time of those that are ready, or a round
//! behind it if it was behind: no queue saves up more than that by sleeping, none has to wait
//! because other queues are new, and one that is idle for a moment between two requests loses
//! nothing. A queue that becomes idle while other queues are ready is held until it has a turn or
//! none is ready. If it had the turn and the turn is not over, the device waits a fiftieth of a
//! timeslice for it first, at most 1 ms: commands that cannot be stopped would otherwise take its
//! turn in every pause, however short.
//!
//! With strict classes, only the ready queues of the highest class take turns. When another class
//! comes to the top, its queues are looked at once: those that became ready meanwhile go on at the
//! virtual time of their class. All queues below it are held meanwhile, idle ones too.

use xsched_core::hint::{HintKind, HintKinds, PolicyHint, Priority};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{
    Changed, Decisions, Event, MayHold, Needs, QueueInfo, QueueTable, Urgency, Verdict,
    policy_state,
};
use xsched_core::time::{Duration, Instant};

use crate::ageing::{AGED, Ageing};
use crate::choose::CLASS;
use crate::engine::HOLD;
use crate::ready::{Key, Place};

/// Virtual nanoseconds of a weight of 1 in a nanosecond of device time.
const SCALE: u64 = 1 << 10;
/// Turns and reports in a timeslice, at most: switching costs something.
const TURNS_MAX: u64 = 20;
/// The largest weight.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000;
/// Graces in a timeslice, at least.
const GRACES: u64 = 50;
/// The longest grace: what a turn is lengthened by need not grow with it.
const GRACE_MAX: Duration = Duration::from_ms(1);
/// Shortest time to a timer.
pub(crate) const SOON: Duration = Duration::from_ns(1);
/// A whole context, in permille.
const WHOLE_CONTEXT: u32 = 1_000;

policy_state! {
    /// State of a device.
    struct Round {
        /// The class that the virtual time and the weight are of.
        class: u16,
        /// The virtual time that new queues start at.
        start: u64,
        /// The weight of all ready queues of the class.
        weight: u64,
        /// Until when the device time of the turn is accounted for.
        accounted: Instant,
        /// Until when the device waits for the queue that has the turn; zero if that is not idle.
        grace: Instant,
        /// When the turn began.
        begun: Instant,
    }
}

type Ready<'t> = crate::ready::Ready<'t, Round>;

/// Virtual time of this much device time.
pub(crate) fn virtual_ns(weight: u32, span: Duration) -> u64 {
    span.as_ns().saturating_mul(SCALE) / u64::from(weight.max(1))
}

/// Device time of this much virtual time.
pub(crate) fn device_time(weight: u32, virtual_ns: u64) -> Duration {
    let ns = (u128::from(virtual_ns) * u128::from(weight)).div_ceil(u128::from(SCALE));
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Twice the length of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeslice(pub(crate) Duration);

impl Timeslice {
    /// Unless a hint says otherwise.
    pub(crate) const DEFAULT: Self = Self(Duration::from_ms(5));

    /// Device time after which queues report, which is a shortest turn where changes are free.
    pub(crate) fn step(self) -> Duration {
        Duration::from_ns(self.0.as_ns() / TURNS_MAX)
    }

    /// For how long the device waits for a queue whose turn is not over.
    pub(crate) fn grace(self) -> Duration {
        self.0.per(GRACES).min(GRACE_MAX)
    }

    /// How long a turn lasts at least: a twentieth of a timeslice, and four times as long as it
    /// takes to save one context and to restore another, or the device would do little else. At
    /// most a timeslice.
    pub(crate) fn shortest_turn(self, device: DeviceId, queues: &QueueTable<'_>) -> Duration {
        let cost = queues.cost(device);
        let change = cost.save(WHOLE_CONTEXT) + cost.restore(WHOLE_CONTEXT);
        self.step().max(change.times(4).min(self.0))
    }

    /// How far a turn takes one ahead of the next, in virtual time, if those that are ready weigh
    /// this much.
    pub(crate) fn lead(self, weight: u64) -> u64 {
        self.0.as_ns().saturating_mul(SCALE) / (4 * weight.max(1))
    }
}

/// The rules of a policy that shares device time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    timeslice: Timeslice,
    /// The weight of a queue, 1 to [`WEIGHT_MAX`].
    weight: fn(&QueueInfo) -> u32,
    /// The hint that the weight depends on.
    hint: HintKind,
    classes: bool,
    ageing: Option<Ageing>,
}

/// The class of all queues where there are no strict classes, and half that of the highest priority
/// where there are. Twice this is the class of queues that go by its virtual time; one more that of
/// those that do not yet.
const FIRST: u16 = AGED + 1;

impl Share {
    /// With such weights, which depend on a hint.
    pub(crate) const fn new(weight: fn(&QueueInfo) -> u32, hint: HintKind) -> Self {
        Self { timeslice: Timeslice::DEFAULT, weight, hint, classes: false, ageing: None }
    }

    /// With strict classes by priority.
    pub(crate) const fn with_classes(mut self) -> Self {
        self.classes = true;
        self
    }

    pub(crate) fn needs(&self) -> Needs {
        let every = self.timeslice.step();
        let every = self.ageing.map_or(every, |ageing| every.min(ageing.progress_every()));
        let is_strict = self.classes && self.ageing.is_none();
        let may_hold = if is_strict { MayHold::Peers } else { MayHold::Anything };
        let hints = HintKinds::of(&[self.hint]);
        let hints = if self.classes { hints.with(CLASS) } else { hints };
        Needs { may_hold, progress_every: Some(every), hints }
    }

    pub(crate) fn configure(&mut self, hint: PolicyHint) -> bool {
        match hint {
            PolicyHint::Timeslice(timeslice) => self.timeslice = Timeslice(timeslice),
            PolicyHint::Ageing(age) if self.classes => self.ageing = age.map(Ageing::new),
            _ => return false,
        }
        true
    }

    /// The class of a queue that goes by the virtual time of its class.
    fn class(&self, info: &QueueInfo) -> u16 {
        let below = Priority::MAX.rank() - info.hints.priority.rank();
        2 * (FIRST + if self.classes { below as u16 } else { 0 })
    }

    fn weight(&self, info: &QueueInfo) -> u32 {
        (self.weight)(info).clamp(1, WEIGHT_MAX)
    }

    pub(crate) fn observe(
        &self,
        now: Instant,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
    ) {
        let Some(info) = queues.get(queue) else { return };
        let Some(ready) = Ready::on(queues, info.device) else { return };
        match event {
            Event::Progress { busy } => {
                let used = virtual_ns(self.weight(info), busy);
                ready.set_used(queue, ready.used(queue).saturating_add(used));
                self.accounted(now, queue, &ready);
                Ageing::observe(queue, event, &ready);
            }
            Event::Detached => self.leave(queue, &ready),
            _ => {}
        }
    }

    /// Notes that the usage of a queue is known. A queue that waits has kept the place that it was
    /// taken to have used until then.
    fn accounted(&self, now: Instant, queue: QueueId, ready: &Ready<'_>) {
        match ready.place(queue) {
            Place::Chosen => ready.update(|round| round.accounted = now),
            Place::Waiting if ready.key(queue).class != AGED => {
                ready.put_back(queue, Key { within: ready.used(queue), ..ready.key(queue) });
            }
            _ => {}
        }
    }

    pub(crate) fn decide(
        &self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        Ready::each_changed(changed, queues, |info, ready| self.follow(now, info, ready, out));
        // A turn may be over on any of them: timers do not say whose they are.
        Ready::on_all(queues).for_each(|ready| self.turn(now, &ready, out));
    }

    fn follow(&self, now: Instant, info: &QueueInfo, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let place = ready.place(info.id);
        if info.hints.priority == Priority::NO_EXECUTE {
            self.leave(info.id, ready);
            return out.set(info.id, HOLD);
        }
        if !info.ready {
            let same_class = ready.key(info.id).class & !1 == self.class(info);
            if place == Place::Chosen && same_class && ready.best().is_some() {
                // It may be back at once. Once it is idle, nothing else gives it more time.
                let until = now + self.timeslice.grace();
                ready.update(|round| {
                    round.grace = if round.grace == Instant::ZERO { until } else { round.grace };
                });
            } else {
                self.retire(info, ready, out);
            }
            return;
        }
        if place == Place::Chosen {
            ready.update(|round| round.grace = Instant::ZERO);
        } else if place == Place::Parked {
            ready.remove(info.id);
        }
        let class = self.class(info);
        let place = ready.place(info.id);
        let before = ready.key(info.id).class;
        if place == Place::Out || before & !1 != class && !(before == AGED && self.ageing.is_some())
        {
            self.leave(info.id, ready);
            if let Some(runs) = ready.chosen().next().and_then(|id| ready.queues.get(id)) {
                self.catch_up(runs.id, self.used(now, runs, ready), ready);
            }
            self.enter(now, info, class, ready);
            out.set(info.id, HOLD);
        } else {
            self.weigh(info, ready);
        }
    }

    /// A queue becomes ready, or changes its class.
    fn enter(&self, now: Instant, info: &QueueInfo, class: u16, ready: &Ready<'_>) {
        let weight = self.weight(info);
        ready.set_tag(info.id, weight);
        ready.set_since(info.id, now);
        let within = ready.used(info.id);
        if self.classes && ready.state().class != class {
            return ready.insert(info.id, Key { class: class + 1, within });
        }
        // First of all its weight: how long a round is in virtual time depends on it.
        ready.update(|round| round.weight += u64::from(weight));
        let start = within.max(self.earliest(ready));
        ready.set_used(info.id, start);
        ready.insert(info.id, Key { class, within: start });
    }

    /// Where a queue that becomes ready starts at least: a round behind the other queues.
    fn earliest(&self, ready: &Ready<'_>) -> u64 {
        ready.state().start.saturating_sub(2 * self.lead(ready))
    }

    /// A queue has nothing to run.
    fn retire(&self, info: &QueueInfo, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let before = ready.place(info.id);
        self.leave(info.id, ready);
        let last = self.class(info) + 1;
        let contends = |key: Key| key.class != AGED && key.class <= last;
        let contended = ready.best().is_some_and(|(_, key)| contends(key))
            || ready.chosen().next().is_some_and(|id| contends(ready.key(id)));
        if contended && before != Place::Out {
            // Or its next command would slip in before its turn, and the next, and so on.
            ready.park(info.id);
            out.set(info.id, HOLD);
        } else {
            out.set(info.id, Verdict::Run);
        }
    }

    /// Notes the weight of a ready queue, which may have changed.
    fn weigh(&self, info: &QueueInfo, ready: &Ready<'_>) {
        let before = ready.tag(info.id);
        let weight = self.weight(info);
        if weight == before {
            return;
        }
        ready.set_tag(info.id, weight);
        if self.counts(info.id, ready) {
            ready.update(|round| {
                round.weight = round.weight + u64::from(weight) - u64::from(before);
            });
        }
    }

    /// Returns whether the weight of a ready queue is part of the device's.
    fn counts(&self, queue: QueueId, ready: &Ready<'_>) -> bool {
        let class = ready.key(queue).class;
        !self.classes || class == ready.state().class
    }

    fn leave(&self, queue: QueueId, ready: &Ready<'_>) {
        let place = ready.place(queue);
        if matches!(place, Place::Waiting | Place::Chosen) && self.counts(queue, ready) {
            let weight = u64::from(ready.tag(queue));
            ready.update(|round| round.weight = round.weight.saturating_sub(weight));
        }
        if place == Place::Chosen {
            self.catch_up(queue, ready.used(queue), ready);
        }
        ready.remove(queue);
    }

    /// Moves on the virtual time that other queues start at, while no queue of the class waits for
    /// the one that has the turn: that has one long turn then.
    fn catch_up(&self, chosen: QueueId, used: u64, ready: &Ready<'_>) {
        let class = ready.key(chosen).class;
        let alone = ready.best().is_none_or(|(_, key)| key.class > class);
        if alone && class != AGED && self.counts(chosen, ready) {
            ready.update(|round| round.start = round.start.max(used));
        }
    }

    /// Another class comes to the top: its virtual time is that of the queue that is behind most.
    fn enter_class(&self, class: u16, ready: &Ready<'_>) {
        let place = |info: &QueueInfo| ready.place(info.id);
        let members = || {
            let all = ready.queues.with_priority(ready.id, priority_of(class));
            all.filter(|info| matches!(place(info), Place::Waiting | Place::Chosen))
        };
        let placed = |info: &&QueueInfo| ready.key(info.id).class == class;
        let own = |info: &QueueInfo| ready.used(info.id);
        let now = members().filter(placed).map(own).min();
        let now = now.or_else(|| members().map(own).max()).unwrap_or(0);
        let weight = members().map(|info| u64::from(ready.tag(info.id))).sum();
        ready.update(|round| (round.class, round.start, round.weight) = (class, now, weight));
        for info in members().filter(|info| ready.key(info.id).class == class + 1) {
            let within = ready.used(info.id).max(self.earliest(ready));
            ready.set_used(info.id, within);
            ready.put_back(info.id, Key { class, within });
        }
    }

    /// Ends the turn of a device if it is time, and begins the next one.
    fn turn(&self, now: Instant, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        if let Some(ageing) = self.ageing {
            let key = |info: &QueueInfo| {
                let within = self.used(now, info, ready);
                Some(Key { class: self.class(info), within })
            };
            let running = ready.state().class;
            ageing.step(now, ready, out, running + 1, key);
        }
        if self.goes_on(now, ready, out) {
            return;
        }
        let class = ready.best().map_or(0, |(_, key)| key.class & !1);
        if self.classes {
            if class != AGED && class != ready.state().class {
                self.enter_class(class, ready);
                ready.release_parked(out);
            }
            // Idle queues of lower classes are held as well, or their first command would slip in.
            out.floor(ready.id, (class != AGED).then(|| priority_of(class)), Urgency::NOW);
        }
        let Some(id) = ready.run_best(out) else { return ready.release_parked(out) };
        self.begin(now, id, ready, out);
    }

    /// Returns whether the queue that has the turn keeps it; otherwise it is taken back.
    fn goes_on(&self, now: Instant, ready: &Ready<'_>, out: &mut Decisions<'_>) -> bool {
        let Some(info) = ready.chosen().next().and_then(|id| ready.queues.get(id)) else {
            return false;
        };
        let class = ready.key(info.id).class;
        let Some((_, next)) = ready.best().filter(|(_, next)| next.class <= class) else {
            if !info.ready {
                self.retire(info, ready, out);
            }
            return info.ready;
        };
        let used = self.used(now, info, ready);
        let Round { grace: until, begun, .. } = ready.state();
        let end = next.within.saturating_add(self.lead(ready));
        let shortest = begun + self.timeslice.shortest_turn(info.device, &ready.queues);
        let over = used >= end && now >= shortest;
        if next.class == class && !over && (info.ready || now < until) {
            let left = device_time(self.weight(info), end.saturating_sub(used));
            let end = shortest.max(now + left.max(SOON));
            out.wake_at(if info.ready { end } else { end.min(until) });
            return true;
        }
        if info.ready {
            ready.wait(now, info.id, Key { class, within: used }, out);
        } else {
            self.retire(info, ready, out);
        }
        false
    }

    /// Begins a turn.
    fn begin(&self, now: Instant, id: QueueId, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        ready.update(|round| {
            (round.accounted, round.begun, round.grace) = (now, now, Instant::ZERO);
        });
        let Some(info) = ready.queues.get(id) else { return };
        let class = ready.key(id).class;
        if class == AGED {
            return;
        }
        let own = ready.used(id);
        ready.update(|round| round.start = round.start.max(own));
        if let Some((_, next)) = ready.best().filter(|(_, next)| next.class == class) {
            let end = next.within.saturating_add(self.lead(ready));
            let slice = device_time(self.weight(info), end.saturating_sub(own));
            let shortest = self.timeslice.shortest_turn(info.device, &ready.queues);
            out.wake_at(now + slice.max(shortest));
        }
    }

    /// The virtual time of the queue that has the turn, with what it is taken to have used since
    /// its last report.
    fn used(&self, now: Instant, info: &QueueInfo, ready: &Ready<'_>) -> u64 {
        let accounted = ready.state().accounted;
        ready.used(info.id).saturating_add(virtual_ns(self.weight(info), now.since(accounted)))
    }

    /// How far a queue gets ahead of the next one in its turn, in virtual time.
    fn lead(&self, ready: &Ready<'_>) -> u64 {
        self.timeslice.lead(ready.state().weight)
    }
}

/// The priority of the queues of a class.
fn priority_of(class: u16) -> Priority {
    Priority::from_rank(Priority::MAX.rank() - usize::from(class / 2 - FIRST))
}
