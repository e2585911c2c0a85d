//! The scheduler's work: many queues on one device, and events that do or do not cause orders.

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::QueueId;
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::rng::SplitMix64;
use xsched_core::scheduler::{Attach, Heap, Scheduler, SchedulerError};
use xsched_core::time::{Duration, Instant};
use xsched_policies::Any;

use crate::measure::cpu_time;

/// How many queues there are.
pub const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// The queue that all others hold for, while it is ready.
const TOP: usize = 0;
/// Priorities of the others: this many different ones, from the lowest on.
const OTHERS: u64 = 500;
/// Number of the highest.
const HIGHEST: usize = 8;
/// Events that are prepared at a time.
const BATCH: usize = 1_000;

/// Events that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Queues become ready and idle below one that stays ready: no verdict changes.
    Low,
    /// The top queue becomes ready and idle while no other is ready: by priority, all others are
    /// held and released.
    Top,
    /// One of the highest queues becomes ready or idle, while no other is ready: by priority, some
    /// are held and released.
    High,
    /// A queue goes and another one comes in its place, below one that stays ready.
    Replace,
    /// A queue below one that stays ready gets another priority.
    Hints,
}

impl Work {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Low, Self::Top, Self::High, Self::Replace, Self::Hints];

    /// True if the event is the report of a queue.
    #[must_use]
    pub const fn is_report(self) -> bool {
        matches!(self, Self::Low | Self::Top | Self::High)
    }

    /// Name of the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "report of a low queue",
            Self::Top => "report of the top queue",
            Self::High => "report of a high queue",
            Self::Replace => "detach and attach",
            Self::Hints => "set hints",
        }
    }
}

/// An event, ready for the scheduler.
#[derive(Clone, Copy, Debug)]
enum Input {
    Report(QueueId, Report),
    /// By its place.
    Replace(usize, Priority),
    Hints(QueueId, Priority),
}

/// A scheduler with queues whose reports and events the bench makes up.
#[derive(Debug)]
pub struct Crowd {
    scheduler: Scheduler<Any, Heap>,
    ids: Vec<QueueId>,
    reports: Vec<Report>,
    /// Queues that are the highest, with different priorities.
    highest: Vec<usize>,
    inputs: Vec<Input>,
    rng: SplitMix64,
    now: Instant,
}

impl Crowd {
    /// Makes queues under a policy, ready for this work.
    ///
    /// # Errors
    /// If the scheduler refuses them.
    pub fn new(policy: Any, queues: usize, work: Work) -> Result<Self, SchedulerError> {
        let mut crowd = Self {
            scheduler: Scheduler::new(policy, Heap::new(queues, 1, 0)),
            ids: Vec::with_capacity(queues),
            reports: vec![Report::default(); queues],
            highest: Vec::new(),
            inputs: Vec::with_capacity(BATCH),
            rng: SplitMix64::new(7),
            now: Instant::ZERO,
        };
        let mut priorities = Vec::with_capacity(queues);
        for index in 0..queues {
            let priority = if index == TOP { Priority::MAX } else { crowd.priority() };
            let id = crowd.attach(priority)?;
            crowd.ids.push(id);
            priorities.push((priority, index));
        }
        priorities.sort_unstable_by(|one, other| other.cmp(one));
        priorities.dedup_by_key(|(priority, _)| *priority);
        crowd.highest.extend(priorities.iter().take(HIGHEST + 1).map(|(_, index)| *index));
        // Below those that come and go there is always one that stays.
        let base = crowd.highest.pop();
        let stays = match work {
            Work::Low | Work::Replace | Work::Hints => Some(TOP),
            Work::High => base,
            Work::Top => None,
        };
        if let Some(index) = stays {
            let (id, report) = crowd.toggled(index);
            crowd.scheduler.handle_report(crowd.now, id, &report)?;
        }
        crowd.acknowledge()?;
        Ok(crowd)
    }

    /// A priority below the highest.
    fn priority(&mut self) -> Priority {
        Priority::from_rank(Priority::MIN.rank() + self.rng.below(OTHERS) as usize)
    }

    fn attach(&mut self, priority: Priority) -> Result<QueueId, SchedulerError> {
        let hints = Hints::with_priority(priority);
        self.scheduler.attach(self.now, Attach { hints, ..Attach::default() })
    }

    /// Takes all orders; returns how many there were.
    fn drain(&mut self) -> u64 {
        let mut orders = 0;
        while self.scheduler.poll_order(self.now).is_some() {
            orders += 1;
        }
        orders
    }

    /// Every queue obeys its orders and says so.
    fn acknowledge(&mut self) -> Result<(), SchedulerError> {
        while let Some((id, order)) = self.scheduler.poll_order(self.now) {
            let report = &mut self.reports[id.index()];
            report.epoch = order.epoch().unwrap_or(report.epoch);
            if let Order::Hold { level, .. } = order {
                report.hold = HoldState::Held(level);
            }
        }
        for (id, report) in self.ids.iter().zip(&self.reports) {
            self.scheduler.handle_report(self.now, *id, report)?;
        }
        self.drain();
        Ok(())
    }

    /// The report of a queue that becomes ready if it was idle, and idle if it was ready.
    fn toggled(&mut self, index: usize) -> (QueueId, Report) {
        self.now += Duration::from_us(1);
        let report = &mut self.reports[index];
        if report.pending() {
            report.launched = report.submitted;
            report.retired = report.submitted;
        } else {
            report.submitted += 1;
            report.ready_since = self.now;
        }
        (self.ids[index], *report)
    }

    /// Makes up the next events, at most 1,000, so that this is not measured: in life, a report
    /// comes from a queue that has just written it.
    pub fn prepare(&mut self, work: Work, count: u64) {
        self.inputs.clear();
        for _ in 0..count.min(BATCH as u64) {
            let other = 1 + self.rng.below(self.ids.len() as u64 - 1) as usize;
            let high = self.highest[self.rng.below(self.highest.len() as u64) as usize];
            let priority = self.priority();
            let report = |(id, report)| Input::Report(id, report);
            let input = match work {
                Work::Low => report(self.toggled(other)),
                Work::Top => report(self.toggled(TOP)),
                Work::High => report(self.toggled(high)),
                Work::Replace => Input::Replace(other, priority),
                Work::Hints => Input::Hints(self.ids[other], priority),
            };
            self.inputs.push(input);
        }
    }

    /// Gives the prepared events to the scheduler and takes all orders that each causes; returns
    /// how many orders those are.
    ///
    /// # Errors
    /// If the scheduler refuses something, which it does not.
    pub fn play(&mut self) -> Result<u64, SchedulerError> {
        let mut orders = 0;
        let inputs = std::mem::take(&mut self.inputs);
        for input in &inputs {
            match *input {
                Input::Report(id, ref report) => {
                    self.scheduler.handle_report(self.now, id, report)?;
                }
                Input::Hints(id, priority) => {
                    let hints = Hints::with_priority(priority);
                    self.scheduler.set_hints(self.now, id, hints)?;
                }
                Input::Replace(index, priority) => {
                    self.scheduler.detach(self.now, self.ids[index])?;
                    orders += self.drain();
                    self.ids[index] = self.attach(priority)?;
                }
            }
            orders += self.drain();
        }
        self.inputs = inputs;
        Ok(orders)
    }

    /// Plays `count` events; returns the time that they took, without that for preparing them, and
    /// how many orders they caused.
    ///
    /// # Errors
    /// As [`Crowd::play`].
    pub fn events(
        &mut self,
        work: Work,
        count: u64,
    ) -> Result<(std::time::Duration, u64), SchedulerError> {
        let (mut time, mut orders) = (std::time::Duration::ZERO, 0);
        for done in (0..count).step_by(BATCH) {
            self.prepare(work, count - done);
            let start = cpu_time();
            orders += self.play()?;
            time += cpu_time() - start;
        }
        Ok((time, orders))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(policy: &str, work: Work, queues: usize, events: u64) -> u64 {
        let policy = policy.parse().unwrap();
        Crowd::new(policy, queues, work).unwrap().events(work, events).unwrap().1
    }

    #[test]
    fn each_work_causes_the_orders_that_it_says() {
        for queues in [10, 100] {
            assert_eq!(orders("hpf", Work::Low, queues, 1_000), 0);
            assert_eq!(orders("hpf", Work::Hints, queues, 1_000), 0);
            assert_eq!(orders("hpf", Work::Top, queues, 10), 10 * (queues as u64 - 1));
            assert_eq!(orders("hpf", Work::Replace, queues, 1_000), 1_000);
            let some = orders("hpf", Work::High, queues, 1_000);
            assert!((300..1_000 * queues as u64 / 2).contains(&some), "{some}");
            for work in Work::ALL {
                assert_eq!(orders("fcfs", work, queues, 1_000), 0);
            }
        }
    }
}
