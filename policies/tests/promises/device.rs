//! A device that does what it is told at once, and shares its time between those that may run.

use xsched_core::hint::{Hints, PolicyHint};
use xsched_core::id::{DeviceId, ProcessId, QueueId};
use xsched_core::message::Report;
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_policies::Any;

/// How finely time goes by.
pub(crate) const STEP: Duration = Duration::from_us(20);

/// Work of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// The queue never stops.
    Endless,
    /// The queue works and pauses.
    Pausing(Duration, Duration),
    /// The queue has this much to do in each period.
    Periodic(Duration, Duration),
}

/// A queue of the device.
pub(crate) struct Queue {
    id: QueueId,
    report: Report,
    load: Load,
    left: Duration,
    back: Instant,
    unreported: Duration,
    /// Device time that it had.
    pub(crate) used: Duration,
    waits_since: Instant,
    /// The longest time that it waited without running.
    pub(crate) longest: Duration,
    /// The longest time from becoming ready to being done.
    pub(crate) response: Duration,
}

/// The device, its queues and a scheduler.
pub(crate) struct Rig {
    /// The scheduler.
    pub(crate) scheduler: Scheduler<Any, Heap>,
    /// The queues in the order in which they came.
    pub(crate) queues: Vec<Queue>,
    now: Instant,
    every: Duration,
}

impl Rig {
    pub(crate) fn new(policy: &str, hint: Option<PolicyHint>) -> Self {
        let policy: Any = policy.parse().unwrap();
        let mut scheduler = Scheduler::new(policy, Heap::new(16, 1, 0));
        if let Some(hint) = hint {
            assert!(scheduler.hint_policy(hint));
        }
        let every = scheduler.policy().needs().progress_every.unwrap_or(Duration::from_ms(1));
        Self { scheduler, queues: Vec::new(), now: Instant::from_ns(1_000), every }
    }

    /// Adds a queue, in a process of its own.
    pub(crate) fn attach(&mut self, hints: Hints, load: Load) {
        let process = ProcessId(self.queues.len() as u32);
        let attach = Attach { device: DeviceId(0), process, hints, ..Attach::default() };
        let id = self.scheduler.attach(self.now, attach).unwrap();
        self.queues.push(Queue {
            id,
            report: Report::default(),
            load,
            left: Duration::ZERO,
            back: self.now,
            unreported: Duration::ZERO,
            used: Duration::ZERO,
            waits_since: self.now,
            longest: Duration::ZERO,
            response: Duration::ZERO,
        });
    }

    /// Time passes.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.come();
            self.scheduler.handle_timeout(self.now);
            while self.scheduler.poll_order(self.now).is_some() {}
            self.work();
            self.now += STEP;
        }
    }

    /// Queues whose pause is over become ready.
    fn come(&mut self) {
        for queue in &mut self.queues {
            if queue.left == Duration::ZERO && self.now >= queue.back {
                queue.left = match queue.load {
                    Load::Endless => Duration::from_ms(1),
                    Load::Pausing(work, _) | Load::Periodic(work, _) => work,
                };
                queue.waits_since = self.now;
                queue.report.ready_since = self.now;
                queue.report.submitted += 1;
                self.scheduler.handle_report(self.now, queue.id, &queue.report).unwrap();
            }
        }
    }

    /// Has those queues that may run share a step of device time.
    fn work(&mut self) {
        let table = self.scheduler.table();
        let runs = |queue: &Queue| {
            queue.left > Duration::ZERO && table.get(queue.id).is_some_and(|info| info.running)
        };
        let running: Vec<bool> = self.queues.iter().map(runs).collect();
        let part = STEP.per(running.iter().filter(|runs| **runs).count().max(1) as u64);
        for (queue, runs) in self.queues.iter_mut().zip(running) {
            if !runs {
                if queue.left > Duration::ZERO {
                    queue.longest = queue.longest.max(self.now.since(queue.waits_since));
                }
                continue;
            }
            queue.waits_since = self.now + STEP;
            queue.used += part;
            queue.unreported += part;
            if !matches!(queue.load, Load::Endless) {
                queue.left = if queue.left > part { queue.left - part } else { Duration::ZERO };
            }
            let done = queue.left == Duration::ZERO;
            if done || queue.unreported >= self.every {
                queue.report.busy += std::mem::take(&mut queue.unreported);
            }
            if done {
                let now = self.now + STEP;
                queue.response = queue.response.max(now.since(queue.report.ready_since));
                queue.back = match queue.load {
                    Load::Periodic(_, period) => queue.report.ready_since + period,
                    Load::Pausing(_, pause) => now + pause,
                    Load::Endless => now,
                };
                let submitted = queue.report.submitted;
                (queue.report.launched, queue.report.retired) = (submitted, submitted);
            }
            self.scheduler.handle_report(self.now, queue.id, &queue.report).unwrap();
        }
    }
}
