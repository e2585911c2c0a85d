//! Cost of a policy's decision by itself: the time is taken inside the scheduler, around each
//! call of the policy.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use xsched_core::hint::{Hints, PolicyHint, Priority};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::message::Report;
use xsched_core::policy::{Changed, Decisions, Event, Needs, Policy, policy_state};
use xsched_core::rng::SplitMix64;
use xsched_core::scheduler::{Attach, Heap, QueueTable, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};
use xsched_policies::Any;

policy_state! {
    /// The first word of what a policy keeps for a queue.
    struct Word {
        first: u64,
    }
}

/// Times of calls of `decide`, in nanoseconds, less that of the clock.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Calls for one queue.
    pub one: Vec<f64>,
    /// Calls for everything.
    pub all: Vec<f64>,
    /// Calls for everything, of a policy that was just put in charge.
    pub new: Vec<f64>,
}

/// A policy whose calls are timed.
#[derive(Clone, Debug)]
struct Timed {
    policy: Any,
    times: Rc<RefCell<Times>>,
    clock_ns: f64,
    new: bool,
}

impl Policy for Timed {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn needs(&self) -> Needs {
        self.policy.needs()
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.policy.configure(hint)
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.policy.observe(now, queue, event, queues);
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let begun = std::time::Instant::now();
        self.policy.decide(now, changed, queues, out);
        let ns = begun.elapsed().as_nanos() as f64 - self.clock_ns;
        let mut times = self.times.borrow_mut();
        match changed {
            Changed::Some { queues, .. } if queues.iter().count() == 1 => times.one.push(ns),
            Changed::Some { .. } => {}
            Changed::All if std::mem::take(&mut self.new) => times.new.push(ns),
            Changed::All => times.all.push(ns),
        }
    }
}

/// Cost of taking the time twice, in nanoseconds: the median of many.
#[must_use]
pub fn clock_ns() -> f64 {
    let mut spans: Vec<_> =
        (0..10_001).map(|_| std::time::Instant::now().elapsed().as_nanos() as f64).collect();
    median(&mut spans)
}

/// The median; 0 of nothing.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A scheduler with many queues on one device, and reports that the bench makes up.
#[derive(Debug)]
pub struct Rig {
    scheduler: Scheduler<Timed, Heap>,
    queues: Vec<(QueueId, Report)>,
    policy: Any,
    times: Rc<RefCell<Times>>,
    rng: SplitMix64,
    now: Instant,
}

impl Rig {
    /// Makes `queues` queues with hints of all kinds; of `ready_of` consecutive ones, one is ready.
    ///
    /// # Errors
    /// None, unless the scheduler is broken.
    pub fn new(policy: Any, queues: usize, ready_of: usize) -> Result<Self, SchedulerError> {
        let times = Rc::<RefCell<Times>>::default();
        let timed = Timed {
            policy: policy.clone(),
            times: Rc::clone(&times),
            clock_ns: clock_ns(),
            new: false,
        };
        let mut scheduler = Scheduler::new(timed, Heap::new(queues, 1, 0));
        // Its queues do not say what they retire.
        scheduler.hint_policy(PolicyHint::Stall(None));
        let rng = SplitMix64::new(7);
        let (queues_of, now) = (Vec::new(), Instant::from_ns(1_000_000));
        let mut rig = Self { scheduler, queues: queues_of, policy, times, rng, now };
        for number in 0..queues {
            let attach = Attach {
                device: DeviceId(0),
                process: ProcessId((number % 8) as u32),
                hints: rig.hints(),
                ..Attach::default()
            };
            let id = rig.scheduler.attach(rig.now, attach)?;
            rig.queues.push((id, Report::default()));
        }
        for number in (0..queues).step_by(ready_of.max(1)) {
            rig.toggle(number)?;
        }
        rig.settle();
        *rig.times.borrow_mut() = Times::default();
        Ok(rig)
    }

    fn hints(&mut self) -> Hints {
        let mut hints = Hints::default();
        let mut below = |n: u64| self.rng.next_u64() % n;
        hints.priority = Priority::new(below(64) as i32).unwrap_or_default();
        hints.weight = 1 + below(100) as u32;
        hints.deadline = Some(Duration::from_us(100 + below(100_000)));
        hints
    }

    /// A queue becomes ready, or idle, after a moment.
    fn toggle(&mut self, number: usize) -> Result<(), SchedulerError> {
        self.now += Duration::from_us(1);
        let (id, report) = &mut self.queues[number];
        if report.submitted == report.retired {
            (report.submitted, report.ready_since) = (report.submitted + 1, self.now);
        } else {
            (report.launched, report.retired) = (report.submitted, report.submitted);
            report.busy += Duration::from_us(1);
        }
        self.scheduler.handle_report(self.now, *id, report)
    }

    fn settle(&mut self) {
        self.scheduler.handle_timeout(self.now);
        while self.scheduler.poll_order(self.now).is_some() {}
    }

    /// Takes the nearest caches for what no decision looks at first.
    fn look_elsewhere(&self) {
        let table = self.scheduler.table();
        for info in table.iter() {
            black_box((
                info.report,
                table.verdict(info.id),
                table.state::<Word>(info.id).map(|state| state.get().first),
            ));
        }
    }

    /// Reports of single queues, drawn, full decisions, and such of policies that were just put in
    /// charge; what they took.
    ///
    /// # Errors
    /// None, unless the scheduler is broken.
    pub fn measure(&mut self, one: usize, all: usize) -> Result<Times, SchedulerError> {
        for _ in 0..one {
            let number = self.rng.next_u64() as usize % self.queues.len();
            // There and back, so that as many stay ready.
            for _ in 0..2 {
                self.toggle(number)?;
                self.settle();
            }
        }
        for _ in 0..all {
            self.scheduler.reconsider_all();
            self.look_elsewhere();
            self.settle();
        }
        let clock_ns = clock_ns();
        for _ in 0..all {
            let (policy, times) = (self.policy.clone(), Rc::clone(&self.times));
            self.scheduler.set_policy(Timed { policy, times, clock_ns, new: true });
            self.settle();
        }
        Ok(std::mem::take(&mut *self.times.borrow_mut()))
    }
}
