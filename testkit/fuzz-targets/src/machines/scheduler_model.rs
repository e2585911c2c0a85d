//! Model of a scheduler, which decides from scratch each time: every rule looks at all queues.

use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::message::Report;
use xsched_core::scheduler::SchedulerError;

/// A queue as the scheduler knows it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: QueueId,
    pub(super) device: u16,
    /// −256 never runs.
    pub(super) priority: i16,
    /// The last report that was delivered.
    pub(super) report: Report,
}

/// A wait that was admitted: a command of a queue, and its event.
type Wait = (QueueId, u64, EventRef);

/// The model.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) queues: Vec<Known>,
    pub(super) hpf: bool,
    waits: Vec<Wait>,
    /// Room for waits.
    room: usize,
}

impl Model {
    pub(super) fn new(hpf: bool, room: usize) -> Self {
        Self { queues: Vec::new(), hpf, waits: Vec::new(), room }
    }

    pub(super) fn get(&self, id: QueueId) -> Option<&Known> {
        self.queues.iter().find(|queue| queue.id == id)
    }

    pub(super) fn get_mut(&mut self, id: QueueId) -> Option<&mut Known> {
        self.queues.iter_mut().find(|queue| queue.id == id)
    }

    /// The event that a queue waits for, with the queue it belongs to, while it can still come.
    pub(super) fn awaits(&self, queue: &Known) -> Option<(EventRef, &Known)> {
        let event = queue.report.waiting?;
        let target = self.get(event.queue)?;
        let open = target.report.retired <= event.cmd.0 && !target.report.lost;
        open.then_some((event, target))
    }

    /// True if a queue has work that it could run if it were let.
    pub(super) fn is_ready(&self, queue: &Known) -> bool {
        self.is_ready_within(queue, self.queues.len())
    }

    /// No chain of waits is longer than there are queues.
    fn is_ready_within(&self, queue: &Known, links: usize) -> bool {
        let report = &queue.report;
        if !report.pending() || report.suspended || report.lost {
            return false;
        }
        match self.awaits(queue) {
            None => true,
            // What is launched does not wait for what its queue waits for now.
            Some((event, target)) if event.cmd.0 < target.report.launched => {
                target.report.pending() && !target.report.suspended
            }
            Some((event, target)) => {
                let submitted = target.report.submitted > event.cmd.0;
                submitted && links > 0 && self.is_ready_within(target, links - 1)
            }
        }
    }

    /// True if the policy itself lets a queue run.
    fn may_run(&self, queue: &Known) -> bool {
        if !self.hpf {
            return true;
        }
        let rivals = self.queues.iter().filter(|q| q.device == queue.device);
        let ready = rivals.filter(|q| q.priority > -256 && self.is_ready(q));
        let top = ready.map(|q| q.priority).max().unwrap_or(-255);
        queue.priority >= top
    }

    /// The queues that may run, by their own right or because a queue that runs waits for them.
    pub(super) fn running(&self) -> Vec<QueueId> {
        let own = self.queues.iter().filter(|q| self.may_run(q));
        let mut running: Vec<_> = own.map(|q| q.id).collect();
        for _ in 0..self.queues.len() {
            for queue in &self.queues {
                let lends = running.contains(&queue.id) && !queue.report.suspended;
                if let Some((_, target)) = self.awaits(queue).filter(|_| lends)
                    && !running.contains(&target.id)
                {
                    running.push(target.id);
                }
            }
        }
        running
    }

    /// True if a queue is on a circle of waits, or at the end of one. Such a circle is harmless if
    /// one of the events belongs to a command that is launched, and until that has retired those on
    /// it may lend each other the right to run.
    pub(super) fn is_on_circle(&self, queue: &Known) -> bool {
        self.queues.iter().any(|start| {
            let mut at = start;
            let mut seen = Vec::new();
            while let Some((_, next)) = self.awaits(at) {
                seen.push(at.id);
                at = next;
                if seen.contains(&at.id) {
                    return seen.contains(&queue.id);
                }
            }
            false
        })
    }

    fn is_open(&self, (waiter, cmd, event): &Wait) -> bool {
        let to_come = |id, n: u64| self.get(id).is_some_and(|q| q.report.retired <= n);
        to_come(*waiter, *cmd) && to_come(event.queue, event.cmd.0)
    }

    /// Returns whether `waiter` may wait for `event` with its next command, `cmd`.
    pub(super) fn admit(
        &mut self,
        waiter: QueueId,
        cmd: CmdId,
        event: EventRef,
    ) -> Result<bool, SchedulerError> {
        if self.get(waiter).is_none() {
            return Err(SchedulerError::UnknownQueue);
        }
        let target = self.get(event.queue).ok_or(SchedulerError::UnknownQueue)?;
        if event.queue == waiter {
            return if event.cmd < cmd { Ok(false) } else { Err(SchedulerError::WouldDeadlock) };
        }
        if target.report.retired > event.cmd.0 {
            return Ok(false);
        }
        let mut waits = std::mem::take(&mut self.waits);
        waits.retain(|wait| self.is_open(wait) && !(wait.0 == waiter && wait.1 >= cmd.0));
        self.waits = waits;
        if self.needs(event, waiter, cmd) {
            return Err(SchedulerError::WouldDeadlock);
        }
        if self.waits.len() >= self.room {
            return Err(SchedulerError::WaitTableFull);
        }
        self.waits.push((waiter, cmd.0, event));
        Ok(true)
    }

    /// True if `event` cannot come before command `cmd` of `queue` has retired: follows every wait
    /// on the way, in every order.
    fn needs(&self, event: EventRef, queue: QueueId, cmd: CmdId) -> bool {
        let mut seen = Vec::new();
        let mut open = vec![event];
        while let Some(event) = open.pop() {
            if event.queue == queue && event.cmd >= cmd {
                return true;
            }
            if seen.contains(&event) {
                continue;
            }
            seen.push(event);
            let before = |wait: &&Wait| wait.0 == event.queue && wait.1 <= event.cmd.0;
            open.extend(self.waits.iter().filter(before).map(|wait| wait.2));
        }
        false
    }
}
