//! Needs that the policy trait must be able to carry, each shown by a built-in policy, or by a
//! small one if none has it. They run in a real scheduler, and what counts is the orders that come
//! out.

use xsched_core::hint::{Hints, Laxity, PolicyHint, Priority};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::message::{Claim, Order, Report};
use xsched_core::policy::{
    Changed, Decisions, Event, MayHold, Policy, Urgency, Verdict, policy_state,
};
use xsched_core::scheduler::{Attach, Heap, QueueInfo, QueueTable, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_policies::{Any, UnknownPolicy};

const HOLD: Verdict = Verdict::Hold(Urgency::NOW);

const fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn at(n: u64) -> Instant {
    Instant::ZERO + ms(n)
}

/// A scheduler under a policy, and the reports of its queues.
struct Rig<P> {
    scheduler: Scheduler<P, Heap>,
    queues: Vec<(QueueId, Report)>,
    now: Instant,
}

impl Rig<Any> {
    fn builtin(name: &str) -> Self {
        Self::new(name.parse().expect("a known name"))
    }
}

impl<P: Policy> Rig<P> {
    fn new(policy: P) -> Self {
        let mut scheduler = Scheduler::new(policy, Heap::new(8, 2, 8));
        // Its queues do not say what they retire.
        scheduler.hint_policy(PolicyHint::Stall(None));
        Self { scheduler, queues: Vec::new(), now: Instant::ZERO }
    }

    fn attach(&mut self, hints: Hints) -> usize {
        self.attach_as(Attach { hints, ..Attach::default() })
    }

    fn attach_with(&mut self, priority: i32) -> usize {
        self.attach(Hints::with_priority(Priority::new(priority).unwrap()))
    }

    fn runs(&self, n: usize) -> bool {
        self.scheduler.table().get(self.queues[n].0).unwrap().running
    }

    fn attach_as(&mut self, attach: Attach) -> usize {
        let queue = self.scheduler.attach(self.now, attach).expect("room");
        self.queues.push((queue, Report::default()));
        self.queues.len() - 1
    }

    fn report(&mut self, n: usize, change: impl FnOnce(&mut Report)) {
        let (queue, report) = &mut self.queues[n];
        change(report);
        self.scheduler.handle_report(self.now, *queue, report).expect("a sensible report");
    }

    fn ready(&mut self, n: usize) {
        let now = self.now;
        self.report(n, |r| (r.submitted, r.ready_since) = (r.submitted + 100, now));
    }

    fn idle(&mut self, n: usize) {
        self.report(n, |r| (r.launched, r.retired) = (r.submitted, r.submitted));
    }

    /// Time goes on, with the timer if one is due.
    fn wait_until(&mut self, then: Instant) -> String {
        self.now = then;
        self.scheduler.handle_timeout(then);
        self.orders()
    }

    /// The verdicts that are ordered now, by queue: `+1` runs, `-0` holds.
    fn orders(&mut self) -> String {
        let mut words = Vec::new();
        while let Some((queue, order)) = self.scheduler.poll_order(self.now) {
            let n = self.queues.iter().position(|(q, _)| *q == queue).expect("one of ours");
            match order {
                Order::Run { .. } => words.push(format!("+{n}")),
                Order::Hold { .. } => words.push(format!("-{n}")),
                _ => {}
            }
        }
        words.sort_unstable();
        // Whatever a policy decided, deciding again must change nothing.
        self.scheduler.reconsider_all();
        assert_eq!(self.scheduler.poll_order(self.now), None, "not idempotent");
        self.scheduler.invalidate_all();
        assert_eq!(self.scheduler.poll_order(self.now), None, "not the same for all queues");
        words.join(" ")
    }
}

/// Sets the verdict of every queue by a rule.
fn each(
    queues: &QueueTable<'_>,
    out: &mut Decisions<'_>,
    mut runs: impl FnMut(&QueueInfo) -> bool,
) {
    for queue in queues.iter() {
        out.set(queue.id, if runs(queue) { Verdict::Run } else { HOLD });
    }
}

// Timers: one queue after the other, a timeslice each.

#[test]
fn timers_make_queues_take_turns() {
    let mut rig = Rig::builtin("hpf");
    assert!(rig.scheduler.hint_policy(PolicyHint::timeslice(ms(2)).unwrap()));
    for _ in 0..3 {
        let queue = rig.attach(Hints::default());
        rig.ready(queue);
    }
    assert_eq!(rig.orders(), "-1 -2");
    assert_eq!(rig.scheduler.poll_timeout(), Some(at(2)));
    assert_eq!(rig.wait_until(at(1)), "", "not yet");
    assert_eq!(rig.wait_until(at(2)), "+2 -0");
    assert_eq!(rig.wait_until(at(4)), "+1 -2");
    assert_eq!(rig.wait_until(at(6)), "+0 -1");
    rig.idle(2);
    assert_eq!(rig.orders(), "");
    assert_eq!(rig.wait_until(at(8)), "+1 -0", "the idle one is passed over");
    rig.idle(1);
    assert_eq!(rig.orders(), "+0 -1", "a turn ends early when there is nothing to do");
    assert!(rig.scheduler.hint_policy(PolicyHint::timeslice(ms(50)).unwrap()));
    assert!(!rig.scheduler.hint_policy(PolicyHint::K(2)));
}

// Grouping by process: all queues of the favoured process run, or all queues if it is idle.

struct Favoured(ProcessId);

impl Policy for Favoured {
    fn name(&self) -> &'static str {
        "favoured"
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let busy = queues.of_process(self.0).any(|queue| queue.ready);
        each(queues, out, |queue| !busy || queue.process == self.0);
    }
}

#[test]
fn queues_are_grouped_by_process() {
    let mut rig = Rig::new(Favoured(ProcessId(7)));
    for process in [7, 3, 7, 5] {
        let process = ProcessId(process);
        let queue = rig.attach_as(Attach { process, ..Attach::default() });
        if process.0 != 7 {
            rig.ready(queue);
        }
    }
    assert_eq!(rig.orders(), "");
    rig.ready(2);
    assert_eq!(rig.orders(), "-1 -3", "one queue of the process is enough");
    rig.ready(0);
    rig.idle(2);
    assert_eq!(rig.orders(), "");
    rig.idle(0);
    assert_eq!(rig.orders(), "+1 +3");
}

// Deadlines: of the ready queues of a device the K with the earliest deadlines run.

#[test]
fn deadlines_count_from_readiness() {
    let mut rig = Rig::builtin("kedf");
    let deadline = |span| {
        let mut hints = Hints::default();
        hints.deadline = span;
        hints
    };
    let slow = rig.attach(deadline(Some(ms(100))));
    let fast = rig.attach(deadline(Some(ms(20))));
    let none = rig.attach(deadline(None));
    rig.ready(none);
    assert_eq!(rig.orders(), "", "idle queues are left alone");
    rig.ready(slow);
    assert_eq!(rig.orders(), "-2");
    rig.now = at(79);
    rig.ready(fast);
    assert_eq!(rig.orders(), "-0", "due at 99 ms, before 100 ms");
    rig.idle(fast);
    rig.now = at(81);
    assert_eq!(rig.orders(), "+0");
    rig.ready(fast);
    assert_eq!(rig.orders(), "-1", "due at 101 ms this time");
    assert!(rig.scheduler.hint_policy(PolicyHint::K(2)));
    assert_eq!(rig.orders(), "+1");
}

// Laxity: a queue has one priority until it has been ready for a while, and another from then on.

#[test]
fn laxity_turns_into_urgency_when_time_has_passed() {
    let mut rig = Rig::builtin("lax");
    let frames = rig.attach(Hints::with_priority(Priority::new(5).unwrap()));
    let mut hints = Hints::default();
    hints.laxity = Some(Laxity {
        lax: ms(300),
        lax_priority: Priority::new(-5).unwrap(),
        critical_priority: Priority::MAX,
    });
    let transcription = rig.attach(hints);
    rig.ready(transcription);
    assert_eq!(rig.orders(), "");
    rig.now = at(7);
    rig.ready(frames);
    assert_eq!(rig.orders(), "-1");
    assert_eq!(rig.scheduler.poll_timeout(), Some(at(300)));
    assert_eq!(rig.wait_until(at(299)), "");
    assert_eq!(rig.wait_until(at(300)), "+1 -0");
    rig.idle(transcription);
    assert_eq!(rig.orders(), "+0");
    rig.ready(transcription);
    assert_eq!(rig.orders(), "-1", "lax again");
    assert_eq!(rig.scheduler.poll_timeout(), Some(at(600)));
}

// The policy's own words: the number of times that each queue may become ready.

struct Budget;

policy_state! {
    #[derive(PartialEq, Eq)]
    struct Rounds {
        left: u32,
        done: u64,
        last: u64,
    }
}

impl Policy for Budget {
    fn name(&self) -> &'static str {
        "budget"
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let Some(state) = queues.state(queue) else { return };
        let Rounds { left, done, .. } = state.get();
        match event {
            Event::Attached => state.set(Rounds { left: 2, done: 0, last: u64::MAX }),
            Event::Ready => state.update(|rounds: &mut Rounds| {
                (rounds.left, rounds.done) = (left.saturating_sub(1), done + 1);
            }),
            Event::Hinted => {
                let weight = queues.get(queue).map_or(0, |info| info.hints.weight);
                state.set(Rounds { left: weight, done: 0, last: 0 });
            }
            _ => {}
        }
    }

    fn decide(
        &mut self,
        _: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let mut judge = |queue: QueueId| {
            if let Some(state) = queues.state::<Rounds>(queue) {
                out.set(queue, if state.get().left > 0 { Verdict::Run } else { HOLD });
            }
        };
        match changed {
            Changed::Some { queues, .. } => queues.iter().for_each(&mut judge),
            Changed::All => queues.iter().for_each(|queue| judge(queue.id)),
        }
    }
}

#[test]
fn each_queue_has_a_state_for_the_policy() {
    let mut rig = Rig::new(Budget);
    let a = rig.attach(Hints::default());
    let b = rig.attach(Hints::default());
    for _ in 0..2 {
        assert_eq!(rig.orders(), "");
        rig.ready(a);
        rig.idle(a);
    }
    assert_eq!(rig.orders(), "-0");
    rig.ready(b);
    assert_eq!(rig.orders(), "");
    let (id, _) = rig.queues[a];
    assert_eq!(
        rig.scheduler.table().state::<Rounds>(id).unwrap().get(),
        Rounds { left: 0, done: 2, last: u64::MAX }
    );
    let mut hints = Hints::default();
    hints.set_weight(4).unwrap();
    rig.scheduler.set_hints(rig.now, id, hints).unwrap();
    assert_eq!(rig.orders(), "+0");
    rig.scheduler.detach(rig.now, id).unwrap();
    let again = rig.attach(Hints::default());
    let (id, _) = rig.queues[again];
    assert_eq!(
        rig.scheduler.table().state::<Rounds>(id).unwrap().get(),
        Rounds { left: 2, done: 0, last: u64::MAX }
    );
}

// Floors and verdicts together, per device: the active window goes first everywhere.

struct ActiveWindow;

impl Policy for ActiveWindow {
    fn name(&self) -> &'static str {
        "active_window"
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        for device in queues.devices() {
            let active = queues.on_device(device).any(|q| q.ready && q.hints.active_window);
            let floor = active.then_some(Priority::DEFAULT);
            out.floor(device, floor, Urgency::within(ms(1)));
            for queue in queues.on_device(device) {
                let runs = !active || queue.hints.active_window;
                let later = Verdict::Hold(Urgency::WHENEVER);
                out.set(queue.id, if runs { Verdict::Run } else { later });
            }
        }
    }
}

#[test]
fn floors_and_verdicts_work_together_per_device() {
    let mut rig = Rig::new(ActiveWindow);
    let mut hints = Hints::default();
    hints.active_window = true;
    let window = rig.attach(hints);
    hints.priority = Priority::new(-3).unwrap();
    let low_window = rig.attach(hints);
    let other = rig.attach(Hints::with_priority(Priority::MAX));
    let device = DeviceId(1);
    let elsewhere = rig.attach_as(Attach { device, ..Attach::default() });
    for queue in [other, elsewhere] {
        rig.ready(queue);
    }
    assert_eq!(rig.orders(), "");
    rig.ready(window);
    assert_eq!(rig.orders(), "-1 -2", "below the floor, and outside the window");
    rig.idle(window);
    assert_eq!(rig.orders(), "+1 +2");
    rig.ready(low_window);
    assert_eq!(rig.orders(), "-1 -2", "a policy may hold even what it is about");
}

#[test]
fn a_borrowed_policy_is_a_policy() {
    let mut policy: Any = "kedf".parse().unwrap();
    {
        let mut rig = Rig::new(&mut policy);
        let [first, second] = [(); 2].map(|()| rig.attach(Hints::default()));
        rig.ready(first);
        rig.ready(second);
        assert_eq!(rig.orders(), "-1");
        assert_eq!(rig.scheduler.policy().name(), "kedf");
        assert!(rig.scheduler.hint_policy(PolicyHint::K(2)));
        assert_eq!(rig.orders(), "+1");
        rig.scheduler.detach(rig.now, rig.queues[first].0).unwrap();
        rig.orders();
        assert_eq!(rig.scheduler.policy().needs().may_hold, MayHold::Nothing);
    }
    assert_eq!(policy.needs().may_hold, MayHold::Nothing);
}

// The built-in ones by name.

#[test]
fn every_name_is_a_policy_in_any_case() {
    for name in Any::NAMES {
        let policy: Any = name.parse().unwrap();
        assert_eq!(policy.name(), *name);
        assert_eq!(name.to_uppercase().parse::<Any>().unwrap().name(), *name);
        assert!(UnknownPolicy.to_string().contains(name));
    }
    assert_eq!("nonsense".parse::<Any>().unwrap_err(), UnknownPolicy);
    assert!("".parse::<Any>().is_err());
}

#[test]
fn first_come_first_served_orders_nothing() {
    let mut rig = Rig::builtin("fcfs");
    for priority in [-256, 0, 9] {
        let queue = rig.attach_with(priority);
        rig.ready(queue);
    }
    assert_eq!(rig.orders(), "");
    assert_eq!(rig.scheduler.policy().needs().may_hold, MayHold::Nothing);
    assert!(!rig.scheduler.hint_policy(PolicyHint::K(1)));
}

#[test]
fn highest_priority_first_holds_the_others_of_its_device() {
    let mut rig = Rig::builtin("hpf");
    let needs = rig.scheduler.policy().needs();
    assert_eq!((needs.may_hold, needs.progress_every), (MayHold::Lower, None));
    let [low, high] = [1, 5].map(|priority| rig.attach_with(priority));
    let elsewhere = rig.attach_as(Attach { device: DeviceId(1), ..Attach::default() });
    [low, high, elsewhere].into_iter().for_each(|queue| rig.ready(queue));
    assert_eq!(rig.orders(), "-0");
    rig.scheduler.detach(rig.now, rig.queues[high].0).unwrap();
    assert_eq!(rig.orders(), "+0");
}

#[test]
fn one_that_is_bound_by_its_host_takes_no_turns_with_those_beside_it() {
    let mut rig = Rig::builtin("hpf");
    assert!(rig.scheduler.hint_policy(PolicyHint::Timeslice(ms(10))));
    let [high, low, other] = [5, 1, 1].map(|priority| rig.attach_with(priority));
    rig.report(high, |report| (report.submitted, report.claim) = (1, Claim::Little));
    rig.ready(low);
    rig.ready(other);
    for now in 0..50 {
        rig.wait_until(at(now));
        let runs = [high, low, other].map(|queue| rig.runs(queue));
        assert!(runs[0] && (runs[1] ^ runs[2]), "{runs:?} after {now} ms");
    }
}

#[test]
fn policies_can_be_switched_while_they_work() {
    let mut rig = Rig::builtin("fcfs");
    let [low, high] = [1, 5].map(|priority| rig.attach_with(priority));
    rig.ready(low);
    rig.ready(high);
    assert_eq!(rig.orders(), "");
    assert_eq!(rig.scheduler.set_policy("hpf".parse().unwrap()).name(), "fcfs");
    assert!(rig.runs(low), "at the next poll");
    assert_eq!(rig.orders(), "-0");
    assert!(!rig.runs(low));
    rig.scheduler.set_policy("fcfs".parse().unwrap());
    assert_eq!(rig.orders(), "+0");
    assert!(rig.runs(low));
}
