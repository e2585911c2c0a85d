//! Deadline and class policies against what they say of themselves, after any events.

use std::collections::BTreeMap;

use proptest::prelude::*;
use xsched_core::hint::{Hints, Laxity, PolicyHint, Priority};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::message::Report;
use xsched_core::policy::{MayHold, Policy};
use xsched_core::scheduler::{Attach, Heap, QueueInfo, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_policies::Any;

const DEVICES: u16 = 2;

#[derive(Clone, Debug)]
enum Step {
    Attach {
        device: u16,
        hints: u8,
    },
    Detach(usize),
    Ready(usize),
    Idle(usize),
    Hint(usize, u8),
    K(u32),
    Pass(u64),
    /// Let the scheduler decide. Without it events pile up, until a decision is a full one.
    Decide,
}

fn step() -> impl Strategy<Value = Step> {
    let queue = 0..200usize;
    prop_oneof![
        6 => (0..DEVICES, any::<u8>()).prop_map(|(device, hints)| Step::Attach { device, hints }),
        1 => queue.clone().prop_map(Step::Detach),
        8 => queue.clone().prop_map(Step::Ready),
        6 => queue.clone().prop_map(Step::Idle),
        2 => (queue, any::<u8>()).prop_map(|(queue, hints)| Step::Hint(queue, hints)),
        1 => (1..5u32).prop_map(Step::K),
        2 => (0..40u64).prop_map(Step::Pass),
        3 => Just(Step::Decide),
    ]
}

/// Hints of all kinds from a byte; few values, so that there are ties.
fn hints(byte: u8) -> Hints {
    let mut hints = Hints::default();
    let priority = [-256, -3, 0, 0, 0, 2, 5, 255][usize::from(byte % 8)];
    hints.priority = Priority::new(priority).unwrap();
    if byte & 8 != 0 {
        hints.set_deadline(Duration::from_ms(u64::from(byte / 16) % 4 + 1)).unwrap();
    }
    if byte & 16 != 0 {
        let lax_priority = Priority::new(i32::from(byte / 32) % 3 - 1).unwrap();
        let critical_priority = Priority::new(if byte & 64 == 0 { 4 } else { -256 }).unwrap();
        let lax = Duration::from_ms(u64::from(byte / 64) * 5 + 1);
        hints.set_laxity(Laxity { lax, lax_priority, critical_priority }).unwrap();
    }
    hints.active_window = byte & 32 != 0;
    hints.set_cpu_priority(i16::from(byte / 8 % 4)).unwrap();
    hints
}

/// Key of a ready queue: the lower, the sooner it runs; nothing if it must not.
type Key = fn(Instant, &QueueInfo) -> Option<u64>;

fn by_deadline(_: Instant, info: &QueueInfo) -> Option<u64> {
    let span = info.hints.deadline.unwrap_or(Duration::from_ms(86_400_000));
    Some((info.report.ready_since + span).as_ns())
}

/// Strict classes are above these bits.
const CLASS_AT: u32 = 48;

fn by_class_and_deadline(now: Instant, info: &QueueInfo) -> Option<u64> {
    let class = Priority::MAX.rank() - info.hints.priority.rank();
    by_deadline(now, info).map(|deadline| (class as u64) << CLASS_AT | deadline)
}

fn by_thread(_: Instant, info: &QueueInfo) -> Option<u64> {
    Some(200 - info.hints.cpu_priority as u64)
}

fn by_laxity(now: Instant, info: &QueueInfo) -> Option<u64> {
    let priority = match info.hints.laxity {
        Some(laxity) if !info.ready || now < info.report.ready_since + laxity.lax => {
            laxity.lax_priority
        }
        Some(laxity) => laxity.critical_priority,
        None => info.hints.priority,
    };
    (priority != Priority::NO_EXECUTE).then(|| 1_000 - priority.rank() as u64)
}

fn by_window(_: Instant, info: &QueueInfo) -> Option<u64> {
    Some(u64::from(!info.hints.active_window))
}

struct Rig {
    scheduler: Scheduler<Any, Heap>,
    queues: Vec<(QueueId, Report)>,
    now: Instant,
    k: u32,
}

impl Rig {
    fn new(policy: &str) -> Self {
        let policy: Any = policy.parse().unwrap();
        let mut scheduler = Scheduler::new(policy, Heap::new(256, usize::from(DEVICES), 0));
        // Its queues do not say what they retire.
        scheduler.hint_policy(PolicyHint::Stall(None));
        Self { scheduler, queues: Vec::new(), now: Instant::from_ns(1), k: 1 }
    }

    fn report(&mut self, at: usize, change: impl FnOnce(&mut Report, Instant)) {
        let count = self.queues.len().max(1);
        if let Some((id, report)) = self.queues.get_mut(at % count) {
            change(report, self.now);
            let _ = self.scheduler.handle_report(self.now, *id, report);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Attach { device, hints: byte } => {
                let attach =
                    Attach { device: DeviceId(device), hints: hints(byte), ..Attach::default() };
                if let Ok(id) = self.scheduler.attach(self.now, attach) {
                    self.queues.push((id, Report::default()));
                }
            }
            Step::Detach(at) if !self.queues.is_empty() => {
                let (id, _) = self.queues.swap_remove(at % self.queues.len());
                self.scheduler.detach(self.now, id).unwrap();
            }
            Step::Ready(at) => self.report(at, |report, now| {
                if report.submitted == report.retired {
                    report.ready_since = now;
                    report.submitted += 1;
                }
            }),
            Step::Idle(at) => self.report(at, |report, _| {
                (report.launched, report.retired) = (report.submitted, report.submitted);
            }),
            Step::Hint(at, byte) if !self.queues.is_empty() => {
                let (id, _) = self.queues[at % self.queues.len()];
                self.scheduler.set_hints(self.now, id, hints(byte)).unwrap();
            }
            Step::K(k) if self.scheduler.hint_policy(PolicyHint::k(k).unwrap()) => self.k = k,
            Step::Pass(ms) => {
                self.now += Duration::from_ms(ms);
                self.scheduler.handle_timeout(self.now);
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        self.scheduler.handle_timeout(self.now);
        while self.scheduler.poll_order(self.now).is_some() {}
        let (policy, table) = (self.scheduler.policy(), self.scheduler.table());
        let may_hold = policy.needs().may_hold;
        assert!(
            may_hold != MayHold::Nothing || table.iter().all(|info| info.running),
            "it holds one"
        );
        let mut first = BTreeMap::new();
        for info in table.iter().filter(|info| info.hints.priority != Priority::NO_EXECUTE) {
            let highest = first.entry(info.device).or_insert(info.hints.priority);
            *highest = info.hints.priority.max(*highest);
        }
        let is_first = |info: &QueueInfo| first.get(&info.device) == Some(&info.hints.priority);
        let mut firsts = table.iter().filter(|info| is_first(info));
        assert!(
            may_hold != MayHold::Lower || firsts.all(|info| info.running),
            "it holds a first one"
        );
    }

    /// The ready queues with a key, for each device, and whether they run. Idle ones are held only
    /// if one runs that is better than their best.
    fn ready(&self, key: Key, best: fn(u64) -> u64) -> BTreeMap<DeviceId, Vec<(u64, bool)>> {
        let mut devices: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut held = Vec::new();
        for info in self.scheduler.table().iter() {
            let runs = info.hints.priority != Priority::NO_EXECUTE;
            match key(self.now, info).filter(|_| runs) {
                Some(key) if info.ready => {
                    devices.entry(info.device).or_default().push((key, info.running));
                }
                Some(key) if !info.running => held.push((info.device, key)),
                Some(_) => {}
                None => assert!(!info.running, "must not run: {info:?}"),
            }
        }
        for (device, key) in held {
            let ready = devices.get(&device).map_or(&[][..], Vec::as_slice);
            let better = ready.iter().any(|(other, running)| *running && *other < best(key));
            assert!(better, "idle and held with {key} on {device:?}: {ready:?}");
        }
        devices
    }

    fn assert_top(&self, key: Key) {
        for (device, mut queues) in self.ready(key, |key| key >> CLASS_AT << CLASS_AT) {
            queues.sort_unstable();
            let mut running: Vec<_> = queues.iter().filter(|q| q.1).map(|q| q.0).collect();
            running.sort_unstable();
            let first = queues[0].0 >> CLASS_AT;
            let class = queues.iter().map(|q| q.0).filter(|key| key >> CLASS_AT == first);
            let best: Vec<_> = class.take(self.k as usize).collect();
            assert_eq!(running, best, "{device:?} of {queues:?}");
        }
    }

    fn assert_class(&self, key: Key) {
        for (device, queues) in self.ready(key, |key| key) {
            let best = queues.iter().map(|q| q.0).min();
            for (key, running) in &queues {
                assert_eq!(Some(*key) == best, *running, "{device:?}: {queues:?}");
            }
        }
    }
}

fn follow(policy: &str, steps: &[Step], check: impl Fn(&Rig)) {
    let mut rig = Rig::new(policy);
    for step in steps {
        rig.step(step);
        if matches!(step, Step::Decide) {
            rig.settle();
            check(&rig);
        }
    }
    rig.settle();
    check(&rig);
}

proptest! {
    #[test]
    fn the_k_earliest_deadlines_run(steps in prop::collection::vec(step(), 1..300)) {
        follow("edf", &steps, |rig| rig.assert_top(by_deadline));
        follow("kedf", &steps, |rig| rig.assert_top(by_deadline));
    }

    #[test]
    fn the_k_earliest_of_the_highest_class_run(steps in prop::collection::vec(step(), 1..300)) {
        follow("strict_edf", &steps, |rig| rig.assert_top(by_class_and_deadline));
        follow("strict_kedf", &steps, |rig| rig.assert_top(by_class_and_deadline));
    }

    #[test]
    fn who_has_the_most_urgent_thread_runs(steps in prop::collection::vec(step(), 1..300)) {
        follow("chpf", &steps, |rig| rig.assert_class(by_thread));
    }

    #[test]
    fn the_highest_priority_of_the_moment_runs(steps in prop::collection::vec(step(), 1..300)) {
        follow("lax", &steps, |rig| rig.assert_class(by_laxity));
    }

    #[test]
    fn the_active_window_runs(steps in prop::collection::vec(step(), 1..300)) {
        follow("awf", &steps, |rig| rig.assert_class(by_window));
    }

    #[test]
    fn none_of_the_highest_priority_is_held(steps in prop::collection::vec(step(), 1..300)) {
        let lower = |rig: &Rig| rig.scheduler.policy().needs().may_hold == MayHold::Lower;
        follow("hpf", &steps, |rig| assert!(lower(rig)));
    }

    #[test]
    fn one_priority_runs_on_all_devices(steps in prop::collection::vec(step(), 1..300)) {
        follow("hhpf", &steps, |rig| {
            let table = rig.scheduler.table();
            let rank = |info: &QueueInfo| info.hints.priority;
            let exec = |info: &&QueueInfo| rank(info) != Priority::NO_EXECUTE;
            let top = table.iter().filter(|info| info.ready).filter(exec).map(rank).max();
            for info in table.iter() {
                let runs = exec(&info) && rank(info) >= top.unwrap_or(Priority::MIN);
                assert_eq!(runs, info.running, "{info:?}");
            }
        });
    }
}

/// KEDF of the C++ library counts idle queues and those of other devices.
#[test]
fn places_are_for_ready_queues_and_per_device() {
    let mut rig = Rig::new("kedf");
    for device in [0, 0, 1] {
        rig.step(&Step::Attach { device, hints: 10 });
    }
    // The first has the earliest deadline and is idle; the second and the third are ready.
    for at in [0, 1, 2] {
        rig.step(&Step::Ready(at));
        rig.step(&Step::Pass(1));
    }
    rig.step(&Step::Idle(0));
    rig.settle();
    assert!(rig.scheduler.table().iter().all(|info| info.running));
}

/// Queues of the policy need no gates then.
#[test]
fn as_many_queues_as_run_at_a_time_are_not_held() {
    let mut rig = Rig::new("kedf");
    let holds = |rig: &mut Rig, step: Step| {
        rig.step(&step);
        rig.settle();
        rig.scheduler.policy().needs().may_hold != MayHold::Nothing
    };
    rig.step(&Step::K(2));
    assert!(!holds(&mut rig, Step::Attach { device: 0, hints: 10 }));
    assert!(!holds(&mut rig, Step::Attach { device: 0, hints: 10 }));
    assert!(holds(&mut rig, Step::Attach { device: 0, hints: 10 }));
    assert!(!holds(&mut rig, Step::Detach(2)));
    assert!(holds(&mut rig, Step::K(1)));
    assert!(!holds(&mut rig, Step::K(2)));
    let mut never = Hints::default();
    never.priority = Priority::NO_EXECUTE;
    rig.scheduler.set_hints(rig.now, rig.queues[0].0, never).unwrap();
    rig.settle();
    assert!(rig.scheduler.policy().needs().may_hold != MayHold::Nothing);
}

/// At equal deadlines no queue changes its place, however often the scheduler is asked.
#[test]
fn ties_do_not_flap() {
    let mut rig = Rig::new("edf");
    for at in 0..3 {
        rig.step(&Step::Attach { device: 0, hints: 10 });
        rig.step(&Step::Ready(at));
    }
    rig.settle();
    let orders = rig.scheduler.stats().orders;
    for _ in 0..10 {
        rig.scheduler.reconsider_all();
        rig.settle();
    }
    assert_eq!(rig.scheduler.stats().orders, orders);
}

/// A policy that takes over looks at few queues: those that are held while idle are among them.
#[test]
fn who_takes_over_holds_idle_queues_that_must_not_run() {
    for name in Any::NAMES.iter().filter(|name| **name != "fcfs") {
        let mut rig = Rig::new("fcfs");
        for hints in [0, 3, 3] {
            rig.step(&Step::Attach { device: 0, hints });
        }
        let never = Priority::NO_EXECUTE;
        let lax = Duration::from_ms(5);
        let mut hints = Hints::default();
        hints.set_laxity(Laxity { lax, lax_priority: never, critical_priority: never }).unwrap();
        rig.scheduler.set_hints(rig.now, rig.queues[1].0, hints).unwrap();
        rig.settle();
        rig.scheduler.set_policy(name.parse().unwrap());
        rig.settle();
        let running: Vec<_> = rig.scheduler.table().iter().map(|info| info.running).collect();
        assert_eq!(running, [false, *name != "lax", true], "{name}");
    }
}

/// Choices under ageing are forgotten without it, so that they are no news when ageing is back.
#[test]
fn ageing_comes_back_to_no_old_choices() {
    let mut rig = Rig::new("hpf");
    for hints in [6, 3, 3] {
        rig.step(&Step::Attach { device: 0, hints });
    }
    let ageing = |rig: &mut Rig, age: Option<Duration>| {
        assert!(rig.scheduler.hint_policy(PolicyHint::ageing(age).unwrap()));
        rig.settle();
    };
    ageing(&mut rig, Some(Duration::from_ms(50)));
    rig.step(&Step::Ready(0));
    rig.step(&Step::Ready(1));
    rig.settle();
    ageing(&mut rig, None);
    rig.step(&Step::Idle(0));
    rig.settle();
    ageing(&mut rig, Some(Duration::from_ms(50)));
    rig.step(&Step::Ready(2));
    rig.settle();
    assert!(rig.scheduler.table().iter().all(|info| info.running));
}
