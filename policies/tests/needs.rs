//! What the policy trait must be able to carry, shown by one small policy per need. Each runs in a
//! real scheduler, and what counts is the orders that come out.

use xsched_core::hint::{Hints, Laxity, PolicyHint, Priority};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::message::{Order, Report};
use xsched_core::policy::{Changed, Decisions, Event, Policy, Urgency, Verdict};
use xsched_core::scheduler::{Attach, Heap, QueueInfo, QueueTable, Scheduler};
use xsched_core::time::{Duration, Instant};

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

impl<P: Policy> Rig<P> {
    fn new(policy: P) -> Self {
        let scheduler = Scheduler::new(policy, Heap::new(8, 2, 8));
        Self { scheduler, queues: Vec::new(), now: Instant::ZERO }
    }

    fn attach(&mut self, hints: Hints) -> usize {
        self.attach_as(Attach { hints, ..Attach::default() })
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

    /// The queue has used so much more device time.
    fn use_device(&mut self, n: usize, span: Duration) {
        self.report(n, |r| r.busy += span);
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

struct RoundRobin {
    slice: Duration,
    turn: Option<QueueId>,
    until: Instant,
}

impl RoundRobin {
    fn next(&self, queues: &QueueTable<'_>) -> Option<QueueId> {
        let after = self.turn.map_or(0, |queue| queue.index() + 1);
        let ready = || queues.iter().filter(|q| q.ready).map(|q| q.id);
        ready().find(|q| q.index() >= after).or_else(|| ready().next())
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round_robin"
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(slice) = hint else { return false };
        self.slice = slice;
        true
    }

    fn decide(
        &mut self,
        now: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let over = self.turn.and_then(|q| queues.get(q)).is_none_or(|q| !q.ready);
        if over || now >= self.until {
            self.turn = self.next(queues);
            self.until = now + self.slice;
        }
        let turn = self.turn;
        each(queues, out, |queue| turn.is_none_or(|turn| turn == queue.id));
        if turn.is_some() {
            out.wake_at(self.until);
        }
    }
}

#[test]
fn timers_make_queues_take_turns() {
    let mut rig = Rig::new(RoundRobin { slice: ms(2), turn: None, until: Instant::ZERO });
    for _ in 0..3 {
        let queue = rig.attach(Hints::default());
        rig.ready(queue);
    }
    assert_eq!(rig.orders(), "-1 -2");
    assert_eq!(rig.scheduler.poll_timeout(), Some(at(2)));
    assert_eq!(rig.wait_until(at(1)), "", "not yet");
    assert_eq!(rig.wait_until(at(2)), "+1 -0");
    assert_eq!(rig.wait_until(at(4)), "+2 -1");
    assert_eq!(rig.wait_until(at(6)), "+0 -2");
    rig.idle(1);
    assert_eq!(rig.orders(), "");
    assert_eq!(rig.wait_until(at(8)), "+2 -0", "the idle one is passed over");
    rig.idle(2);
    assert_eq!(rig.orders(), "+0 -2", "a turn ends early when there is nothing to do");
    assert!(rig.scheduler.hint_policy(PolicyHint::timeslice(ms(50)).unwrap()));
    assert!(!rig.scheduler.hint_policy(PolicyHint::K(2)));
}

// Grouping by process: all queues of the favoured process run, or everybody if it is idle.

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

struct EarliestDeadlines {
    k: usize,
}

impl EarliestDeadlines {
    fn deadline(queue: &QueueInfo) -> Instant {
        let deadline = queue.hints.deadline.map(|span| queue.report.ready_since + span);
        deadline.unwrap_or(Instant::FAR_FUTURE)
    }
}

impl Policy for EarliestDeadlines {
    fn name(&self) -> &'static str {
        "earliest_deadlines"
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::K(k) = hint else { return false };
        self.k = k as usize;
        true
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        for device in queues.devices() {
            let sooner = |than: &QueueInfo| {
                let key = |q: &QueueInfo| (Self::deadline(q), q.id);
                queues.on_device(device).filter(|q| q.ready && key(q) < key(than)).count()
            };
            for queue in queues.on_device(device) {
                let runs = queue.ready && sooner(queue) < self.k;
                out.set(queue.id, if runs { Verdict::Run } else { HOLD });
            }
        }
    }
}

#[test]
fn deadlines_count_from_readiness() {
    let mut rig = Rig::new(EarliestDeadlines { k: 1 });
    let deadline = |span| {
        let mut hints = Hints::default();
        hints.deadline = span;
        hints
    };
    let slow = rig.attach(deadline(Some(ms(100))));
    let fast = rig.attach(deadline(Some(ms(20))));
    let none = rig.attach(deadline(None));
    assert_eq!(rig.orders(), "-0 -1 -2", "this one holds idle queues");
    rig.ready(none);
    assert_eq!(rig.orders(), "+2");
    rig.ready(slow);
    assert_eq!(rig.orders(), "+0 -2");
    rig.now = at(79);
    rig.ready(fast);
    assert_eq!(rig.orders(), "+1 -0", "due at 99 ms, before 100 ms");
    rig.idle(fast);
    rig.now = at(81);
    rig.ready(fast);
    assert_eq!(rig.orders(), "+0 -1", "due at 101 ms this time");
    assert!(rig.scheduler.hint_policy(PolicyHint::K(2)));
    assert_eq!(rig.orders(), "+1");
}

// Laxity: a queue has one priority until it has been ready for a while, and another from then on.

struct LaxityFirst;

impl LaxityFirst {
    fn priority(queue: &QueueInfo, now: Instant, out: &mut Decisions<'_>) -> Priority {
        let Some(laxity) = queue.hints.laxity.filter(|_| queue.ready) else {
            return queue.hints.priority;
        };
        let critical = queue.report.ready_since + laxity.lax;
        if now >= critical {
            return laxity.critical_priority;
        }
        out.wake_at(critical);
        laxity.lax_priority
    }
}

impl Policy for LaxityFirst {
    fn name(&self) -> &'static str {
        "laxity_first"
    }

    fn decide(
        &mut self,
        now: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let ready = queues.iter().filter(|queue| queue.ready);
        let top = ready.map(|queue| Self::priority(queue, now, out)).max();
        for queue in queues.iter() {
            let runs = top.is_none_or(|top| Self::priority(queue, now, out) >= top);
            out.set(queue.id, if runs { Verdict::Run } else { HOLD });
        }
    }
}

#[test]
fn laxity_turns_into_urgency_when_time_has_passed() {
    let mut rig = Rig::new(LaxityFirst);
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
    assert_eq!(rig.orders(), "+0 -1");
    rig.ready(transcription);
    assert_eq!(rig.orders(), "", "lax again");
    assert_eq!(rig.scheduler.poll_timeout(), Some(at(600)));
}

// Utilisation: in each period a queue may use its share of device time, which is measured.

struct Shares {
    period: Duration,
    until: Instant,
}

impl Policy for Shares {
    fn name(&self) -> &'static str {
        "shares"
    }

    fn progress_every(&self) -> Option<Duration> {
        Some(ms(1))
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        // Word 0: device time used in this period.
        if let (Event::Progress { busy }, Some(data)) = (event, queues.data(queue)) {
            let [used, a, b, c, d] = data.get();
            data.set([used + busy.as_ns(), a, b, c, d]);
        }
    }

    fn decide(
        &mut self,
        now: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        if now >= self.until {
            self.until = now + self.period;
            for queue in queues.iter() {
                queues.data(queue.id).expect("in the table").set([0; 5]);
            }
        }
        let period = self.period.as_ns();
        each(queues, out, |queue| {
            let share = u64::from(queue.hints.utilization.unwrap_or(100));
            let [used, ..] = queues.data(queue.id).expect("in the table").get();
            used < period * share / 100
        });
        out.wake_at(self.until);
    }
}

#[test]
fn shares_of_measured_device_time_are_enforced() {
    let mut rig = Rig::new(Shares { period: ms(10), until: Instant::ZERO });
    let mut hints = Hints::default();
    hints.set_utilization(75).unwrap();
    let big = rig.attach(hints);
    hints.set_utilization(25).unwrap();
    let small = rig.attach(hints);
    rig.ready(big);
    rig.ready(small);
    let (_, order) = rig.scheduler.poll_order(rig.now).expect("progress is asked for");
    assert_eq!(order, Order::Progress { every: ms(1) });
    assert_eq!(rig.orders(), "");
    rig.now = at(4);
    rig.use_device(small, ms(2));
    assert_eq!(rig.orders(), "", "2 of 2.5 ms");
    rig.use_device(small, ms(1));
    assert_eq!(rig.orders(), "-1");
    rig.use_device(big, ms(7));
    assert_eq!(rig.orders(), "");
    rig.use_device(big, ms(1));
    assert_eq!(rig.orders(), "-0");
    assert_eq!(rig.wait_until(at(10)), "+0 +1", "a new period");
    rig.use_device(small, ms(3));
    assert_eq!(rig.orders(), "-1", "counted from the start of the period");
}

// Measured device time: weighted fair, whoever is too far ahead of the last holds.

struct Fair {
    lead: u64,
}

impl Fair {
    fn progress(queues: &QueueTable<'_>, queue: &QueueInfo) -> u64 {
        queues.data(queue.id).map_or(0, |data| data.get()[0])
    }
}

impl Policy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn progress_every(&self) -> Option<Duration> {
        Some(Duration::from_us(500))
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let (Some(info), Some(data)) = (queues.get(queue), queues.data(queue)) else { return };
        let mut words = data.get();
        match event {
            Event::Progress { busy } => words[0] += busy.as_ns() / u64::from(info.hints.weight),
            // Whoever comes back does not claim the time that it was idle for.
            Event::Ready => {
                let others = queues.iter().filter(|q| q.ready && q.id != queue);
                let least = others.map(|q| Self::progress(queues, q)).min();
                words[0] = words[0].max(least.unwrap_or(0));
            }
            _ => return,
        }
        data.set(words);
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let ready = queues.iter().filter(|queue| queue.ready);
        let least = ready.map(|queue| Self::progress(queues, queue)).min().unwrap_or(0);
        let lead = self.lead;
        each(queues, out, |queue| Self::progress(queues, queue) <= least + lead);
    }
}

#[test]
fn measured_device_time_is_shared_by_weight() {
    let mut rig = Rig::new(Fair { lead: ms(1).as_ns() });
    let light = rig.attach(Hints::default());
    let mut hints = Hints::default();
    hints.set_weight(3).unwrap();
    let heavy = rig.attach(hints);
    rig.ready(light);
    rig.ready(heavy);
    assert_eq!(rig.orders(), "");
    rig.use_device(light, ms(2));
    assert_eq!(rig.orders(), "-0", "2 ms ahead");
    rig.use_device(heavy, ms(3));
    assert_eq!(rig.orders(), "+0", "for a weight of 3 that counts as 1 ms");
    rig.use_device(heavy, ms(7));
    assert_eq!(rig.orders(), "-1");
    rig.idle(light);
    assert_eq!(rig.orders(), "+1", "nobody to wait for");
    rig.use_device(heavy, ms(90));
    rig.ready(light);
    assert_eq!(rig.orders(), "", "the time it was idle for is not made up");
}

// The policy's own words: each queue may become ready so many times.

struct Budget;

impl Policy for Budget {
    fn name(&self) -> &'static str {
        "budget"
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let Some(data) = queues.data(queue) else { return };
        let [left, rounds, ..] = data.get();
        match event {
            Event::Attached => data.set([2, 0, 0, 0, u64::MAX]),
            Event::Ready => data.set([left.saturating_sub(1), rounds + 1, 0, 0, u64::MAX]),
            Event::Hinted => {
                let weight = queues.get(queue).map_or(0, |info| info.hints.weight);
                data.set([u64::from(weight), 0, 0, 0, 0]);
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
            if let Some(data) = queues.data(queue) {
                out.set(queue, if data.get()[0] > 0 { Verdict::Run } else { HOLD });
            }
        };
        match changed {
            Changed::Some { queues, .. } => queues.iter().for_each(&mut judge),
            Changed::All => queues.iter().for_each(|queue| judge(queue.id)),
        }
    }
}

#[test]
fn each_queue_has_words_for_the_policy() {
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
    assert_eq!(rig.scheduler.table().data(id).unwrap().get(), [0, 2, 0, 0, u64::MAX]);
    let mut hints = Hints::default();
    hints.set_weight(4).unwrap();
    rig.scheduler.set_hints(rig.now, id, hints).unwrap();
    assert_eq!(rig.orders(), "+0");
    rig.scheduler.detach(rig.now, id).unwrap();
    let again = rig.attach(Hints::default());
    let (id, _) = rig.queues[again];
    assert_eq!(rig.scheduler.table().data(id).unwrap().get(), [2, 0, 0, 0, u64::MAX]);
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
    let mut policy = EarliestDeadlines { k: 1 };
    {
        let mut rig = Rig::new(&mut policy);
        let queue = rig.attach(Hints::default());
        assert_eq!(rig.orders(), "-0");
        rig.ready(queue);
        assert_eq!(rig.orders(), "+0");
        assert_eq!(rig.scheduler.policy().name(), "earliest_deadlines");
        assert!(rig.scheduler.policy().holds());
        assert!(rig.scheduler.hint_policy(PolicyHint::K(3)));
    }
    assert_eq!(policy.k, 3);
}
