//! Partition of processes. Defects: a process that comes during a slice is not held before the next
//! one, and all devices count as one.

use std::collections::{BTreeMap, VecDeque};

use xsched_core::hint::PolicyHint;
use xsched_core::id::{ProcessId, QueueId};
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

use super::{Algorithm, HOLD, RUN};

#[derive(Debug)]
struct Process {
    id: ProcessId,
    /// Time that it did not use, in nanoseconds.
    carried: u64,
}

#[derive(Debug)]
pub(crate) struct Pup {
    timeslice: Duration,
    shares: BTreeMap<ProcessId, u64>,
    line: VecDeque<Process>,
    /// Until when the first in the line runs, if it does.
    until: Option<Instant>,
}

impl Default for Pup {
    fn default() -> Self {
        let timeslice = Duration::from_ms(5);
        Self { timeslice, shares: BTreeMap::new(), line: VecDeque::new(), until: None }
    }
}

impl Pup {
    fn follow(&mut self, queues: &QueueTable<'_>) {
        let front = self.line.front().map(|process| process.id);
        self.line.retain(|process| queues.of_process(process.id).next().is_some());
        if self.line.front().map(|process| process.id) != front {
            self.until = None;
        }
        for queue in queues.iter() {
            if self.line.iter().all(|process| process.id != queue.process) {
                self.line.push_back(Process { id: queue.process, carried: 0 });
            }
        }
    }

    fn share_of(&self, process: ProcessId) -> u64 {
        self.shares.get(&process).copied().unwrap_or(1)
    }

    /// The slice of the process in front, in nanoseconds, without what it carries.
    fn slice(&self) -> u64 {
        let all: u64 = self.line.iter().map(|process| self.share_of(process.id)).sum();
        let own = self.line.front().map_or(0, |process| self.share_of(process.id));
        self.timeslice.as_ns() * self.line.len() as u64 * own / all.max(1)
    }

    /// Puts the first process with work in front. Those without it are passed over, and get a
    /// slice to carry.
    fn rotate(&mut self, ready: impl Fn(ProcessId) -> bool) -> bool {
        for _ in 0..self.line.len() {
            if self.line.front().is_some_and(|process| ready(process.id)) {
                return true;
            }
            let slice = self.slice();
            if let Some(mut process) = self.line.pop_front() {
                process.carried += slice;
                self.line.push_back(process);
            }
        }
        false
    }

    /// Carries a rest beyond a slice, less a tenth.
    fn spend(&mut self) -> Duration {
        let slice = self.slice();
        let Some(front) = self.line.front_mut() else { return Duration::ZERO };
        let carried = std::mem::take(&mut front.carried);
        let excess = carried.saturating_sub(slice);
        Duration::from_ns(slice + carried - excess + excess * 9 / 10)
    }
}

impl Algorithm for Pup {
    const NAME: &'static str = "pup";

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::Timeslice(timeslice) = hint else { return false };
        self.timeslice = timeslice;
        true
    }

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        if let (Event::Attached | Event::Hinted, Some(info)) = (event, queues.get(queue))
            && let Some(share) = info.hints.utilization
        {
            self.shares.insert(info.process, u64::from(share));
        }
    }

    fn decide(&mut self, now: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        self.follow(queues);
        let ready = |process| queues.of_process(process).any(|queue| queue.ready);
        let works = self.line.front().is_some_and(|process| ready(process.id));
        if let Some(until) = self.until {
            if works && now < until {
                // The defect: a queue that has come since is left as it is, which is running.
                return out.wake_at(until);
            }
            if let Some(mut process) = self.line.pop_front() {
                process.carried += until.since(now).as_ns();
                self.line.push_back(process);
            }
        }
        if !self.rotate(ready) {
            self.until = None;
            return;
        }
        let until = now + self.spend();
        self.until = Some(until);
        let front = self.line.front().map(|process| process.id);
        for queue in queues.iter() {
            out.set(queue.id, if Some(queue.process) == front { RUN } else { HOLD });
        }
        out.wake_at(until);
    }
}
