//! Sets of queues that are ready, and that have changed since the policy was last asked, against
//! the plainest account of both.

use std::collections::BTreeSet;
use std::vec;

use proptest::prelude::*;

use super::*;

/// More than the list of changes has room for, and no whole number of words of bits.
const ROOM: usize = 150;

#[derive(Clone, Debug)]
enum Step {
    Attach(u16),
    Detach(usize),
    Submit(usize),
    Drain(usize),
    Suspend(usize),
    Lose(usize),
    /// Idle and ready again between two reports.
    Again(usize),
    /// The first waits for the next command of the second.
    Wait(usize, usize),
    Hint(usize, i32),
    /// Changes this number of queues at once.
    Burst(usize),
    ReconsiderAll,
    InvalidateAll,
    Switch,
    Decide,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..ROOM;
    prop_oneof![
        8 => (0..2u16).prop_map(Step::Attach),
        3 => at.clone().prop_map(Step::Detach),
        8 => at.clone().prop_map(Step::Submit),
        6 => at.clone().prop_map(Step::Drain),
        1 => at.clone().prop_map(Step::Suspend),
        1 => at.clone().prop_map(Step::Lose),
        2 => at.clone().prop_map(Step::Again),
        2 => (at.clone(), at.clone()).prop_map(|(waiter, target)| Step::Wait(waiter, target)),
        2 => (at.clone(), -256..256).prop_map(|(at, priority)| Step::Hint(at, priority)),
        2 => at.prop_map(Step::Burst),
        1 => Just(Step::ReconsiderAll),
        1 => Just(Step::InvalidateAll),
        1 => Just(Step::Switch),
        4 => Just(Step::Decide),
    ]
}

/// A scheduler, what its queues report, and what must have changed.
struct Account {
    s: Scheduler<Puppet, Inline<ROOM, 2, 4>>,
    puppet: Puppet,
    now: Instant,
    queues: Vec<(QueueId, Report)>,
    changed: BTreeSet<QueueId>,
    all: bool,
}

impl Account {
    fn new() -> Self {
        let puppet = Puppet::default();
        let s = Scheduler::new(puppet.clone(), Inline::new());
        let (queues, changed) = (Vec::new(), BTreeSet::new());
        Self { s, puppet, now: Instant::from_ns(1), queues, changed, all: true }
    }

    fn ready(&self) -> BTreeSet<QueueId> {
        self.s.table().iter().filter(|info| info.ready).map(|info| info.id).collect()
    }

    fn attach(&mut self, device: u16) {
        let attach = Attach { device: DeviceId(device), ..Attach::default() };
        if let Ok(id) = self.s.attach(self.now, attach) {
            self.queues.push((id, Report::default()));
            self.changed.insert(id);
        }
    }

    fn report(&mut self, at: usize, change: impl FnOnce(&mut Report)) {
        if let Some((id, report)) = self.queues.get_mut(at) {
            change(report);
            self.s.handle_report(self.now, *id, report).unwrap();
        }
    }

    fn submit(&mut self, at: usize) {
        let now = self.now;
        self.report(at, |report| {
            if !report.pending() {
                report.ready_since = now;
            }
            report.submitted += 1;
        });
    }

    fn drain(&mut self, at: usize) {
        self.report(at, |report| {
            (report.launched, report.retired) = (report.submitted, report.submitted);
            report.waiting = None;
        });
    }

    fn again(&mut self, at: usize) {
        let Some((id, _)) = self.queues.get(at).copied() else { return };
        if self.s.table().get(id).is_some_and(|info| info.ready) {
            let now = self.now;
            self.report(at, |report| report.ready_since = now);
            if self.s.table().get(id).is_some_and(|info| info.ready) {
                self.changed.insert(id);
            }
        }
    }

    fn wait(&mut self, waiter: usize, target: usize) {
        let Some((queue, report)) = self.queues.get(target).copied() else { return };
        let event = EventRef { queue, cmd: CmdId(report.submitted) };
        self.report(waiter, |report| {
            report.submitted = report.submitted.max(report.retired + 1);
            report.waiting = Some(event);
        });
    }

    fn hint(&mut self, at: usize, priority: i32) {
        if let Some((id, _)) = self.queues.get(at) {
            self.s.set_hints(self.now, *id, hints(priority)).unwrap();
            self.changed.insert(*id);
        }
    }

    fn lose(&mut self, at: usize) {
        if self.queues.get(at).is_some_and(|(_, report)| !report.lost) {
            self.report(at, |report| report.lost = true);
            self.changed.extend(self.queues.get(at).map(|(id, _)| *id));
        }
    }

    fn detach(&mut self, at: usize) {
        if at < self.queues.len() {
            let (id, _) = self.queues.swap_remove(at);
            self.s.detach(self.now, id).unwrap();
            self.changed.remove(&id);
        }
    }

    fn step(&mut self, step: &Step) {
        self.now += Duration::from_ns(1);
        let before = self.ready();
        match *step {
            Step::Attach(device) => self.attach(device),
            Step::Detach(at) => self.detach(at),
            Step::Submit(at) => self.submit(at),
            Step::Drain(at) => self.drain(at),
            Step::Suspend(at) => self.report(at, |report| report.suspended ^= true),
            Step::Lose(at) => self.lose(at),
            Step::Again(at) => self.again(at),
            Step::Wait(waiter, target) => self.wait(waiter, target),
            Step::Hint(at, priority) => self.hint(at, priority),
            Step::Burst(count) => (0..count).for_each(|at| self.submit(at)),
            Step::ReconsiderAll => {
                self.s.reconsider_all();
                self.all = true;
            }
            Step::InvalidateAll => {
                self.s.invalidate_all();
                self.all = true;
                self.changed.extend(self.queues.iter().map(|(id, _)| *id));
            }
            Step::Switch => {
                self.s.set_policy(self.puppet.clone());
                self.all = true;
            }
            Step::Decide => {}
        }
        let there = |id: &&QueueId| self.s.table().get(**id).is_some();
        let flipped: Vec<_> =
            before.symmetric_difference(&self.ready()).filter(there).copied().collect();
        self.changed.extend(flipped);
    }

    /// The bits of ready queues are those of the queues that are ready.
    fn compare_ready(&self) {
        let table = self.s.table();
        let plain: Vec<_> = table.iter().filter(|info| info.ready).map(|info| info.id).collect();
        assert_eq!(table.ready().map(|info| info.id).collect::<Vec<_>>(), plain);
        for device in table.devices() {
            let plain = table.on_device(device).filter(|info| info.ready).map(|info| info.id);
            let ready = table.ready_on(device).map(|info| info.id);
            assert_eq!(ready.collect::<Vec<_>>(), plain.collect::<Vec<_>>());
        }
    }

    fn decide(&mut self) {
        let decisions = self.s.stats().decisions;
        while self.s.poll_order(self.now).is_some() {}
        let changed = core::mem::take(&mut self.changed);
        let all = core::mem::take(&mut self.all);
        if self.s.stats().decisions == decisions {
            return assert!(changed.is_empty() && !all, "not asked about {changed:?}");
        }
        let strings = self.puppet.0.borrow();
        assert_eq!(strings.asked.is_none(), all, "asked about everything");
        let looked = &strings.looked;
        let sorted: BTreeSet<_> = looked.iter().copied().collect();
        assert_eq!(looked.len(), sorted.len(), "each once");
        if all {
            assert_eq!(sorted, &changed | &self.ready());
        } else {
            assert_eq!(sorted, changed);
        }
        if all || changed.len() > CHANGED_MAX {
            assert!(looked.is_sorted_by_key(|id| id.index()), "not in table order: {looked:?}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_ready_and_what_changed_is_known(
        steps in prop::collection::vec(step(), 1..400),
        first in 0..ROOM,
    ) {
        let mut account = Account::new();
        for _ in 0..first {
            account.attach(0);
        }
        for step in &steps {
            account.step(step);
            account.compare_ready();
            if matches!(step, Step::Decide) {
                account.decide();
            }
        }
        account.decide();
    }
}

/// A queue that leaves takes its bits along; those of other queues, in its slot, stay.
#[test]
fn bits_of_others_stay_when_a_slot_changes_hands() {
    let mut account = Account::new();
    for at in 0..100 {
        account.attach(0);
        account.submit(at);
    }
    // Slot 0 has the bits of the first 32.
    account.detach(0);
    account.compare_ready();
    account.attach(1);
    account.compare_ready();
    account.decide();
    assert_eq!(account.s.table().ready().count(), 99);
    assert_eq!(account.s.table().ready_on(DeviceId(1)).count(), 0);
}

#[test]
fn priorities_are_equal_until_one_differs_on_a_device() {
    let mut rig = Rig::new();
    let [one, other] = [0, 0].map(|priority| rig.attach(priority));
    assert!(rig.s.are_priorities_equal());
    rig.s.set_hints(rig.now, other, hints(5)).expect("in the table");
    assert!(!rig.s.are_priorities_equal());
    rig.s.set_hints(rig.now, one, hints(5)).expect("in the table");
    assert!(rig.s.are_priorities_equal());
    let third = rig.attach(-3);
    assert!(!rig.s.are_priorities_equal());
    rig.detach(third);
    assert!(rig.s.are_priorities_equal());
}
