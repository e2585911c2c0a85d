//! Common part of deadline and class policies: each ready queue has a key, and the lowest keys of
//! a device run. A queue without a key holds, ready or not.
//!
//! Idle queues are mostly left alone: on an idle device every queue may start at once, and a
//! decision costs nothing for queues that have nothing to do. So a queue that becomes ready on a
//! busy device may launch what fits into its window before the hold arrives. If its key does not
//! allow that, it is held when it becomes idle again, until queues of its key may run: so it
//! happens once, and not with each command.

use xsched_core::hint::{HintKind, HintKinds, PolicyHint, Priority};
use xsched_core::id::QueueId;
use xsched_core::policy::{
    Changed, Decisions, Event, MayHold, Needs, QueueInfo, QueueTable, Verdict, policy_state,
};
use xsched_core::time::Instant;

use crate::ageing::{AGED, Ageing};
use crate::engine::{HOLD, each_changed};
use crate::ready::{Key, Place};

/// The class of all queues where there are no strict classes; the highest priority otherwise.
const FIRST: u16 = AGED + 1;

/// Hints that the class of a queue depends on.
pub(crate) const CLASS: HintKinds = HintKinds::of(&[HintKind::Priority]);

policy_state! {
    /// State of a device: the key of those that ran when queues were parked.
    struct ParkedUnder {
        class: u16,
        within: u64,
    }
}

type Ready<'t> = crate::ready::Ready<'t, ParkedUnder>;

/// How many of the ready queues of a device run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// The number of queues, at least 1.
    Top(u32),
    /// All that have the lowest key.
    Class,
}

/// The rules of one policy.
pub(crate) trait Rules: Copy {
    /// True if a queue may starve, so that there can be ageing.
    const STRICT: bool;
    /// True if an idle queue may be without a key, other than by its priority.
    const IDLE_HELD: bool = false;
    /// Hints that the key depends on.
    const HINTS: &[HintKind];

    /// Returns the key that a queue is ordered by; nothing if it must not run.
    fn key(&self, now: Instant, info: &QueueInfo) -> Option<u64>;

    fn width(&self) -> Width {
        Width::Class
    }

    /// When the key of a queue changes by itself, if it stays ready.
    fn changes_at(&self, info: &QueueInfo) -> Option<Instant> {
        let _ = info;
        None
    }

    /// Higher keys do not run, even alone.
    fn bar(&self, queues: &QueueTable<'_>) -> u64 {
        let _ = queues;
        u64::MAX
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let _ = hint;
        false
    }
}

/// A policy that orders queues by [`Rules`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chooser<R> {
    pub(crate) rules: R,
    classes: bool,
    ageing: Option<Ageing>,
    /// When the next key changes by itself; no queue has to be looked at before.
    next: Option<Instant>,
    /// There are queues, no more than run at a time, and none has to be held.
    all_run: bool,
}

/// The class of a priority, where classes are strict.
pub(crate) fn class_of(priority: Priority) -> u16 {
    FIRST + (Priority::MAX.rank() - priority.rank()) as u16
}

impl<R: Rules> Chooser<R> {
    pub(crate) const fn new(rules: R) -> Self {
        Self { rules, classes: false, ageing: None, next: None, all_run: false }
    }

    /// With strict classes by priority.
    pub(crate) const fn with_classes(mut self) -> Self {
        self.classes = true;
        self
    }

    /// Starts afresh, as after a policy switch.
    pub(crate) fn forget(&mut self, queues: &QueueTable<'_>) {
        self.next = None;
        queues.iter().for_each(|info| queues.clear_state(info.id));
        queues.devices().for_each(|device| queues.clear_device_state(device));
    }

    pub(crate) fn needs(&self) -> Needs {
        let may_hold = match self.ageing {
            _ if self.all_run => MayHold::Nothing,
            None if self.classes => MayHold::Peers,
            _ => MayHold::Anything,
        };
        let progress_every = self.ageing.map(Ageing::progress_every);
        let hints = HintKinds::of(R::HINTS);
        let hints = if self.classes { hints.with(CLASS) } else { hints };
        Needs { may_hold, progress_every, hints }
    }

    pub(crate) fn configure(&mut self, hint: PolicyHint) -> bool {
        // What that changes is looked at in the next full decision.
        self.all_run = false;
        match hint {
            PolicyHint::Ageing(age) if R::STRICT || self.classes => {
                self.ageing = age.map(Ageing::new);
                true
            }
            hint => self.rules.configure(hint),
        }
    }

    pub(crate) fn observe(
        &mut self,
        _now: Instant,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
    ) {
        if matches!(event, Event::Attached | Event::Detached | Event::Hinted) {
            let gone = (event == Event::Detached).then_some(queue);
            self.all_run = self.all_may_run(queues, gone);
        }
        let Some(info) = queues.get(queue) else { return };
        let Some(ready) = Ready::on(queues, info.device) else { return };
        // A queue that leaves the table leaves the order as well.
        if event == Event::Detached {
            ready.remove(queue);
        } else if self.ageing.is_some() {
            Ageing::observe(queue, event, &ready);
        }
    }

    /// Returns whether all queues but one that is gone run whenever they are ready.
    fn all_may_run(&self, queues: &QueueTable<'_>, gone: Option<QueueId>) -> bool {
        let Width::Top(k) = self.rules.width() else { return false };
        let none_is_held = |info: &QueueInfo| info.hints.priority != Priority::NO_EXECUTE;
        let left = queues.iter().filter(|info| Some(info.id) != gone);
        let bounded = left.take(k as usize + 1);
        let (count, all) =
            bounded.fold((0, true), |(count, all), info| (count + 1, all && none_is_held(info)));
        !self.classes && count <= k && all
    }

    /// Follows what changed and chooses anew where something did.
    pub(crate) fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let due = self.next.is_some_and(|next| next <= now);
        let everywhere = self.ageing.is_some() || self.rules.bar(queues) != u64::MAX;
        let all = matches!(changed, Changed::All);
        if all {
            self.all_run = self.all_may_run(queues, None);
        }
        let mut next = self.next.filter(|_| !all && !due);
        let mut look = |info: &QueueInfo| {
            let Some(ready) = Ready::on(queues, info.device) else { return };
            self.follow(now, info, &ready, out);
            let at = self.rules.changes_at(info).filter(|&at| info.ready && at > now);
            next = next.into_iter().chain(at).min();
        };
        if all && R::IDLE_HELD {
            queues.iter().for_each(&mut look);
        } else {
            each_changed(changed, queues, &mut look);
        }
        if due && !all {
            // Keys change by themselves only while queues are ready.
            queues.ready().for_each(&mut look);
        }
        match changed {
            Changed::Some { devices, .. } if !everywhere && !due => {
                let changed = devices.iter().filter_map(|&device| Ready::on(queues, device));
                changed.for_each(|ready| self.choose(now, &ready, out));
            }
            _ => Ready::on_all(queues).for_each(|ready| self.choose(now, &ready, out)),
        }
        self.next = next;
        if let Some(next) = next {
            out.wake_at(next);
        }
    }

    fn key(&self, now: Instant, info: &QueueInfo) -> Option<Key> {
        if info.hints.priority == Priority::NO_EXECUTE {
            return None;
        }
        let class = if self.classes { class_of(info.hints.priority) } else { FIRST };
        self.rules.key(now, info).map(|within| Key { class, within })
    }

    fn follow(&self, now: Instant, info: &QueueInfo, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let Some(key) = self.key(now, info) else {
            ready.remove(info.id);
            return out.set(info.id, HOLD);
        };
        if !info.ready {
            return self.rest(info.id, key, ready, out);
        }
        let place = ready.place(info.id);
        if matches!(place, Place::Waiting | Place::Chosen) {
            let before = ready.key(info.id);
            if before == key || before.class == AGED && self.ageing.is_some() {
                return;
            }
            if place == Place::Waiting {
                return ready.put_back(info.id, key);
            }
        }
        ready.wait(now, info.id, key, out);
    }

    /// A queue has nothing to run.
    fn rest(&self, queue: QueueId, key: Key, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let place = ready.place(queue);
        let lowest = ready.chosen().map(|queue| ready.key(queue)).next();
        let beaten = lowest.is_some_and(|lowest| match self.rules.width() {
            Width::Class => lowest < key,
            // Its place within its class is not known before it is ready.
            Width::Top(_) => lowest.class < key.class,
        });
        let aged = lowest.is_some_and(|lowest| lowest.class == AGED);
        let may_park = place == Place::Parked || place != Place::Out && !aged;
        ready.remove(queue);
        if let Some(lowest) = lowest.filter(|_| beaten && may_park) {
            let within = match self.rules.width() {
                Width::Class => lowest.within,
                Width::Top(_) => u64::MAX,
            };
            let under = Key { within, ..lowest };
            // A queue that was parked under a better key is released with that.
            let under = parked_under(ready).map_or(under, |before| before.min(under));
            ready.park(queue);
            ready.update(|parked| (parked.class, parked.within) = (under.class, under.within));
            return out.set(queue, HOLD);
        }
        out.set(queue, Verdict::Run);
    }

    /// Lets the queues with the best keys run. At equal keys a queue that runs goes on.
    fn choose(&self, now: Instant, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        if let Some(ageing) = self.ageing {
            let key = |info: &QueueInfo| self.key(now, info);
            ageing.step(now, ready, out, AGED, key);
        }
        let bar = self.rules.bar(&ready.queues);
        let barred = |key: Key| key.class != AGED && key.within > bar;
        while let Some((queue, key)) = last_chosen(ready, self.rules.width()) {
            let overtaken = ready.best().is_some_and(|(_, best)| {
                best.class < key.class || self.rules.width() == Width::Class && best < key
            });
            if !(overtaken || barred(key)) {
                break;
            }
            ready.wait(now, queue, key, out);
        }
        match self.rules.width() {
            Width::Top(k) => choose_top(now, ready, k.max(1), out),
            Width::Class => choose_class(ready, out, barred),
        }
        release(ready, out);
    }
}

/// The one with the highest key of those that were chosen; in a class all have the same.
fn last_chosen(ready: &Ready<'_>, width: Width) -> Option<(QueueId, Key)> {
    let mut chosen = ready.chosen().map(|queue| (queue, ready.key(queue)));
    let mut last = chosen.next()?;
    if let Width::Top(_) = width {
        // `max_by_key` costs 10 ns more: it stores queue and key in parts and loads them at once.
        for (queue, key) in chosen {
            if key >= last.1 {
                last = (queue, key);
            }
        }
    }
    Some(last)
}

fn choose_top(now: Instant, ready: &Ready<'_>, k: u32, out: &mut Decisions<'_>) {
    while let Some((queue, key)) =
        last_chosen(ready, Width::Top(k)).filter(|_| ready.chosen_count() > k)
    {
        ready.wait(now, queue, key, out);
    }
    while let Some((_, key)) = ready.best() {
        if let Some((queue, last)) = last_chosen(ready, Width::Top(k)) {
            let full = ready.chosen_count() >= k;
            if last.class < key.class || full && last <= key {
                return;
            }
            if full {
                ready.wait(now, queue, last, out);
            }
        }
        ready.run_best(out);
    }
}

fn choose_class(ready: &Ready<'_>, out: &mut Decisions<'_>, barred: impl Fn(Key) -> bool) {
    while let Some((_, key)) = ready.best() {
        let running = ready.chosen().next().map(|queue| ready.key(queue));
        if barred(key) || running.is_some_and(|running| running < key) {
            return;
        }
        ready.run_best(out);
    }
}

/// The best key that ran when a queue was parked that still is.
fn parked_under(ready: &Ready<'_>) -> Option<Key> {
    let ParkedUnder { class, within } = ready.state();
    ready.any_parked().then_some(Key { class, within })
}

/// Lets idle queues go, once those run that are no better than they may be.
fn release(ready: &Ready<'_>, out: &mut Decisions<'_>) {
    let Some(under) = parked_under(ready) else { return };
    let lowest = ready.chosen().map(|queue| ready.key(queue)).next();
    if lowest.is_some_and(|lowest| lowest <= under) {
        return;
    }
    ready.release_parked(out);
}
