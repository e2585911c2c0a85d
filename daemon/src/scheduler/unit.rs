//! A process on a GPU, as the daemon knows it.

use std::os::fd::OwnedFd;

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::message::{Order, Report};
use xsched_core::time::{Duration, Instant};
use xsched_core::unit::{Counted, Ran, Said, Unit as State};
use xsched_hal_stream::SharedPage;
use xsched_node::{
    Others, holder, is_loaded, levels, loaded_queues, past, retired, set_others, set_unwanted,
    set_wanted, tell, used_ns, waited_us,
};

use super::account::Account;
use super::figures::Total;
use super::gang::Stance;
use super::tenancy::Rights;
use crate::tenant::Party;

/// How the daemon hears that a process's work begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// The process wakes the daemon.
    AtOnce,
    /// The daemon looks often while the process runs.
    Soon,
    /// The daemon looks at all processes once a second: nothing is to be decided.
    Rarely,
}

/// A process on a GPU.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) device: DeviceId,
    /// Its queue in the scheduler machine.
    pub(crate) queue: QueueId,
    /// The first has the header.
    pages: Vec<SharedPage>,
    state: State,
    /// Its gates were closed, and not opened since.
    has_closed: bool,
    /// It is among those whose gates are late.
    is_noted: bool,
    priority: Priority,
    /// What it was told of the others on its GPU.
    others: Others,
    /// It was told that they run at the same time.
    beside: bool,
    heard: Heard,
    /// Those on its GPU are all of higher priorities.
    is_last: bool,
    /// Its gang has something to decide.
    is_in_gang: bool,
    pub(crate) stance: Stance,
    /// Since when it is idle, running or held.
    pub(crate) since: Instant,
    pub(crate) holds: u64,
    pub(crate) account: Account,
    /// What it had said of its commands, and of launches past the scheduler, before this daemon.
    retired_before: u64,
    past_before: u64,
    /// What is counted as an earlier tenant's.
    pub(crate) told: Option<Box<Total>>,
}

impl Unit {
    /// A process that has handed its first page over.
    pub(crate) fn new(device: DeviceId, queue: QueueId, page: SharedPage, now: Instant) -> Self {
        let (retired_before, past_before) = (retired(&page), past(&page).unwrap_or(0));
        let mut unit = Self {
            device,
            queue,
            pages: Vec::new(),
            state: State::new(used_ns(&page), now),
            has_closed: false,
            is_noted: false,
            priority: Priority::default(),
            others: Others::None,
            beside: false,
            heard: Heard::Rarely,
            is_last: false,
            is_in_gang: false,
            stance: Stance::Open,
            since: now,
            holds: 0,
            account: Account::new(now),
            retired_before,
            past_before,
            told: None,
        };
        unit.add(page);
        unit
    }

    /// Adds a page, whose gates are closed if the others are.
    pub(crate) fn add(&mut self, page: SharedPage) {
        if self.is_closed() {
            page.close_all(holder());
        } else {
            // A daemon before this one may have closed them.
            page.release_all(holder());
        }
        page.set_beside(self.beside);
        page.set_spared(self.others == Others::Behind);
        self.pages.push(page);
        self.tell();
    }

    /// Its GPU runs what several processes launch at the same time.
    pub(crate) const fn run_side_by_side(&mut self) {
        self.state.run_side_by_side();
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether it has work.
    pub(crate) const fn is_loaded(&self) -> bool {
        self.state.is_loaded()
    }

    /// Whether it has work and may run.
    pub(crate) const fn runs(&self) -> bool {
        self.state.runs()
    }

    /// Whether its gates are closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.state.is_held()
    }

    /// Sees to it that the process's launches are scheduled, and that it wakes the daemon when its
    /// work begins or ends, if there are others on its GPU or it is to be held. True if that is so
    /// from now on: it has to be looked at after this.
    pub(crate) fn update_shared(&mut self, has_others: bool) -> bool {
        let shared = has_others || self.may_be_held() || self.is_in_gang;
        if shared != self.is_alone() {
            return false;
        }
        self.tell_others(if shared { Others::Before } else { Others::None });
        self.set_rings(shared)
    }

    /// Tells the process what the others on its GPU are for it, if there are any, as the policy
    /// has it. A gate takes some of the device, and one that comes first can do without.
    pub(crate) fn rank(&mut self, others: Others, is_last: bool) {
        self.is_last = is_last;
        let is_held = self.may_be_held() || self.is_in_gang;
        if !self.is_alone() {
            let comes_first = others == Others::Behind;
            self.tell_others(if comes_first && is_held { Others::Before } else { others });
        }
    }

    /// Tells the process whether others run at the same time, in turns.
    pub(crate) fn tell_beside(&mut self, running: u64) {
        let beside = running > 1 && self.runs() && !self.state.runs_side_by_side();
        if std::mem::replace(&mut self.beside, beside) != beside {
            self.pages.iter().for_each(|page| page.set_beside(beside));
        }
    }

    fn tell_others(&mut self, others: Others) {
        if std::mem::replace(&mut self.others, others) == others {
            return;
        }
        self.pages.iter().for_each(|page| page.set_spared(others == Others::Behind));
        if let Some(page) = self.pages.first() {
            set_others(page, others);
        }
    }

    pub(crate) const fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether it may be held where it is alone on its GPU.
    pub(crate) fn may_be_held(&self) -> bool {
        self.state.is_held_by_hand() || self.priority == Priority::NO_EXECUTE
    }

    /// Whether its gang has something to decide.
    pub(crate) const fn is_in_gang(&self) -> bool {
        self.is_in_gang
    }

    /// Its gang has something to decide from now on, or no longer; then nothing of it is held for
    /// the gang. True if it wakes the daemon from now on: it has to be looked at after this.
    pub(crate) fn set_in_gang(&mut self, is_in_gang: bool, now: Instant) -> bool {
        self.is_in_gang = is_in_gang;
        if is_in_gang {
            return self.set_rings(true);
        }
        self.take_stance(Stance::Open, now);
        false
    }

    /// Opens or closes it for its gang.
    pub(crate) fn take_stance(&mut self, stance: Stance, now: Instant) {
        self.stance = stance;
        let (hold, away) = (stance != Stance::Open, stance == Stance::Away);
        self.change(now, |state| state.hold_for_gang(hold, away, now));
    }

    /// Whether the scheduler lets it run, whatever else it is held for.
    pub(crate) const fn is_ordered_to_run(&self) -> bool {
        self.state.is_ordered_to_run()
    }

    /// Whether a user holds it.
    pub(crate) const fn is_held_by_hand(&self) -> bool {
        self.state.is_held_by_hand()
    }

    /// Says whether the process is to wake the daemon, which it does at most while its launches are
    /// scheduled. True if it does from now on: it has to be looked at after this.
    pub(crate) fn set_rings(&mut self, rings: bool) -> bool {
        let rings = (rings || self.is_in_gang) && !self.is_alone();
        match (rings, self.heard) {
            (true, Heard::Rarely) => self.hear(Heard::AtOnce),
            (false, _) => self.hear(Heard::Rarely),
            (true, _) => false,
        }
    }

    /// Has the daemon hear so of its work. True if the process wakes it from now on: its work may
    /// have begun or ended before.
    fn hear(&mut self, heard: Heard) -> bool {
        let has_changed = std::mem::replace(&mut self.heard, heard) != heard;
        match self.pages.first().filter(|_| has_changed) {
            Some(page) if heard == Heard::AtOnce => _ = set_wanted(page),
            Some(page) => set_unwanted(page),
            None => {}
        }
        has_changed && heard == Heard::AtOnce
    }

    /// Whether it wakes the daemon, or is looked at often. If not, it may long have had no work.
    pub(crate) const fn rings(&self) -> bool {
        !matches!(self.heard, Heard::Rarely)
    }

    /// Whether nothing hangs on when exactly its work begins and ends, where the policy spares the
    /// highest priority: others run beside it, or nothing is held for it.
    pub(crate) fn can_wait(&self) -> bool {
        (self.is_host_bound() || self.is_last) && !self.may_be_held() && !self.is_in_gang
    }

    /// Whether it has the highest priority on its GPU, alone, and others are held for it.
    pub(crate) const fn comes_first(&self) -> bool {
        matches!(self.others, Others::Behind)
    }

    /// Whether it is looked at instead of waking the daemon.
    pub(crate) const fn is_quiet(&self) -> bool {
        matches!(self.heard, Heard::Soon)
    }

    /// Whether it is quiet, although it cannot wait or may not be.
    pub(crate) fn is_wrongly_quiet(&self, may: bool) -> bool {
        self.is_quiet() && !(may && self.can_wait() && self.runs())
    }

    fn has_work(&self) -> bool {
        self.pages.first().is_some_and(is_loaded)
    }

    /// Whether it has work, as it says. One that is quiet wakes the daemon again if it has none.
    fn asks(&mut self) -> bool {
        self.has_work() || self.is_quiet() && self.hear(Heard::AtOnce) && self.has_work()
    }

    /// Has it not wake the daemon while it runs, if it can wait and those that can may, or wake it.
    /// True if it does from now on: it has to be looked at after this.
    pub(crate) fn update_quiet(&mut self, may: bool) -> bool {
        let is_quiet = may && self.can_wait() && self.runs() && self.has_work();
        self.rings() && self.hear(if is_quiet { Heard::Soon } else { Heard::AtOnce })
    }

    /// Its hints are these from now on.
    pub(crate) fn note_hints(&mut self, hints: &Hints) {
        self.priority = hints.priority;
    }

    /// Looks whether it has work, or is in a short pause. True if that has changed.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        let has_work = self.asks();
        let has_changed = self.state.look(has_work, self.said_ns(), now);
        if has_changed {
            let loaded = self.is_loaded();
            if loaded && self.is_late() {
                self.apply();
            }
            self.since = now;
            self.account.turn(loaded, self.is_closed(), self.retired(), now);
        }
        has_changed
    }

    /// Time has passed, in which so many ran on its GPU. Whether its host waits may not matter.
    pub(crate) fn count(
        &mut self,
        passed: Duration,
        running: u64,
        waits_matter: bool,
        now: Instant,
    ) -> Counted {
        if self.is_closed() {
            self.account.watch(self.retired(), now);
        }
        let is_known = self.rings() && (!self.is_quiet() || self.is_host_bound());
        let ran = match (self.runs(), is_known) {
            (false, _) => Ran::NOT,
            // One that is silent may have no work.
            (true, false) => Ran { whole: passed, part: Duration::ZERO },
            (true, true) => Ran::of(running, passed),
        };
        let waited_us = self.host_waited_us().filter(|_| waits_matter);
        let said = Said { used_ns: self.said_ns(), ended: self.retired(), waited_us };
        self.state.count(ran, said, now)
    }

    /// Others had the GPU for so long while this one ran.
    pub(crate) fn owe(&mut self, late: Duration) {
        self.state.owe(late);
    }

    /// The time until [`Unit::count`] is to be called to find whether it is bound by its host.
    pub(crate) fn left_to_see(&self, now: Instant) -> Duration {
        self.state.left_to_see(now)
    }

    /// The time until [`Unit::count`] is to be called although nothing happens.
    pub(crate) fn left_to_look(&self, now: Instant) -> Duration {
        self.state.left_to_look(now)
    }

    fn said_ns(&self) -> u64 {
        self.pages.first().map_or(0, used_ns)
    }

    /// The time until the scheduler wants to know what it used, if it runs alone;
    /// [`Duration::MAX`] for never.
    pub(crate) const fn left_to_report(&self) -> Duration {
        self.state.left_to_report()
    }

    /// The device time that it has used.
    pub(crate) const fn used(&self) -> Duration {
        self.state.used()
    }

    /// How many of its commands have retired since it connected, as it says.
    pub(crate) fn retired(&self) -> u64 {
        self.pages.first().map_or(0, retired).wrapping_sub(self.retired_before)
    }

    /// How many of its queues have work, as it says.
    pub(crate) fn queues(&self) -> u32 {
        self.pages.first().map_or(0, loaded_queues)
    }

    /// How many streams of its process have queues of levels 1, 2 and 3, as it says.
    pub(crate) fn levels(&self) -> [u32; 3] {
        self.pages.first().map_or([0; 3], levels)
    }

    /// For how long its host has waited for the GPU in microseconds, if it says so.
    pub(crate) fn host_waited_us(&self) -> Option<u32> {
        self.pages.first().and_then(waited_us)
    }

    /// Whether the GPU mostly waits for its host.
    pub(crate) const fn is_host_bound(&self) -> bool {
        self.state.is_host_bound()
    }

    /// How many of its process's launches went past, if it says so.
    pub(crate) fn past(&self) -> Option<u64> {
        self.pages.first().and_then(past)
    }

    /// How many of its process's launches went past since it connected, as it says.
    pub(crate) fn past_since(&self) -> u64 {
        self.past().unwrap_or(0).saturating_sub(self.past_before)
    }

    /// Ends the window over which its share is taken.
    pub(crate) fn sample(&mut self, now: Instant) {
        self.account.sample(self.state.used(), now);
    }

    /// What is told the scheduler now, of this queue.
    pub(crate) const fn take_report(&mut self) -> (QueueId, Report) {
        (self.queue, self.state.take_report())
    }

    /// What it is found by.
    pub(crate) const fn key(&self) -> u32 {
        self.queue.index() as u32
    }

    /// Does what the scheduler orders. True if it is to hear of it.
    pub(crate) fn obey(&mut self, order: Order, now: Instant) -> bool {
        self.change(now, |state| state.obey(order, now))
    }

    /// Holds it by hand, or ends that.
    pub(crate) fn hold_by_hand(&mut self, hold: bool, now: Instant) {
        self.change(now, |state| state.hold_by_hand(hold, now));
    }

    /// Changes what it is held for, and its gates if that matters.
    fn change<T>(&mut self, now: Instant, change: impl FnOnce(&mut State) -> T) -> T {
        let before = self.is_closed();
        let changed = change(&mut self.state);
        let closed = self.is_closed();
        if closed != before {
            // What has no work is held as well, so that its first command does not slip through,
            // but others need not wait for that.
            if self.is_loaded() {
                self.apply();
            }
            self.account.turn(self.is_loaded(), closed, self.retired(), now);
            if self.is_loaded() {
                self.since = now;
                self.holds += u64::from(closed);
            }
        }
        changed
    }

    /// Whether its gates are not yet as they should be, since it has no work.
    const fn is_late(&self) -> bool {
        self.has_closed != self.is_closed()
    }

    /// True if its gates are late and were not before, so that [`Unit::settle`] is to be called.
    pub(crate) fn note_late(&mut self) -> bool {
        self.is_late() && !std::mem::replace(&mut self.is_noted, true)
    }

    /// Has its gates be as they should be.
    pub(crate) fn settle(&mut self) {
        self.is_noted = false;
        if self.is_late() {
            self.apply();
        }
    }

    /// Closes or opens all its gates, whatever they were.
    pub(crate) fn apply(&mut self) {
        self.has_closed = self.is_closed();
        for page in &self.pages {
            if self.is_closed() {
                page.close_all(holder());
            } else {
                page.release_all(holder());
            }
        }
        self.tell();
    }

    /// Wakes the process's thread that holds what has no gates, if it has one.
    fn tell(&self) {
        let _ = self.pages.first().map(tell);
    }

    /// Renews the lease of its hold, and closes what has been opened meanwhile.
    pub(crate) fn renew(&mut self) {
        self.has_closed = self.is_closed();
        self.pages.iter().for_each(|page| page.renew_all(holder()));
    }

    /// Opens its gates for the last time.
    pub(crate) fn let_go(&self) {
        self.pages.iter().for_each(|page| page.release_all(holder()));
        self.tell();
    }

    /// Whether it is alone on its GPU, so that nothing of it is scheduled or measured.
    pub(crate) const fn is_alone(&self) -> bool {
        matches!(self.others, Others::None)
    }

    /// `alone`, `idle`, `running` or `held`.
    pub(crate) const fn state(&self) -> &'static str {
        match (self.is_loaded(), self.is_closed()) {
            _ if self.is_alone() => "alone",
            (_, true) if self.state.is_held_by_hand() => "held",
            (false, _) => "idle",
            (true, true) => "held",
            (true, false) => "running",
        }
    }
}

/// What is known of a process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) name: String,
    /// What it asked for or got by hand, within the limits of its tenant.
    pub(crate) hints: Hints,
    pub(crate) rights: Rights,
    pub(crate) by_hand: bool,
    pub(crate) gang: Option<String>,
    /// Wakes the daemon.
    pub(crate) doorbell: OwnedFd,
    /// Its units, one for each GPU.
    pub(crate) units: Vec<u32>,
}

impl Client {
    pub(crate) fn new(
        pid: i32,
        party: Party,
        name: String,
        asked: Hints,
        doorbell: OwnedFd,
    ) -> Self {
        let (uid, rights) = (party.who.uid, Rights::new(party, asked));
        let hints = rights.hints();
        let (by_hand, gang, units) = (false, None, Vec::new());
        Self { pid, uid, name, hints, rights, by_hand, gang, doorbell, units }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use xsched_core::level::Level;

    use super::*;

    #[test]
    fn a_renewal_closes_what_was_opened_too_late() {
        let page = SharedPage::create().expect("a page");
        let (now, queue) = (Instant::ZERO, QueueId::new(0, 1));
        let mut unit = Unit::new(DeviceId(0), queue, page, now);
        let open =
            |unit: &Unit| unit.pages[0].word(1).load(std::sync::atomic::Ordering::SeqCst) == 0;
        assert!(unit.obey(Order::Hold { epoch: 1, level: Level::Deactivate }, now));
        unit.settle();
        assert!(!open(&unit));
        // The watch of the process, which has seen that the lease ran out.
        unit.pages[0].release_all(holder());
        assert!(open(&unit));
        unit.renew();
        assert!(!open(&unit));
    }

    #[test]
    fn what_has_no_work_is_held_later_and_at_the_latest_with_its_first_work() {
        let page = SharedPage::create().expect("a page");
        let header = the_same(&page);
        let (now, queue) = (Instant::ZERO, QueueId::new(0, 1));
        let mut unit = Unit::new(DeviceId(0), queue, page, now);
        let is_open = || header.word(1).load(std::sync::atomic::Ordering::SeqCst) == 0;
        let hold = |epoch| Order::Hold { epoch, level: Level::Deactivate };
        assert!(unit.obey(hold(1), now) && is_open());
        assert!(unit.note_late() && !unit.note_late(), "it is noted once");
        // It may run before its gates were closed, so they never are.
        assert!(unit.obey(Order::Run { epoch: 2 }, now));
        unit.settle();
        assert!(is_open() && !unit.note_late());
        assert!(unit.obey(hold(3), now) && unit.note_late());
        unit.settle();
        assert!(!is_open());
        assert!(unit.obey(Order::Run { epoch: 4 }, now) && !is_open());
        assert!(unit.obey(hold(5), now) && !unit.note_late());
        assert!(unit.obey(Order::Run { epoch: 6 }, now) && unit.note_late());
        let load = xsched_node::Load::new(
            std::sync::Arc::new(the_same(&header)),
            std::sync::Arc::new(super::super::op::new_eventfd().expect("an eventfd")),
        );
        load.note(true);
        assert!(unit.look(now) && is_open());
    }

    #[test]
    fn a_pause_as_short_as_those_before_is_looked_at_when_it_gets_longer() {
        let page = SharedPage::create().expect("a page");
        let doorbell = super::super::op::new_eventfd().expect("an eventfd");
        let load = xsched_node::Load::new(the_same(&page).into(), doorbell.into());
        let (mut now, queue) = (Instant::ZERO, QueueId::new(0, 1));
        let mut unit = Unit::new(DeviceId(0), queue, page, now);
        for _ in 0..2 {
            load.note(true);
            assert!(unit.look(now));
            now += Duration::from_ms(2);
            load.note(false);
            assert!(unit.look(now) && unit.left_to_look(now) == Duration::MAX);
            now += Duration::from_us(100);
        }
        load.note(true);
        assert!(unit.look(now));
        now += Duration::from_ms(2);
        load.note(false);
        assert!(!unit.look(now) && unit.is_loaded(), "it may go on");
        assert_eq!(unit.left_to_look(now), Duration::from_us(200));
        let ends = now + Duration::from_us(200);
        assert!(unit.look(ends) && !unit.is_loaded());
        assert_eq!(unit.left_to_look(ends), Duration::MAX);
    }

    fn the_same(page: &SharedPage) -> SharedPage {
        let file = page.as_fd().try_clone_to_owned().expect("a descriptor").into();
        SharedPage::from_file(file).expect("the same page")
    }
}
